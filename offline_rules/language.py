"""Enough plain English for the offline stand-in: sentences, word stems, what asks and what states.

Light stemming, a table of words that mean the same, and patterns for questions, requests and
statements; no grammar. Other languages pass through as text: their words are compared as they are
(Chinese and Japanese: by pairs of characters), and of their questions only the plainest are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list written as one text."""
    return frozenset(text.split())


STOPWORDS = word_set("""
    a about actually again all also am an and any anything are as at be been but by can could currently
    did do does doing done exactly for from had has have hello hey hi how i if in into is it its just
    know let like many may me might mine much must my myself near no not now of off ok okay on one or
    our ours over please really remember right shall she he her his him should so some something still
    than that the their them then there these they thing this those to too under up us very was we were
    what when where which while who whom whose why will with would yes yet you your yours m s t re ve ll
    d don doesn didn isn wasn aren won recall remind earlier before ago ich du wir mein meine dein deine
    ist war sind der die das ein eine und oder wie wo wer wann heißt
""")
SOFT = word_set("""
    say use decide have need want get make set plan give go day date time year name number color kind
    type sort price cost amount city town country place person current word call ask exact originally
    responsible
""")
"""Words that a question may carry and its answer need not: they weigh less."""

_SAME = """
    name call; live reside; work job occupation profession employ; birthday born birth; age old; color
    colour; say tell mention talk discuss state; decide decision choose pick settle agree agreement
    select use; mom mother mum; dad father; wife husband spouse marry; favorite favourite prefer;
    deadline due; begin start; phone telephone mobile; launch kickoff; end finish; buy purchase; cost
    price; money budget; big large; password passphrase passcode; car vehicle; meeting appointment;
    email mail; ill sick; doctor physician; child kid; boss manager; movie film; photo picture; own
    have; repository repo; database db; flat apartment; happen occur
"""
_IRREGULAR = dict(
    pair.split("-")
    for pair in word_set("""
        chose-choose chosen-choose bought-buy said-say told-tell met-meet went-go children-child people-person
        left-leave began-begin gave-give grew-grow took-take found-find lost-lose held-hold knew-know
        made-make paid-pay sold-sell kept-keep wrote-write ran-run drove-drive ate-eat
        spent-spend sent-send built-build wives-wife lives-live
    """)
)
# Phrases whose words mislead one by one; rewritten in questions and in what is searched alike.
_PHRASES = tuple(
    (re.compile(f"(?i){pattern}"), words)
    for pattern, words in (
        (r"\bwho (?:am i|i am)\b", "what is my name"),
        (r"\b(?:call me|i go by|(?:i am|i['’]m) (?:called|named|known as))\b", "my name"),
        (
            r"^(?:hi|hello|hey)?\W*(?:i am|i['’]m|this is) (?-i:([A-Z]\w*(?: [A-Z]\w+)*))(?=$|[,.!]| and )",
            r"my name \1",
        ),
        (r"\b(?:i am|i['’]m|we are|we['’]re|come|comes|originally) from\b", "i live in"),
        (r"\bwhere (?:am i|are we) from\b", "where live"),
        (r"\b(i|we|he|she|they)(['’]ve| have| just)* moved to\b", r"\1 moved live in"),
        (r"\bfor a living\b|\bwhat do i do\b$", "work"),
        (r"\bhow old\b|\byears old\b", "age"),
        (r"\bhow (?:long|far|tall|often|heavy|big|high|wide|deep|fast|late)\b", "how"),
        (r"\b(?:went|go|going|gone) with\b|\bopted? for\b|\blet['’]?s (?:use|take)\b", "decide"),
    )
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_CJK_STOP = frozenset("的是了吗呢什么谁哪我你您他她在有和几多少のはがをにですか")
_ABBREVIATION = re.compile(r"(?i)\b(?:dr|mr|mrs|ms|st|no|nr|vs|etc|approx|prof|e\.g|i\.e|z\.b|[a-z])\.$")
_BREAK = re.compile(r"(?<=[.!?])[\"”’)]* |(?<=[。！？])")


def sentences(text: str) -> list[str]:
    """Split text into its sentences and lines, without the blank ones; blanks inside become single.

    Everything after this may rely on it: a pattern that runs over a million blanks would take forever.
    """
    parts: list[str] = []
    for line in (" ".join(line.split()) for line in text.splitlines()):
        start = 0
        for gap in _BREAK.finditer(line):
            if not _ABBREVIATION.search(line[max(start, gap.start() - 8) : gap.start()]):
                parts.append(line[start : gap.start()])
                start = gap.end()
        parts.append(line[start:])
    return [part for part in parts if part]


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; Chinese, Japanese and Korean as pairs of characters."""
    for pattern, replacement in _PHRASES:
        text = pattern.sub(replacement, text)
    found: list[str] = []
    for word in _WORD.findall(text.casefold()):
        if _CJK.search(word):
            pairs = (word[index : index + 2] for index in range(max(1, len(word) - 1)))
            found += [pair for pair in pairs if not _CJK_STOP.intersection(pair)]
        else:
            found.append(re.split("['’]", word)[0])
    return found


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Take common English endings off a word, so that `lived`, `living` and `lives` are one."""
    if word in _IRREGULAR:
        word = _IRREGULAR[word]
    if word.isascii() and len(word) > 3 and word.isalpha():
        if word.endswith("ies"):
            word = word[:-3] + "y"
        elif word.endswith("s") and word[-2] not in "sui":
            word = word[:-1]
        for ending in ("ing", "ed"):
            rest = word[: -len(ending)]
            if word.endswith(ending) and len(rest) > 2 and re.search("[aeiouy]", rest):
                word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "ls" else rest
                break
        if len(word) > 3 and word.endswith("e"):
            word = word[:-1]
    return word


_SENSE = {stem(word): group.split()[0] for group in _SAME.split(";") for word in group.split()}
_SOFT_STEMS = frozenset(map(stem, SOFT))


def sense(one: str) -> str:
    """Return one word for all stems that mean the same."""
    return _SENSE.get(one, one)


def senses(stems: Iterable[str]) -> set[str]:
    """Return the senses of these stems."""
    return {_SENSE.get(one, one) for one in stems}


def is_soft(one: str) -> bool:
    """Tell whether a stem is one that an answer need not repeat."""
    return one in _SOFT_STEMS or sense(one) in SOFT


def content(text: str) -> list[str]:
    """Return the stems of the words that carry the meaning of a text, in order."""
    return [stem(word) for word in words(text) if word not in STOPWORDS]


# Questions, requests and statements

_LEAD = re.compile(
    r"(?i)^(?:(?:and|so|but|ok(?:ay)?|hey|hi|hello|well|please|also|now|then|thanks|sorry|actually|"
    r"by the way|btw)"
    r"\b[\s,.!:]*)+"
)
_AUXILIARY = "is|are|was|were|do|does|did|am|can|could|will|would|should|shall|has|have|had"
_ASKS = re.compile(
    "(?i)^(?:"
    rf"(?:what|which|who|whose|whom|when|where|why|how)(?:['’](?:s|re|d)|"
    rf"(?: \S+){{0,4}}? (?:{_AUXILIARY}))\b|"
    r"(?:is|are|was|were|am|does|did)\b|do (?!n[o']t\b|remember that\b)\w|"
    r"(?:can|could|will|would|should|shall|has|have|had|may)(?:n['’]?t)? "
    r"(?:i|you|we|he|she|it|they|there|the|my|our)\b|"
    r"(?:please )?(?:tell|remind|show|give) (?:me|us)\b|(?:say|repeat|recall) (?:my|our|the)\b|"
    r"what about\b|"
    r"i (?:forgot|forget|wonder|(?:want|need|would like) to know|"
    r"(?:do not|don['’]?t|cannot|can['’]?t) (?:know|remember|recall))\b)"
)
_TAG = re.compile(r"(?i),? (?:ok(?:ay)?|right|got it|you know|understood|alright|isn['’]t it)$")
_TELLS = re.compile(
    "(?i)^(?:"
    r"(?:(?:can|could|would|will) you (?:please )?|please )?(?:do )?"
    r"(?:remember|note|know|memorize|keep in mind|store|save)(?: down)?(?: permanently| forever| for good)?"
    r"(?: that\b|\s*[:,]|(?= (?:my|our|the|i|we)\b))|"
    r"did you know(?: that)?\b|(?:fyi|for the record|just so you know)[,:]?(?= )|"
    r"i (?:want|would like|['’]d like) you to (?:know|remember|note)(?: that)?)\s*"
)
_REQUEST = re.compile(
    r"(?i)^(?:please )?(?:explain|write|translate|describe|suggest|create|draw|generate|compose|find|fix|"
    r"summari[sz]e|compare|rewrite|improve|help|tell|talk|sing|play|continue|go on|discuss|list|show|give|"
    r"print|"
    r"repeat|echo|search|look up|calculate|compute|evaluate|add|subtract|multiply|divide|test|try)\b"
)
_VERB = re.compile(
    r"(?i)\b(?:is|are|was|were|am|be|has|have|had|will|won['’]t|can|must|should|let['’]?s|lives?|likes?|"
    r"loves?|"
    r"wants?|needs?|works?|uses?)\b|['’](?:s|m|re|ll|ve)\b|[:=]|"
    r"^(?:i|we|my|our|the|they|he|she|it|this|that|there)\b.*\s\S+\s\S"
)
_FOREIGN_QUESTION = re.compile(
    r"(?i)[?？]\s*$|什么|吗。?$|谁|哪[里个]|^(?:wie|wo|wer|was|wann|welche[rsn]?|warum)\b"
)


def bare(sentence: str) -> str:
    """Return a sentence without greeting, connecting words and requests to remember it."""
    return _TELLS.sub("", _LEAD.sub("", sentence)).strip()


def is_question(sentence: str) -> bool:
    """Tell whether a sentence asks (an order to tell something included) instead of stating."""
    told = _LEAD.sub("", sentence)
    if _TELLS.match(told) or (told.endswith("?") and _TAG.search(told.rstrip("? ")[-40:])):
        return False
    return bool(_ASKS.match(told) or _FOREIGN_QUESTION.search(told))


def is_request(sentence: str) -> bool:
    """Tell whether a sentence asks for something to be done; what it names was not stated by it."""
    return bool(_REQUEST.match(_LEAD.sub("", sentence)))


def is_statement(sentence: str) -> bool:
    """Tell whether a sentence states something."""
    core = bare(sentence)
    return bool(_VERB.search(core)) and not is_question(sentence) and not is_request(core)
