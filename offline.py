"""The stand-in that answers when neither a key nor a base URL is set: rules, no language model.

It reads the payload as a model would, and nothing else: what was said, the summary, the facts, the
attached documents, the results of tools. So a person can watch an agent forget, and see what a summary,
a fact or a search saves, without a network. A reply is a function of the payload and the tools offered:
no clock, no chance, no memory between calls.

Not covered: the rules themselves, which are in `offline_rules/` and say nothing about keeping a context.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from brain import BrainEvent, Reply, TextDelta
from offline_rules.answers import Answer
from offline_rules.brief import brief, cautious_tokens, requested_brief
from offline_rules.reading import read

__all__ = ["OfflineBrain", "summarize"]

Messages = Sequence[Mapping[str, Any]]
PIECES = 300
"""Most text events that one reply is streamed in."""


def summarize(previous: str | None, dropped: Messages, *, max_tokens: int) -> str:
    """Play summarizer (`ContextManager(summarizer=...)`): keep the sentences that carry something.

    Args:
        previous: the summary so far.
        dropped: messages that are no longer sent, oldest first.
        max_tokens: the cap, kept by a cautious estimate in any encoding.

    Returns:
        Sentences with names, numbers, decisions, promises and open questions, the previous ones first;
        never longer than what went in.
    """
    return brief(previous, dropped, max_tokens=max_tokens)


class OfflineBrain:
    """A `ChatModel` without a model.

    Args:
        pace: seconds to wait before each piece of text, so that a person sees it stream. What is said
            does not depend on it.
        sleep: how to wait.
    """

    def __init__(self, *, pace: float = 0.0, sleep: Callable[[float], object] = time.sleep) -> None:
        self.model = "offline"
        self._pace = pace
        self._sleep = sleep

    def stream(
        self, payload: Messages, tools: Messages | None = None, max_tokens: int | None = None
    ) -> Iterator[BrainEvent]:
        """Answer a few words at a time; the last item is the `Reply`."""
        reply = self.chat(payload, tools, max_tokens)
        words = re.findall(r"\s*\S+", reply.text)
        size = -(-len(words) // PIECES) or 1
        for start in range(0, len(words), size):
            if self._pace:
                self._sleep(self._pace)
            yield TextDelta("".join(words[start : start + size]))
        yield reply

    def chat(self, payload: Messages, tools: Messages | None = None, max_tokens: int | None = None) -> Reply:
        """Answer at once.

        A request of `memory.RollingSummary` is answered with the brief it asks for. There is no usage,
        because no tokenizer of a provider counted anything, and the context must not learn from a guess.
        """
        sight = read(payload)
        text = requested_brief(sight, max_tokens)
        if text is None:
            answer = Answer(sight, frozenset(tool["function"]["name"] for tool in tools or ()))
            text = answer.make().rstrip()
            if answer.calls:
                return Reply("", answer.tool_calls(), None, "tool_calls")
        shown = _within(text, max_tokens)
        return Reply(shown, [], None, "stop" if shown == text else "length")


def _within(text: str, max_tokens: int | None) -> str:
    """As many words of the text as surely fit; one at least, since an empty reply is none."""
    if max_tokens is None or cautious_tokens(text) <= max_tokens:
        return text
    words = re.findall(r"\s*\S+", text)
    used = count = 0
    while count < len(words) and used + cautious_tokens(words[count]) <= max_tokens:
        used += cautious_tokens(words[count])
        count += 1
    return "".join(words[: max(1, count)])
