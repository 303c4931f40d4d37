"""What a fact is, whose word counts, and which keys nobody may write: the rules, without any storage.

Every key has a stack of *versions*, the one on top is in force. `successor` is the whole provenance
rule. Not covered: where versions are kept and how they are taken back (`facts.py`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple

CONFIDENCES = ("low", "medium", "high")  # ascending
ORIGINS = ("document", "model", "user")  # ascending: who vouches for a fact
POLICIES = ("newest", "keep", "reject")

PROTECTED = ("role", "permissions", "is_admin", "account_id", "price")
"""Keys that another system decides on; a chat that could write them would be a way to take it over."""

# Both headings under which our own text reaches the model.
FACTS_HEADING = "Known about this user"
SUMMARY_HEADING = "Summary of earlier conversation"

KEY_CHARACTERS = 100
VALUE_CHARACTERS = 1_000  # about 250 tokens of English: a fact is a line, not a document
SOURCE_CHARACTERS = 300  # a file name has at most 255


class FactError(ValueError):
    """A write that is refused, or a facts file that cannot be used; one sentence for a person or a model."""


# Text


def clean_line(text: str) -> str:
    """Return the text as one line without control, formatting or bidirectional characters.

    So a fact cannot start a line of its own, such as a heading, in the system message. The joiners
    stay (U+200C, U+200D: Persian and emoji need them).
    """
    return " ".join("".join(_visible(character) for character in clean_text(text)).split())


def clean_text(text: str) -> str:
    """Return text that encodes as UTF-8: surrogate pairs are joined, lone ones become U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# Letters without ink that Unicode does not count as formatting: combining grapheme joiner, fillers.
_INKLESS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category in {"Cc", "Zl", "Zp"}:
        return " "
    unseen = character in _INKLESS or (category == "Cf" and character not in "\u200c\u200d")
    return "" if unseen else character


def fold(text: str) -> str:
    """Return the form in which two spellings of one text are equal: width, case and blanks do not matter."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


_SEPARATORS = {"Zs", "Pd", "Pc"}  # spaces, dashes, underscores (Unicode general categories)


def identity(key: str) -> str:
    """Return the form in which two spellings of one key are equal.

    Like `fold`, and runs of spaces, hyphens and underscores are one underscore, invisible characters
    nothing.
    """
    characters = []
    for character in fold(key):
        category = unicodedata.category(character)
        if category in _SEPARATORS:
            characters.append(" ")
        elif category not in {"Cc", "Cf"} and character not in _INKLESS:
            characters.append(character)
    return "_".join("".join(characters).split())


# Small letters of other scripts that look like a Latin one (Unicode Technical Standard 39, confusables),
# for the letters that occur in PROTECTED.
_LOOKALIKES = {
    "a": "аαɑ",
    "c": "с",
    "d": "ԁ",
    "e": "еε",
    "i": "іιı",
    "l": "ӏ",
    "m": "мμ",
    "n": "ոν",
    "o": "оοօ",
    "p": "рρ",
    "r": "г",
    "s": "ѕ",
    "t": "тτ",
    "u": "υս",
}
_TO_LATIN = str.maketrans({other: latin for latin, others in _LOOKALIKES.items() for other in others})


def is_protected(key: str) -> bool:
    """Tell whether the key is one of PROTECTED, however it is written."""
    return _skeleton(key) in _PROTECTED_SKELETONS


def _skeleton(key: str) -> str:
    plain = unicodedata.normalize("NFKD", identity(key)).translate(_TO_LATIN)
    return "".join(character for character in plain if character.isalnum())


_PROTECTED_SKELETONS = frozenset(_skeleton(key) for key in PROTECTED)


# What our own rendering looks like: a confidence that closes a parenthesis, a heading, the last line.
_RENDERED = re.compile(
    rf",\s*(?:{'|'.join(CONFIDENCES)})\s*\)|more facts? left out here|"
    rf"{re.escape(FACTS_HEADING.casefold())}|{re.escape(SUMMARY_HEADING.casefold())}"
)


def is_rendered(text: str) -> bool:
    """Tell whether the text holds a line or a heading that we wrote into the system message.

    What the model reads there is not news when it comes back: storing it would turn one fact into
    its own witness, and a value of this shape could pass for further facts.
    """
    return _RENDERED.search(fold(text)) is not None


def left_out_line(count: int) -> str:
    """The last line of a rendering that had no room for so many facts."""
    return f"({count:,} more {'fact' if count == 1 else 'facts'} left out here)"


# Facts and their versions


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing known, and why we believe it.

    Attributes:
        key: what it is about; case, spaces, hyphens and underscores do not tell two keys apart.
        value: what is known, one line.
        source: where it came from: a document's name, `turn-N`, or whatever the person calls it.
        confidence: low, medium or high.
        origin: who vouches for it: user, model or document. Never guessed from the source's text.
        created_at: when it was stated; with a time zone.

    Raises:
        FactError: another word for confidence or origin, text that is no text, a time without a zone.
    """

    key: str
    value: str
    source: str
    confidence: str = "high"
    origin: str = "user"
    created_at: datetime = field(default_factory=_now)

    def __post_init__(self) -> None:
        for name in ("key", "value", "source"):
            if not isinstance(getattr(self, name), str):
                raise FactError(f"The {name} of a fact must be text.")
        check_word("confidence", self.confidence, CONFIDENCES)
        check_word("origin", self.origin, ORIGINS)
        if self.created_at.tzinfo is None:
            raise FactError("created_at needs a time zone: use datetime.now(UTC).")

    def line(self) -> str:
        """The fact as the model sees it."""
        return f"{self.key}: {self.value} ({self.source}, {self.confidence})"

    def cleaned(self) -> Fact:
        """Return the fact as it may be kept.

        Raises:
            FactError: a protected key; a key, value or source that is empty, too long, or made of
                our own rendering.
        """
        limits = {"key": KEY_CHARACTERS, "value": VALUE_CHARACTERS, "source": SOURCE_CHARACTERS}
        key, value, source = (clean_line(text) for text in (self.key, self.value, self.source))
        for (name, limit), text in zip(limits.items(), (key, value, source), strict=True):
            if not text:
                raise FactError(f"The {name} of a fact must not be empty.")
            if len(text) > limit:
                raise FactError(f"The {name} has {len(text):,} characters; at most {limit:,} are kept.")
            if is_rendered(text):
                raise FactError(f"The {name} repeats our own list of facts; pass what was said instead.")
        if is_protected(key):
            raise FactError(f'"{key}" is a protected key; no chat may write it ({", ".join(PROTECTED)}).')
        if not key[0].isalnum() or ":" in fold(key):
            raise FactError("A key starts with a letter or a digit and holds no colon.")
        return replace(self, key=key, value=value, source=source)


def check_word(name: str, value: str, allowed: Sequence[str]) -> None:
    """Raise FactError unless the value is one of the allowed words."""
    if value not in allowed:
        raise FactError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")


class Mark(NamedTuple):
    """Where a turn begins: everything stamped with this session and this turn or a later one is after it."""

    session: str
    turn: int


class Source(NamedTuple):
    """A name, and for `turn-N` the session whose turn it is ("" when there is no telling)."""

    name: str
    session: str = ""

    def name_in(self, session: str) -> str:
        """The name inside a session: a turn of another session carries that one's id."""
        return self.name if self.session in ("", session) else f"{self.name}@{self.session}"

    def label(self, session: str) -> str:
        """The same, fit to be shown."""
        return clean_line(self.name_in(session))


@dataclass(frozen=True, slots=True)
class Version:
    """A fact as it is kept: its sources one by one, and the turn with which it is taken back."""

    fact: Fact
    sources: tuple[Source, ...]
    stamp: Mark | None  # None: written outside a turn, so no undo takes it

    def repeats(self, other: Version) -> bool:
        """Tell whether the two say the same with the same provenance, whenever that was."""
        return self._content() == other._content()

    def _content(self) -> tuple[object, ...]:
        return (self.fact.key, self.fact.value, self.fact.confidence, self.fact.origin, self.sources)

    def outlives(self, other: Version) -> bool:
        """Tell whether no undo can take this version back and leave the later other one."""
        if self.stamp is None or other.stamp is None:
            return self.stamp is None
        # Of one session the earlier version has the earlier turn, and is taken back last.
        return self.stamp.session == other.stamp.session


def successor(old: Version | None, new: Version, on_conflict: str) -> Version | None:
    """Return the version that goes on top of the one in force, or None when that one stays.

    The provenance rule, in full:

    * What the person said is changed by the person only; their word always counts as theirs.
    * A model or a document that says the same value again is no new witness, since the value was in
      front of it. Such a version keeps the sources it repeats (a document adds its own), with the
      lower of both origins and of both confidences. So it goes when any of its sources is forgotten.
    * A model or a document that says another value replaces a value of their kind, with its own source
      and confidence, and with the lower of both origins: only the person's word raises a key's origin.

    Raises:
        FactError: the write is refused.
    """
    if old is None:
        return new
    by_user = new.fact.origin == "user"
    of_user = old.fact.origin == "user"
    if fold(new.fact.value) == fold(old.fact.value):
        if by_user:
            return new
        return None if of_user else _repetition(old, new)
    if on_conflict == "keep":
        return None
    if on_conflict == "reject":
        raise FactError(f'"{old.fact.key}" already has another value; forget it first, or write the newest.')
    if by_user:
        return new
    if of_user:
        raise FactError(f'"{old.fact.key}" was stated by the user; a {new.fact.origin} cannot change it.')
    return replace(new, fact=replace(new.fact, origin=_lower(ORIGINS, old.fact.origin, new.fact.origin)))


def _repetition(old: Version, new: Version) -> Version:
    added = new.sources if new.fact.origin == "document" else ()
    fact = replace(
        old.fact,
        value=new.fact.value,
        origin=_lower(ORIGINS, old.fact.origin, new.fact.origin),
        confidence=_lower(CONFIDENCES, old.fact.confidence, new.fact.confidence),
    )
    return replace(new, fact=fact, sources=tuple(dict.fromkeys((*old.sources, *added))))


def _lower(scale: Sequence[str], one: str, other: str) -> str:
    return min(one, other, key=scale.index)
