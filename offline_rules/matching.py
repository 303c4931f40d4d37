"""What fits a question: word overlap, weighed by how rare a word is, and a few expectations.

"When" wants a date, "how many" a number; a question about "my name" prefers "my name is Ada" to "my
dog's name is Rex"; of two statements that fit alike the newer one wins. Nothing is concluded: what is
found is quoted as it was said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple

from offline_rules.language import STOPWORDS, bare, content, is_soft, sense, senses, stem, words

SURE, WEAK = 0.75, 0.4
"""Share of what was asked for that a passage must speak of to answer, and to be worth mentioning."""
FACT = "A stored fact says"
"""Source of a passage that speaks of the person without saying so."""
ALIKE = 0.12
"""Passages whose scores differ by less fit alike."""

_DATE = re.compile(
    r"(?i)\d{4}|\d[:/.]\d|\b\d{1,2}(?:st|nd|rd|th)?\b|"
    r"\b(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec)[a-z]*\b|"
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:today|tomorrow|yesterday|noon|midnight|tonight|"
    r"morning|"
    r"evening|afternoon|week|month|spring|summer|autumn|fall|winter|christmas|easter|o['’]clock|quarter)\b"
)
_NUMBER = re.compile(
    r"(?i)\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|dozen|hundred)\b"
)
_COLOR = re.compile(
    r"(?i)\b(?:red|green|blue|yellow|black|white|gr[ae]y|brown|orange|purple|pink|turquoise|violet|silver|"
    r"gold|"
    r"beige|teal)\b"
)
_PLACE = re.compile(r"(?i)\b(?:in|at|near|on|to|from|under|behind|inside|above|beside|next to)\s+\S")
_CHANGE = re.compile(
    r"(?i)\b(?:now|actually|instead|correction|no longer|moved|changed|renamed|new|from now on|after all|"
    r"update)\b"
)
_FOLLOWS = re.compile(  # "Correction: it is 42", "no, make that 42": about what was said just before
    r"(?i)^(?:(?:no|sorry|wait|oops|actually|correction|i mean)\b[\s,.:]+)*"
    r"(?:(?<=\W)(?:it(?:['’]s| is| was)|that(?:['’]s| is)|\S+$)|make (?:it|that)\b)"
)
_COPULA = re.compile(
    r"(?is)^(.{1,160}?)(?:\s+(?:is called|is now|are now|is|are|was|were|will be|equals)\s+|"
    r"\s*[=:]\s+)(\S.*)$"
)
_USER = {"user"}  # how a summary calls the person
_OWNER = re.compile(r"(?i)\b(\w+)['’]s\b(?= \w)|\bof (?:my|our|the|his|her|their) (\w+)")
_CAPITALIZED = re.compile(r"(?<=[\w,] )[A-Z]\w+")
_NAMED = re.compile(r"\b(\w+),? [A-Z]")
_END_OF_VALUE = re.compile(r"(?i),?\s+now$|,? (?:and|but) (?:i|my|we|our|the|it|he|she|they)\b|;")
_FIRST_PERSON = re.compile(r"(?i)\b(?:i|my|me|mine|we|our|us|user)\b")
_CLOSED = re.compile(r"(?i)(?:is|are|was|were|am|do|does|did|has|have|had|can|will)\b")
_CATEGORY = re.compile(r"(?i)\b(?:what|which) (?:(?:kind|type|sort) of )?(\w+)")


class _Expectation(NamedTuple):
    """What asks for it, what such an answer looks like, and the stems that it answers unsaid."""

    asked: re.Pattern[str]
    answer: re.Pattern[str]
    kinds: frozenset[str]


_EXPECTATIONS = tuple(
    _Expectation(re.compile(f"(?i){asked}"), answer, frozenset(map(stem, kinds.split())))
    for asked, answer, kinds in (
        (
            r"\bwhen\b|\b(?:what|which) (?:day|date|time|year|month)\b|\bdeadline\b|\bbirthday\b",
            _DATE,
            "day date time year month",
        ),
        (
            r"\bhow (?:many|much|old|long|far|tall|big)\b|\bnumber\b|\bprice\b|\bcosts?\b",
            _NUMBER,
            "number price cost amount age",
        ),
        (r"\bcolou?r\b", _COLOR, "color"),
        (r"\bwhere\b|\b(?:what|which) (?:city|town|country|place)\b", _PLACE, "city town country place"),
    )
)


class Passage(NamedTuple):
    """A sentence that may answer: where it stands in words, the sentence, and what was said just before."""

    source: str
    text: str
    before: str = ""


class Found(NamedTuple):
    """The passage that fits best, and whether it surely is about what was asked."""

    passage: Passage
    sure: bool


class _Candidate:
    """A passage taken apart."""

    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self.text = passage.text
        self.stems = set(content(passage.text))
        self.senses = senses(self.stems)
        self.names = {word.lower() for word in _CAPITALIZED.findall(passage.text)}  # "Will" is a stopword too
        self.before = senses(content(passage.before)) if passage.before else set()
        self.pairs = _pairs(passage.text)
        halves = _COPULA.match(passage.text)
        self.follows = bool(self.before and _FOLLOWS.match(passage.text))
        self.about = senses(content(halves[1])) - _USER if halves and not self.follows else set()
        """What it states something of: the words before "is"."""
        owners = {word.lower() for pair in _OWNER.findall(passage.text) for word in pair if word}
        self.owners = senses(map(stem, owners - STOPWORDS)) - _USER


class _Question:
    """A question taken apart; `weights` says which stems count how much."""

    def __init__(self, text: str, candidates: Sequence[_Candidate]) -> None:
        self.stems = content(text)
        self.words = set(words(text))
        self.senses = senses(self.stems)
        self.pairs = _pairs(text)
        self.first_person = bool(_FIRST_PERSON.search(text))
        self.closed = bool(_CLOSED.match(bare(text)))
        self.expected = next((one.answer for one in _EXPECTATIONS if one.asked.search(text)), None)
        # "Which port", "what kind of car": the answer often leaves that noun out.
        noun = _CATEGORY.search(text)
        category = stem(noun[1].lower()) if noun and len(set(self.stems)) > 1 else ""
        self.soft = {term for term in self.stems if term == category or is_soft(term)}
        self.weights: dict[str, float] = {}
        for term in dict.fromkeys(self.stems):
            seen = sum(sense(term) in candidate.senses for candidate in candidates)
            rarity = 1 + log((1 + len(candidates)) / (1 + seen))
            self.weights[term] = rarity * (0.4 if term in self.soft else 1.0)

    def look(self, at: _Candidate) -> tuple[float, bool]:
        """Score a passage, 0 when it is not worth mentioning, and tell whether it surely answers."""
        shares = {term: self._share(term, at) for term in self.weights}
        cover = sum(share * self.weights[term] for term, share in shares.items()) / sum(self.weights.values())
        news = at.stems.difference(self.stems) | at.names.difference(self.words)
        says_more = bool(news) or (self.closed and cover > 0.95)
        if cover < WEAK or not says_more:
            return 0.0, False
        together = not self.pairs.isdisjoint(at.pairs)
        same_subject = bool(at.about) and at.about <= self.senses
        score = cover + 0.1 * together + self._fit(at, same_subject=same_subject)
        if self.first_person and at.owners - self.senses:
            return score, False  # "what is my name" is not answered by "my dog's name is Rex"
        if self.soft.issuperset(self.weights):
            return score, together or same_subject
        hard_part = all(share or term in self.soft for term, share in shares.items())
        return score, score >= 0.6 and (cover >= SURE or (hard_part and together))

    def _share(self, term: str, at: _Candidate) -> float:
        """How much of one word of the question a passage speaks of, from 0 to 1."""
        if term in at.stems:
            return 1.0
        if sense(term) in at.senses or self._stands_for(term, at.text):
            return 0.85
        if len(term) > 3 and any(_related(term, other) for other in at.stems):
            return 0.8
        if sense(term) in at.before:
            return 0.9 if at.follows else 0.6
        return 0.0

    def _stands_for(self, term: str, text: str) -> bool:
        """Tell whether the text answers in kind: "green" for a color, "my dog Rex" for a name."""
        if term == "nam":
            return any(stem(word.lower()) in self.weights for word in _NAMED.findall(text))
        return any(term in one.kinds and one.answer.search(text) for one in _EXPECTATIONS)

    def _fit(self, at: _Candidate, *, same_subject: bool) -> float:
        """Small reasons for and against: the right kind of answer, the same subject, a correction."""
        score = 0.15 * same_subject + 0.15 * bool(_CHANGE.search(at.text)) + 0.2 * at.follows
        if at.about and not same_subject:
            score -= 0.25 * len(at.about - self.senses) / len(at.about)
        if self.expected and not same_subject:
            score += 0.1 if self.expected.search(at.text) else -0.2
        if self.first_person and at.passage.source != FACT and not _FIRST_PERSON.search(at.text):
            score -= 0.1
        return score


def find(question: str, passages: Sequence[Passage], *, limit: int = 1) -> list[Found]:
    """Return the passages that fit a question best; of those that fit alike the newest.

    Args:
        question: one question or request.
        passages: what may be quoted, oldest first.
        limit: how many at most; more than one only of sure ones, the newest first.
    """
    candidates = [_Candidate(passage) for passage in passages]
    asked = _Question(question, candidates)
    if not asked.weights:
        return []
    looks = [(*asked.look(candidate), candidate.passage) for candidate in candidates]
    fitting = [look for look in looks if look[1]] or [look for look in looks if look[0]]
    if limit > 1:
        return [Found(passage, sure) for _, sure, passage in reversed(fitting) if sure][:limit]
    best = max((score for score, _, _ in fitting), default=0.0)
    alike = [Found(passage, sure) for score, sure, passage in fitting if score >= best - ALIKE]
    return alike[-1:]


def _pairs(text: str) -> set[tuple[str, str]]:
    """Neighboring words, by their stems, that are not both mere function words."""
    return {
        (stem(one), stem(other))
        for one, other in pairwise(words(text))
        if one not in STOPWORDS or other not in STOPWORDS
    }


def _related(one: str, other: str) -> bool:
    """Tell whether two stems have the same beginning: `allergic` and `allergy`, `deploy` and `deployment`."""
    length = max(4, min(len(one), len(other)) - 1)
    if abs(len(one) - len(other)) > 5 or not (one.isalpha() and other.isalpha()):
        return False
    return one[:length] == other[:length]


def value(question: str, sentence: str) -> str:
    """Return the short answer in "X is VALUE" when X is just what was asked for, otherwise ""."""
    halves = _COPULA.match(bare(sentence))
    asked = _Question(question, ())
    about = senses(content(halves[1])) - _USER if halves else set()
    if not halves or not about or asked.closed or about != asked.senses:
        return ""
    return _END_OF_VALUE.split(halves[2].rstrip(" .!?"), maxsplit=1)[0]
