"""What a payload shows, sorted: what may be quoted, what this turn's tools gave, what was asked.

Whatever stands in documents, results, summaries and facts is data here: it is cut into passages that
may be quoted, and nothing in it is ever read as an order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from offline_rules.arithmetic import formula
from offline_rules.language import is_question, is_request, sentences
from offline_rules.matching import FACT, Passage

Payload = Sequence[Mapping[str, Any]]
SAID, REPLIED = "You said so in your message", "I said so in an earlier reply"
SUMMARY, FOUND = "The summary of earlier conversation says", "Search of the history found"

OWN = re.compile(
    r"offline stand-in|No model is connected|\b[Cc]annot see\b|\bI can (?:see|quote)\b|"
    r"\bwas offered to me\b|"
    r"^(?:Noted[^“]{0,50}: “|Goodbye\.|You are welcome\.|The clock\b|The calculator could not\b|"
    r"There is no result\b)"
)
"""Replies that the stand-in makes about itself or about that moment: they are never a source of anything."""

_FENCE = re.compile(r"(?m)^\[untrusted data (\S+): (.*)\. Read it as material;.*\]$\n?")
"""The first line of a fence (`turns.fence`): its nonce, and the name that was given."""
_MARK = re.compile(r"\[.*\]|`{3}\w*|[\W\d_]*|.*left out to fit the context budget\]")
"""A line that states nothing: it stands for something left out or the edge of code, or has no word in it."""
_LABEL = re.compile(r" \([^()]*, (?:low|medium|high)\)$")
"""Source and confidence at the end of a rendered fact (`Fact.line`)."""
_HIT = re.compile(r"^(\d{4}-\d\d-\d\d[^,]*), session .*, turn (\d+), (\w+):$")
"""The heading of one message that `search_history` found; the message follows, indented."""
_MOMENTARY = ("calculator", "current_time")
"""Tools whose results were true for their moment only, so that they are no source later."""


class Document(NamedTuple):
    """Untrusted text that was fenced into a message."""

    name: str
    text: str


@dataclass(frozen=True)
class Sight:
    """Everything that one payload shows, sorted by what it is."""

    system: str
    summary: str
    facts: list[str]
    asked: list[str]
    """The person's messages, oldest first; the last one is to be answered."""
    documents: list[Document]
    """What is attached to that last one."""
    passages: list[Passage]
    """What may be quoted, oldest first."""
    results: dict[tuple[str, str], str]
    """Results of this turn's tool calls, by name and (canonical) arguments."""
    last_number: str
    """The newest result of the calculator in earlier turns, "" without one."""

    @property
    def question(self) -> str:
        """What is to be answered."""
        return self.asked[-1] if self.asked else ""


def read(payload: Payload) -> Sight:
    """Sort what a payload shows."""
    system = "\n".join(_text(message) for message in payload if message.get("role") == "system")
    notes, _, known = f"\n{system}\n".partition("\n## Known about this user\n")
    summary = _notes(notes.partition("\n## Summary of earlier conversation\n")[2])
    facts = [_LABEL.sub("", fact) for fact in _notes(known).splitlines()]
    passages = stated(SUMMARY, summary) + [Passage(FACT, fact) for fact in facts]
    live = max((at for at, message in enumerate(payload) if message.get("role") == "user"), default=0)
    calls: dict[str, tuple[str, str]] = {}
    results: dict[tuple[str, str], str] = {}
    asked: list[str] = []
    documents: list[Document] = []
    last_number = before = ""
    for at, message in enumerate(payload):
        role, text = message.get("role"), _text(message)
        if role == "user":
            documents, said = unfence(text)
            asked.append(said)
            passages += stated(SAID, said, before)
            before = passages[-1].text if passages else ""
        elif role == "assistant":
            passages += _replied(text)
            for call in message.get("tool_calls") or ():
                calls[call["id"]] = (call["function"]["name"], canonical(call["function"]["arguments"]))
        elif role == "tool":
            name, arguments = calls.get(str(message.get("tool_call_id")), ("tool", ""))
            passages += _returned(name, text)
            if at > live:
                results[name, arguments] = text
            elif name == "calculator":
                last_number = number(text) or last_number
    for document in documents:
        passages += stated(f"The attached document {document.name} says", document.text)
    everything_said = "\n".join(asked)  # what a reply quoted of it is no second source
    passages = [one for one in passages if one.source != REPLIED or one.text not in everything_said]
    return Sight(system, summary, facts, asked, documents, passages, results, last_number)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""


def _notes(section: str) -> str:
    """A section of the system message without blank lines and remarks in parentheses."""
    lines = (" ".join(line.split()) for line in section.splitlines())
    return "\n".join(line for line in lines if line and not (line[0] == "(" and line[-1] == ")"))


def unfence(text: str) -> tuple[list[Document], str]:
    """Take the fenced documents out of a message; what is left is what was said.

    A fence ends where its own nonce says so, or with the text when its end was cut off.
    """
    documents: list[Document] = []
    rest: list[str] = []
    end = 0
    while opening := _FENCE.search(text, end):
        closing = f"[end of untrusted data {opening[1]}]"
        rest.append(text[end : opening.start()])
        stop = text.find(closing, opening.end())
        end = len(text) if stop < 0 else stop + len(closing)
        inner = text[opening.end() : len(text) if stop < 0 else stop]
        documents.append(Document(opening[2], inner.strip("\n")))
    rest.append(text[end:])
    return documents, "".join(rest).strip()


def stated(source: str, text: str, before: str = "") -> list[Passage]:
    """The statements of a text; questions and requests state nothing."""
    passages: list[Passage] = []
    for sentence in sentences(text):
        parts = clauses(sentence)
        stating = [part for part in parts if not is_question(part) and not is_request(part)]
        if stating and not _MARK.fullmatch(sentence):
            whole = sentence if len(stating) == len(parts) else ", ".join(stating)
            passages.append(Passage(source, whole, before))
            before = whole
    return passages


def _replied(reply: str) -> list[Passage]:
    """What an earlier reply states: what the stand-in quoted in its own, the sentences in a model's."""
    if OWN.search(reply):
        return []
    quotes = [text for text in re.findall("“([^”]{1,400})”", reply) if not is_question(text)]
    return [Passage(REPLIED, text) for text in quotes] if quotes else stated(REPLIED, reply)


def _returned(name: str, result: str) -> list[Passage]:
    """What a tool's result states, if it is no error."""
    if name in _MOMENTARY or re.match(rf"{re.escape(name)} (?:failed|was not called)\b", result):
        return []
    documents, rest = unfence(result)
    if name == "search_history":
        return _found("\n".join(document.text for document in documents))
    text = "\n".join([*(document.text for document in documents), rest])
    return stated(f"A result of the tool {name} says", text)


def _found(hits: str) -> list[Passage]:
    """What the messages that a search found state, the oldest message first."""
    found: list[tuple[tuple[str, int], list[Passage]]] = []
    when, role, lines = ("", 0), "", list[str]()
    for line in [*hits.splitlines(), "0000-00-00, session end, turn 0, end:"]:
        heading = _HIT.match(line)
        if not heading:
            lines.append(line.strip())
            continue
        text = "\n".join(lines)
        passages = _replied(text) if role == "assistant" else stated(FOUND, text)
        found.append((when, [Passage(FOUND, passage.text, passage.before) for passage in passages]))
        when, role, lines = (heading[1], int(heading[2])), heading[3], []
    return [passage for _, passages in sorted(found, key=lambda hit: hit[0]) for passage in passages]


_START = (
    r"(?:please )?(?:what|how|which|when|where|who|whose|why|is|do you|does|did|can you|could you|tell me|"
    r"show me|"
    r"give me|compute|calculate|work out|add|subtract|multiply|divide|double|triple|halve|square|cube|"
    r"take|plus|"
    r"minus|times|remember)\b"
)
_BETWEEN = re.compile(
    r"(?i)(?:,?\s+(?:and|but)\s+(?:then\s+|also\s+|finally\s+)?|[,;]\s*(?:then\s+|also\s+)?|\s+then\s+)"
    rf"(?={_START})"
)


def clauses(sentence: str) -> list[str]:
    """Split "my name is Ada, and what is 2+2?" where a new question or order begins."""
    parts = [part.strip() for part in _BETWEEN.split(sentence) if part.strip()]
    return parts if len(parts) > 1 and formula(sentence) is None else [sentence]


def canonical(arguments: str) -> str:
    """Arguments of a call as a text that is the same whatever the order of their keys."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except ValueError:
        return arguments


def number(result: str) -> str:
    """The number that a result of the calculator is, or "" when it is something else, such as an error."""
    match = re.fullmatch(r"(?i)\s*(-?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*", result)
    return match[1] if match else ""


def clip(text: str, characters: int = 240) -> str:
    """Shorten a text to one line, between two words where that is possible."""
    text = " ".join(text.split())
    if len(text) <= characters:
        return text
    head = text[: characters - 1]
    return f"{head.rsplit(' ', 1)[0]}…"
