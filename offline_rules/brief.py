"""A brief of a conversation: the sentences that were said and carry something, and nothing else.

Names, numbers, decisions, promises and open questions stay; pleasantries go. Nothing is rephrased. What
tools returned and documents said is left out on purpose: it is untrusted, and a brief speaks from the
system message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from offline_rules.language import STOPWORDS, is_question, is_request, sentences, word_set, words
from offline_rules.matching import FACT
from offline_rules.reading import OWN, SAID, SUMMARY, Sight, clip, unfence

LONGEST = 300
"""Characters of one line; a longer sentence is cut."""

_DECIDES = re.compile(
    r"(?i)\b(?:decid|agree|chose|choos|settl|let['’]?s|go(?:ing)? with|went with|promis|commit|deadline|"
    r"must|will|"
    r"shall|plan|due|approv|reject|cancel|moved? to|changed? to|instead|final)|['’]ll\b"
)
_OPEN = re.compile(
    r"(?i)\b(?:open question|undecided|unclear|not sure yet|still (?:need|have|open|to)|to be (?:decided|"
    r"done)|tbd)\b"
)
_OF_THE_PERSON = re.compile(
    r"(?i)\b(?:my|our)\b.{1,60}\b(?:is|are|was|were)\b|\bi(?:['’]m| am| live| work| prefer| have| need)\b"
)
_PERSONAL = re.compile(r"(?i)\b(?:my|our|i|we|user)\b|=|:\s")
_IDENTIFIES = re.compile(
    r"(?i)\d|\w[/_.@\\-]\w|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|"
    r"hundred)\b"
)
_NAMES = re.compile(r"(?<=[\w,;:’'] )(?!I\b)[A-Z][\w-]+|\b[A-Z]{2,}\b")
_STATES = re.compile(r"(?i)\b(?:is|are|was|were|equals)\b|^(?:the|our|my) ")
_QUOTES = re.compile(f"{SAID}|{SUMMARY}|{FACT}")  # what the stand-in quoted is in the brief, or will be
_PLEASANT = word_set("""
    thanks thank nice great good interesting helps help cool fine sorry welcome bye goodbye morning lovely
    sure perfect else think talk talking day weather long tired
""")
# What `summarizing.SUMMARY_JUNK` refuses in a summary or at its beginning, and marks for what is missing.
_JUNK = re.compile(r"(?i)<\||</?\s*(?:tool|function|invoke)|\"(?:tool_calls|function_call)\"\s*:|^\[.*\]$")
_JUNK_FIRST = re.compile(
    r"(?i)\W*(?:\{|<|\w*error|\w*exception|fatal|traceback|\d{3}\s|internal|bad gateway|service un|"
    r"too many|sorry|"
    r"i['’]?m sorry|i apolog)"
)


class _Line(NamedTuple):
    text: str
    worth: int


def brief(previous: str | None, dropped: Sequence[Mapping[str, Any]], *, max_tokens: int) -> str:
    """Write the new brief: what is worth keeping of the old one, then of the messages that were dropped.

    Args:
        previous: the brief so far, if there is one.
        dropped: messages in wire form, oldest first.
        max_tokens: the cap, in tokens by a cautious estimate (`cautious_tokens`).

    Returns:
        Lines, oldest first; never longer than what went in. When not all fit, the least telling go,
        and of lines that tell as much the oldest and the newest stay before those in between.
    """
    lines = _unique([*_kept(previous or ""), *_said(dropped)])
    if not any(line.worth for line in lines):
        lines = [line._replace(worth=2) for line in lines[:2]]  # of small talk alone its beginning
    lines = [line for line in lines if line.worth]
    while lines and _JUNK_FIRST.match(lines[0].text):
        lines.pop(0)
    given = len(previous or "") + sum(len(str(message.get("content") or "")) for message in dropped)
    order = sorted(range(len(lines)), key=lambda at: (-lines[at].worth, min(at, len(lines) - 1 - at)))
    chosen: list[int] = []
    tokens = characters = -1  # the first line has no line break before it
    for at in order:
        text, worth = lines[at]
        cost = cautious_tokens(text) + 1
        # What tells little may fill a half, so that a brief does not grow to its cap for nothing.
        room = max_tokens if worth > 1 else max_tokens // 2
        if tokens + cost <= room and characters + 1 + len(text) <= given:
            chosen.append(at)
            tokens += cost
            characters += 1 + len(text)
    if not chosen and lines:
        return _clipped(lines[order[0]].text, max_tokens, given)
    return "\n".join(lines[at].text for at in sorted(chosen))


def _clipped(text: str, max_tokens: int, characters: int) -> str:
    """As many words from the beginning of a line as fit, so that a tight cap still leaves something."""
    kept = ""
    for word in text.split():
        longer = f"{kept} {word}".strip()
        if cautious_tokens(longer) > max_tokens or len(longer) > characters:
            break
        kept = longer
    return kept


def _kept(previous: str) -> Iterator[_Line]:
    for line in previous.splitlines():
        for text in [line.strip()] if len(line) <= LONGEST else sentences(line):
            if text and not _JUNK.search(text):
                yield _Line(clip(text, LONGEST), max(1, _worth(text)))


def _said(dropped: Sequence[Mapping[str, Any]]) -> Iterator[_Line]:
    for at, message in enumerate(dropped):
        role, text = message.get("role"), message.get("content")
        if role not in ("user", "assistant") or not isinstance(text, str):
            continue
        text = unfence(text)[1]
        if role == "assistant" and (OWN.search(text) or _QUOTES.search(text)):
            continue
        is_open = role == "user" and not _is_answered(dropped[at + 1 :])
        for sentence in sentences(text):
            asks = is_question(sentence) or is_request(sentence)
            if _JUNK.search(sentence) or (asks and not is_open):
                continue
            shown = clip(sentence, LONGEST)
            worth = _worth(sentence)
            yield _Line(
                shown if role == "user" else f"Assistant: {shown}", worth + 1 if asks and worth else worth
            )


def _is_answered(later: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether an answer came before the next question, and not just "I cannot see it"."""
    for message in later:
        if message.get("role") == "user":
            return False
        if message.get("role") == "assistant" and message.get("content"):
            return not re.search(r"cannot see|do(?: not|n['’]t) know|not sure", str(message["content"]))
    return False


def _worth(sentence: str) -> int:
    """How much a sentence carries that cannot be guessed; 0 for small talk."""
    telling = [word for word in words(sentence) if word not in STOPWORDS and word not in _PLEASANT]
    if not telling:
        return 0
    worth = 3 * bool(_DECIDES.search(sentence)) + 3 * bool(_OPEN.search(sentence))
    worth += 2 * bool(_IDENTIFIES.search(sentence)) + 2 * bool(_NAMES.search(sentence))
    worth += 3 * bool(_OF_THE_PERSON.search(sentence))
    worth += bool(_PERSONAL.search(sentence)) + bool(_STATES.search(sentence))
    return worth + (len(telling) > 2)


def _unique(lines: Iterable[_Line]) -> list[_Line]:
    first: dict[object, _Line] = {}
    for line in lines:
        first.setdefault(tuple(words(line.text)) or line.text, line)
    return list(first.values())


_PIECE = re.compile(r" ?[A-Z]?[a-z]+(?![A-Z])| ?[A-Za-z]+|[0-9]+|[^A-Za-z0-9]")
_ONE_TOKEN = word_set("""
    a about above address after again against airport all also always am an and another any are around
    as ask at away back be because been before being best better between big birthday black blue body
    book both budget business but buy by call called came can car case cat change child city class clear
    client close code cold color come company control cost could country course cut data date daughter
    day days deadline did different do doctor does dog done door down during each early east easy eat
    email end even every example eye face fact family far father favorite feel few field file final find
    fine first fish five flight fly follow food for form found four free friend from front full get girl
    give go god gold good got great green ground group grow had half hand hard has have he head hear
    heart help her here high him his history hold home horse hot hour hours house how idea if important
    in into invoice is issue it its job just keep key kind king know land large last late launch law
    learn leave led left less let letter level library life light like line list little live local long
    look lot love low made main make man many map may me mean meet meeting member men might mind miss
    money month more most mother move much music must my name near need never new news next night no
    north not note nothing now number of off office often old on once one only open or order other our
    out over own page paper part party pass passport password past pay people person phone place plan
    plant play point port power present problem product program project public put question quick quite
    ran read ready real reason red release remember rest result right river road rock room round run
    said same say school sea second see seen self send sent server service set she ship short should
    show side since six size small so social some something son song soon sort sound south space special
    stage stand start state stay step still stop story street strong student study such summer sun
    support sure system table take talk team tell ten test text than thank that the their them then
    there these they thing things think this those though thought three through ticket time to today too
    top total town travel tree true try turn two type under unit until up us use used user version very
    voice walk wall want war was watch water way we week well went were west what wheel when where which
    while white who whole why wife will wind window winter with woman women word words work world would
    write year years yes yet you young your
""")
"""Common words that are one token each, in lower case and after a blank, in both encodings."""
_UNSPEAKABLE = re.compile(r"[b-df-hj-np-tv-xz]{3}")


def cautious_tokens(text: str) -> int:
    """Estimate the tokens of a text from above, without a vocabulary.

    Byte-pair encodings spend at most one token on a byte. Common English words are one token; other
    words that can be spoken took at most (2n + 2) / 3 tokens for n letters among 80,000 random ones in
    `o200k_base` and `cl100k_base`. For English prose that is about twice the true count.
    """
    # The second figure is for where there is no vocabulary and the context itself estimates by characters.
    return max(sum(map(_piece_tokens, _PIECE.findall(text))), -(-45 * len(text) // 100))


def _piece_tokens(piece: str) -> int:
    if not piece.isascii():
        return len(piece.encode("utf-8", "replace"))
    if piece.isdigit():
        return len(piece)
    word = piece.lstrip() or piece  # a blank is a part of the word that follows it
    if word in _ONE_TOKEN or len(word) == 1:
        return 1
    if word[1:].islower() and not _UNSPEAKABLE.search(word.lower()):
        return -(-(2 * len(word) + 2) // 3)
    return len(word)


# The same, asked for as a model would be asked

_REQUEST = re.compile(
    r"(?s)\AThe brief so far:\n(?P<brief>.*?)\n\n(?P<messages>(?:New messages|Brief of part \d+):\n.*?)"
    r"(?:\n\nWrite the new brief now, in at most (?P<words>[\d,]+) words\.)?\Z"
)
_SPEAKER = re.compile(r"(?s)(user|assistant calls|assistant|tool result):? (.*)")


def requested_brief(sight: Sight, max_tokens: int | None) -> str | None:
    """Answer a request of `memory.RollingSummary`; None when the payload is something else."""
    request = _REQUEST.match(sight.question) if "the brief of a conversation" in sight.system else None
    if not request:
        return None
    previous = "\n".join(
        line.strip() for line in request["brief"].splitlines() if line.strip() != "(none yet)"
    )
    messages: list[dict[str, str]] = []
    for line in request["messages"].splitlines():
        speaker = _SPEAKER.match(line)
        if speaker:
            messages.append({"role": speaker[1], "content": speaker[2]})
        elif line.startswith("  ") and messages:
            messages[-1]["content"] += f"\n{line.strip()}"
        elif line.startswith("  "):
            previous += f"\n{line.strip()}"  # the brief of a part
    room = max_tokens or int((request["words"] or "600").replace(",", "")) * 4 // 3
    return (
        brief(previous.strip() or None, messages, max_tokens=room)
        or previous.strip()
        or "Nothing was said yet."
    )
