"""What a person may want of the chat itself, rather than of what was said in it."""

from __future__ import annotations

import re

_LEAD = re.compile(r"(?i)^(?:(?:and|please|so|ok|okay|hey|hi|hello)\b[\s,]+)+(?=\S)")

INTENTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(f"(?is){pattern}"))
    for name, pattern in (
        (
            "greeting",
            (
                r"(?:hi|hello|hey|good (?:morning|evening|afternoon)|hallo|moin|guten tag|你好)(?: there|"
                r" you)?"
            ),
        ),
        ("thanks", r"(?:many )?(?:thanks|thank you|thx|danke|谢谢)\b.*"),
        ("goodbye", r"(?:bye|goodbye|good night|see you|tschüss)\b.*"),
        ("mood", r"how are you\b.*|how do you do|how(?:['’]s| is) it going"),
        (
            "document",
            (
                r"(?:summari[sz]e|describe|read|explain|look at|what(?:['’]s| is| does)(?: in)?|"
                r"tell me about)\b.*"
                r"\b(?:this|it|that|document|file|attachment|attached|text|input)\b.*"
            ),
        ),
        (
            "identity",
            (
                r"(?:who|what) are you\b.*|help|what can (?:you|i) (?:do|try)\b.*|how (?:do|does) (?:you|"
                r"this) work\b.*|"
                r"what is this|are you (?:a|an|real|human)\b.*|what(?:['’]?s| is) your name\b.*|"
                r"introduce yourself\b.*|"
                r"what model are you\b.*"
            ),
        ),
        ("view", r"(?:what|how many (?:turns|messages)) (?:can|do) you see\b.*"),
        (
            "about me",
            (
                r"what (?:do you (?:know|remember)(?: about (?:me|us))?|have i told you(?: so far)?|"
                r"facts do you (?:have|know)\b.*)|(?:list|show)(?: me)? (?:the |my )?(?:stored )?facts"
            ),
        ),
        (
            "first message",
            (r"what (?:was|is) (?:my|the) first (?:message|question|thing)\b.*|what did i (?:say|ask) first"),
        ),
        (
            "last message",
            (
                r"what (?:was|is) (?:my|the) (?:last|latest|previous) (?:message|question|thing)\b.*|"
                r"what did i (?:just )?(?:say|ask|write)(?: last| before| just now)?"
            ),
        ),
        (
            "recap",
            (
                r"(?:summari[sz]e|recap|sum up)\b.*\b(?:conversation|chat|talk|discussion|so far|"
                r"everything|"
                r"us)\b.*|"
                r"what (?:have|did) we talk(?:ed)? about\b.*"
            ),
        ),
        (
            "about",
            (
                r"(?:tell me )?what (?:did|have|had) (?:i|we) (?:say|said|tell|told|mention|mentioned|"
                r"write|"
                r"discuss|"
                r"discussed|talk|talked)(?: to)?(?: you)? (?:about |of |on )(?P<topic>.+)"
            ),
        ),
        ("about", r"(?:what do you (?:know|remember) about|what about) (?P<topic>.+)"),
    )
)


def strip(clause: str) -> str:
    """Return a clause without the words that only lead to it and the signs at its end."""
    return _LEAD.sub("", clause).rstrip(" ?!.,")


def intent(clause: str) -> tuple[str, str]:
    """Return what a clause wants of the chat and, where it names one, the topic; ("", "") when nothing."""
    for name, pattern in INTENTS:
        match = pattern.fullmatch(strip(clause))
        if match:
            return name, match.groupdict().get("topic") or ""
    return "", ""
