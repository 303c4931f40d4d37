"""The making of one reply: what each clause of the question wants, the tools for it, the words.

Tools are planned from the payload alone: a call whose result is not there yet is asked for, one whose
result is there is used, and one that failed is reported and never repeated. So a chain of calls needs
no memory: each step is planned anew and comes one call further.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

from offline_rules import language
from offline_rules.arithmetic import Formula, formula
from offline_rules.brief import brief
from offline_rules.clocks import clocks
from offline_rules.intents import intent, strip
from offline_rules.matching import FACT, Found, Passage, find, value
from offline_rules.reading import SAID, SUMMARY, Sight, canonical, clauses, clip, number
from offline_rules.samples import sample

INTRODUCTION = (
    "I am the offline stand-in of mini-agent: no language model, only rules that read what they are sent. "
    "I know your messages, the summary, the facts and the documents in this one request and nothing else; "
    "what was compacted away is gone for me."
)
TRY = """

Things to try:

- tell me something (`my name is Ada`), chat on, and ask for it later (`what is my name?`)
- `what is 15% of 80, and what time is it in Tokyo?` calls two tools at once
- `compute 6*7 and then add 10 to the result` calls one after the other
- `remember for good that my favorite color is blue` stores a fact
- `show me a table`, `write 150 lines of code`, `list 300 items`, `echo: any text`"""

_ECHO = re.compile(r"(?is)\s*echo\s*:\s?(.*)")
_CLOCK = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d))?")
_FIELDS = ("year", "month", "day", "hour", "minute", "second")
_FOR_GOOD = re.compile(
    r"(?i) ?\b(?:for good|permanently|for ?ever|across (?:all )?(?:my )?(?:sessions|conversations)|"
    r"in (?:your )?(?:long-term )?memory|as a (?:stored )?fact|for (?:all )?later (?:sessions|"
    r"conversations))\b"
)
_KEEP = re.compile(r"(?i)^\W*(?:(?:please|can you|could you)\s+)*(?:(store|save|memorize)|remember)\b")
_KEY_VALUE = re.compile(r"(?is)(?:(?:my|our|the) )?(.{1,80}?)\s*(?:\b(?:is|are|was)\b|=|:)\s*(\S.*)")
_MOST_SEARCHES = 3


class Result(NamedTuple):
    """What became of a tool call: `done`, `pending` (it is asked for now) or `off` (not offered)."""

    state: str
    text: str = ""


@dataclass
class Answer:
    """One reply in the making: what is to be said, and the calls that must come first."""

    sight: Sight
    offered: frozenset[str]
    """Names of the tools that may be called."""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Calls to be made now: name and JSON text of the arguments."""
    said: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)
    previous: str = ""
    """The number that "add 10 to it" refers to, "" while there is none."""

    def make(self) -> str:
        """Return the text of the reply. While `calls` is not empty it is no answer yet."""
        question = self.sight.question
        echo = _ECHO.match(question)
        if echo:
            return echo[1].strip() or "There was nothing after `echo:`."
        made_up = sample(question)
        if made_up:
            return made_up
        self.previous = self.sight.last_number
        for sentence in language.sentences(question):
            for clause in clauses(sentence):
                self._take(clause)
        if self.noted:
            noted = self._vary(
                "Noted", "Noted, as long as it is in view", "Noted, and I can quote it while it is in view"
            )
            self.said.insert(0, f"{noted}: {_quoted(' '.join(self.noted))}")
        if not self.said:
            self._other()
        return ("\n\n" if any("\n" in part for part in self.said) else " ").join(dict.fromkeys(self.said))

    def tool_calls(self) -> list[dict[str, Any]]:
        """The calls in OpenAI's form; their ids count on within the turn."""
        return [
            {"id": f"offline_{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for at, (name, arguments) in enumerate(self.calls, start=len(self.sight.results) + 1)
        ]

    def _take(self, clause: str) -> None:
        """Deal with one clause of what the person wrote."""
        wanted, topic = intent(clause)
        zones, total = clocks(clause), formula(clause)
        keep = _KEEP.match(clause)
        if wanted == "document" and not self.sight.documents:
            wanted = "identity" if strip(clause).lower() == "what is this" else ""
        if wanted:
            self._chat(wanted, topic)
        elif keep and (keep[1] or _FOR_GOOD.search(clause)):
            self._store(clause)
        elif zones:
            self._tell_time(zones)
        elif total:
            self._calculate(total, clause)
        elif language.is_question(clause):
            self._recall(clause)
        elif language.is_statement(clause):
            self.noted.append(language.bare(clause).rstrip("?") or clause)
        elif made_up := sample(clause):
            self.said.append(made_up)

    def _vary(self, *phrases: str) -> str:
        """Return one of several phrases, chosen by what is in the payload."""
        return phrases[
            crc32(f"{len(self.sight.asked)} {self.sight.question}".encode("utf-8", "replace")) % len(phrases)
        ]

    # Tools

    def _call(self, name: str, arguments: dict[str, str]) -> Result:
        """Return the result of a call, or ask for it."""
        text = json.dumps(arguments, ensure_ascii=False)
        result = self.sight.results.get((name, canonical(text)))
        if result is not None:
            return Result("done", result)
        if name not in self.offered:
            return Result("off")
        if (name, text) not in self.calls:
            self.calls.append((name, text))
        return Result("pending")

    def _lacks(self, name: str, what: str) -> None:
        self.said.append(f"For {what} I need the tool `{name}`, and no tool of that name was offered to me.")

    def _calculate(self, wanted: Formula, clause: str) -> None:
        readings = {zone: self._read_clock(zone) for zone in wanted.zones}
        if not all(readings.values()) or (wanted.chained and not self.previous):
            self.previous = ""
            if not self.calls and not wanted.zones:
                self.said.append(f"There is no result that I could use for “{clip(strip(clause), 80)}”.")
            return
        expression = wanted.fill(self.previous, readings)
        result = self._call("calculator", {"expression": expression})
        self.previous = number(result.text)
        if result.state == "off":
            self._lacks("calculator", f"`{clip(expression, 80)}`")
        elif self.previous:
            self.said.append(f"{clip(expression)} = {self.previous}.")
        elif result.state == "done":
            self.said.append(
                f"The calculator could not work out `{clip(expression, 80)}`: {clip(result.text)}"
            )

    def _read_clock(self, zone: str) -> dict[str, int]:
        """Return the fields of a clock, or {} while or because it cannot be read."""
        result = self._call("current_time", {"timezone": zone} if zone else {})
        reading = _CLOCK.search(result.text)
        if reading:
            return dict(zip(_FIELDS, (int(part or 0) for part in reading.groups()), strict=True))
        if result.state == "off":
            self._lacks("current_time", "the time")
        elif result.state == "done":
            self.said.append(
                f"The clock{f' of {zone}' if zone else ''} could not be read: {clip(result.text, 400)}"
            )
        return {}

    def _tell_time(self, zones: Sequence[str]) -> None:
        for zone in zones:
            if self._read_clock(zone):
                result = self._call("current_time", {"timezone": zone} if zone else {})
                self.said.append(f"The clock{f' of {zone}' if zone else ''} says {clip(result.text)}.")

    def _store(self, clause: str) -> None:
        """Keep something as a fact, for later conversations too."""
        core = language.bare(_FOR_GOOD.sub("", clause)).strip(" .!,:?")
        core = re.sub(r"(?i)^that\b\s*", "", core)
        halves = _KEY_VALUE.match(core)
        key = halves[1] if halves else "note " + " ".join(language.content(core)[:3])
        result = self._call("remember", {"key": key.strip(), "value": halves[2] if halves else core})
        if result.state == "off":
            self.noted.append(core)
            self._lacks("remember", "keeping it beyond this conversation")
        elif result.state == "done":
            self.said.append(
                f"I asked for “{clip(core, 120)}” to be stored. The tool says: {clip(result.text)}"
            )

    # What was said

    def _recall(self, question: str) -> None:
        """Answer a question from what is in view, and from the history when that can be searched."""
        best = self._look(question)
        if best is None:
            return
        if not best:
            self.said.append(self._unseen())
        elif not best[0].sure:
            near = f"{best[0].passage.source}: {_quoted(best[0].passage.text)}"
            self.said.append(f"I cannot see a sure answer to that. The nearest: {near}")
        else:
            short = value(question, best[0].passage.text)
            lead = f"{clip(short, 120)}. " if short else ""
            self.said.append(f"{lead}{best[0].passage.source}: {_quoted(best[0].passage.text)}")

    def _look(self, question: str) -> list[Found] | None:
        """Find what fits; None while a search is asked for. Each search asks for something else."""
        best = find(question, self.sight.passages)
        if best and best[0].sure:
            return best
        keys = [word for word in dict.fromkeys(language.words(question)) if word not in language.STOPWORDS]
        hard = [word for word in keys if not language.is_soft(language.stem(word))]
        keys = hard if len(hard) > 1 else keys
        queries = [" ".join(keys[:8]), *sorted(keys, key=len, reverse=True)] if keys else []
        for query in list(dict.fromkeys(queries))[:_MOST_SEARCHES]:
            if self._call("search_history", {"query": query}).state == "pending":
                return None
        return best

    def _unseen(self) -> str:
        searched = any(name == "search_history" for name, _ in self.sight.results)
        looked = ", and a search of the history found nothing about it" if searched else ""
        cannot = self._vary(
            "I cannot see that", "I cannot see an answer to that", "I cannot see anything about that"
        )
        end = self._vary(
            "If you told me, it is no longer in my context.", "I know nothing else.", "I never guess."
        )
        return f"{cannot} in what I was sent: {self._view()}{looked}. {end}"

    def _view(self) -> str:
        """Say what is in view."""
        sight = self.sight
        parts = [_count(len(sight.asked), "message") + " of yours"]
        parts += ["a summary of earlier ones"] if sight.summary else []
        parts += [_count(len(sight.facts), "stored fact")] if sight.facts else []
        parts += [f"the document {document.name}" for document in sight.documents]
        return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))

    # The chat itself

    def _chat(self, wanted: str, topic: str) -> None:
        """Answer what is about the chat rather than about what was said in it."""
        sight = self.sight
        earlier = sight.asked[:-1]
        match wanted:
            case "greeting" if earlier:
                self.said.append("Hello again. I am still the offline stand-in; `help` says what to try.")
            case "greeting":
                self.said.append(f"Hello. {INTRODUCTION}{TRY}")
            case "identity":
                self.said.append(INTRODUCTION + TRY)
            case "thanks":
                self.said.append("You are welcome.")
            case "goodbye":
                self.said.append("Goodbye.")
            case "mood":
                self.said.append("As well as a set of rules can be: I am the offline stand-in.")
            case "view":
                self.said.append(f"I can see {self._view()}.")
            case "document":
                self._describe()
            case "first message" | "last message" if earlier:
                one, which = (earlier[0], "first") if wanted == "first message" else (earlier[-1], "last")
                self.said.append(
                    f"The {which} message of yours that I can see before this one: {_quoted(one)}"
                )
            case "first message" | "last message":
                self.said.append("I cannot see any message of yours before this one.")
            case "about":
                found = find(topic, sight.passages, limit=3)
                if len(found) > 1:
                    self._list("About that I can see, the newest first:", [one.passage for one in found])
                else:
                    self._recall(topic)
            case "about me":
                personal = re.compile(r"(?i)\b(?:i|my|me|we|our)\b")
                mine = [
                    one
                    for one in sight.passages
                    if one.source in (FACT, SUMMARY) or personal.search(one.text)
                ]
                self._list("About you I can see:", mine[-8:])
            case "recap":
                said = [
                    {"role": "user", "content": one.text}
                    for one in sight.passages
                    if one.source in (SUMMARY, SAID)
                ]
                lines = brief(None, said, max_tokens=400).splitlines()
                self._list(f"From what I was sent ({self._view()}):", [Passage("", line) for line in lines])

    def _list(self, head: str, passages: Sequence[Passage]) -> None:
        lines = [f"- {one.source}: {_quoted(one.text)}".replace("- : ", "- ") for one in passages]
        self.said.append("\n".join([head, "", *lines]) if lines else self._unseen())

    def _describe(self) -> None:
        """Say what the attached documents are."""
        for document in self.sight.documents:
            size = _count(len(document.text.split()), "word")
            beginning = " ".join(language.sentences(document.text)[:3])
            self.said.append(
                f"The attached document {document.name} has {size}. It begins: {_quoted(beginning)}"
            )

    def _other(self) -> None:
        """Answer what no rule is about."""
        if self.sight.documents:
            self._describe()
            return
        view = self._view()
        self.said.append(
            self._vary(
                f"I have no rule for that; I am the offline stand-in. In view: {view}.",
                f"That is beyond the offline stand-in. I can quote from {view}, calculate and tell the time.",
                f"All that the offline stand-in has to work with is {view}. `help` says what to try.",
                f"No model is connected, so I cannot discuss that. In view: {view}.",
                f"Read, and I can quote it later while it is in view. So far that is {view}.",
            )
        )


def _quoted(text: str) -> str:
    """A quotation that ends a sentence."""
    shown = clip(text)
    return f"“{shown}”" if shown.endswith((".", "!", "?", "…", "。")) else f"“{shown}”."


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
