"""Questions about the time and the date, and the time zones of the places they name."""

from __future__ import annotations

import re

_ZONES = """
    Africa/Cairo Africa/Johannesburg Africa/Lagos Africa/Nairobi America/Bogota America/Chicago
    America/Denver America/Lima America/Los_Angeles America/Mexico_City America/New_York
    America/Sao_Paulo America/Santiago America/Toronto America/Vancouver Asia/Bangkok Asia/Dubai
    Asia/Hong_Kong Asia/Istanbul Asia/Jakarta Asia/Jerusalem Asia/Kabul Asia/Karachi Asia/Kathmandu
    Asia/Kolkata Asia/Manila Asia/Seoul Asia/Shanghai Asia/Singapore Asia/Taipei Asia/Tehran Asia/Tokyo
    Atlantic/Reykjavik Australia/Melbourne Australia/Perth Australia/Sydney Europe/Amsterdam
    Europe/Athens Europe/Berlin Europe/Brussels Europe/Bucharest Europe/Budapest Europe/Copenhagen
    Europe/Dublin Europe/Helsinki Europe/Kyiv Europe/Lisbon Europe/London Europe/Madrid Europe/Moscow
    Europe/Oslo Europe/Paris Europe/Prague Europe/Rome Europe/Stockholm Europe/Vienna Europe/Warsaw
    Europe/Zurich Pacific/Auckland Pacific/Honolulu
"""
_OTHER_NAMES = """
    Asia/Shanghai: beijing, china; Asia/Tokyo: japan, kyoto, osaka; Asia/Seoul: korea, south korea;
    Asia/Kolkata: india, mumbai, delhi, new delhi, bangalore; Europe/Rome: italy, milan; Europe/Berlin:
    germany, munich, hamburg, frankfurt, cologne; Europe/Paris: france; Europe/London: uk, england;
    Europe/Madrid: spain, barcelona; Europe/Oslo: norway, bergen; Europe/Stockholm: sweden;
    Europe/Zurich: geneva, switzerland, bern; America/New_York: nyc, washington, boston, miami, atlanta,
    philadelphia; America/Los_Angeles: san francisco, seattle, california, la; America/Chicago: dallas,
    houston, texas; America/Sao_Paulo: rio, rio de janeiro; UTC: utc, gmt, greenwich; Pacific/Auckland:
    wellington, new zealand; Australia/Sydney: canberra; Africa/Johannesburg: cape town, south africa
"""
_BY_PLACE = {zone.rsplit("/", 1)[1].replace("_", " ").casefold(): zone for zone in _ZONES.split()}
_BY_PLACE |= {
    name.strip(): zone.strip()
    for zone, _, names in (entry.partition(":") for entry in " ".join(_OTHER_NAMES.split()).split(";"))
    for name in names.split(",")
}

_ASKING = re.compile(
    r"(?i)^(?:(?:hey|hi|hello|please|and|so|also|ok|(?:tell|give|show) me|(?:can|could) you|do you know|"
    r"i need|check)\b[\s,]*)+"
)
_END = re.compile(r"(?i)[\s,]+(?:right now|now|please|(?<!is )today|at the moment)$")
_PLACES = r"(?: right now| now| today| there| currently)*(?P<places>(?: (?:in|at|for) .+)?)"
_QUESTIONS = tuple(
    re.compile(f"(?i){question}{_PLACES}")
    for question in (
        r"what (?:time|hour|day|date|month|year|weekday)(?: of the week)? (?:is it|is today)",
        (
            r"(?:what(?:['’]?s| is) )?(?:the )?(?:(?:current|local|exact) )*(?:time|date|weekday)"
            r"(?: and (?:the )?(?:date|time))?"
        ),
        r"(?:what(?:['’]?s| is) )?today['’]s (?:date|day)",
        r"what(?:['’]?s| is) today",
        r"how late is it",
    )
)


def clocks(text: str) -> list[str]:
    """Return the time zones whose clock a clause asks for; "" stands for the machine's own."""
    asked = _ASKING.sub("", text.strip()).rstrip(" ?!.,")
    while _END.search(asked[-40:]):
        asked = _END.sub("", asked).rstrip(" ?!.,")
    if len(asked) > 200 or asked.lower() in ("time", "date"):
        return []
    for question in _QUESTIONS:
        match = question.fullmatch(asked)
        if match:
            named = re.split(r"(?:^|,|&|\band\b|\bor\b)\s*(?:in|at|for)?\b\s*", match["places"].strip())
            places = [place.strip() for place in named if place.strip()]
            if any(re.match(r"(?i)(?:the|my|our|your|a|this|that)\b", place) for place in places):
                return []  # "the time for the meeting" is no question about a clock
            return list(dict.fromkeys(map(zone, places))) or [""]
    return []


def zone(place: str) -> str:
    """Return the IANA time zone of a place; an unknown one as it was written, for the tool to judge."""
    place = " ".join(place.split())
    if "/" in place or "_" in place:
        return place
    return _BY_PLACE.get(place.casefold()) or " ".join(word.capitalize() for word in place.split())
