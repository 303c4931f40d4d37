"""A chat with a scripted model, for terminal tests: `python tests/terminal_demo.py [--plain] [--delay S]`.

The message chooses the reply: `list`, `code`, `long`, `table`, `tool`, `think`, `retry`, `fail`, `wide`,
`evil`, `compact`, `ask`, `hang`; anything else is echoed. `--delay` is the time between two pieces of text,
so that a test can act in the middle of one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from terminal.interrupts import InterruptShield
from terminal.meter import Meter, Toolbar
from terminal.repl import Answer, Choice, open_reader, repl
from terminal.screen import Screen, look_of, quiet_pipe

REPLIES = {
    "list": "A list:\n\n"
    + "".join(f"{n}. item number {n} of **three hundred**\n" for n in range(1, 301))
    + "\nEnd of list.",
    "code": "```python\n"
    + "".join(f"x_{n} = {n}  # line {n}\n" for n in range(1, 151))
    + "```\n\nEnd of code.",
    "long": " ".join(f"word{n}" for n in range(1, 900)) + ".",
    "table": "| Name | Value |\n|:--|--:|\n"
    + "".join(f"| row{n} | {n * n} |\n" for n in range(1, 41))
    + "\nEnd of table.",
    "wide": "".join(
        f"- 項目{n}は漢字とかなと👍🏽絵文字🎉を含む長い行で、折り返しが必要になります。\n"
        for n in range(1, 31)
    )
    + "\nEnd of wide.",
    "evil": "a \x1b[31mtext\x1b[0m, title \x1b]0;owned\x07, [bold]x[/x] :smile: \x9b2J and \u202eoverride.",
}
STATE = {"tokens": 1234, "compactions": 0}


def turn(text: str, delay: float, screen: Screen) -> Iterator[object]:
    """What an agent would yield for `text`."""
    from agent import (
        Compacted,
        Done,
        Failed,
        Notice,
        RequestStarted,
        ToolFinished,
        ToolStarted,
        TurnTrace,
        Working,
    )
    from brain import ReasoningDelta, Retrying, TextDelta
    from view import Compaction

    def pieces(reply: str) -> Iterator[TextDelta]:
        for start in range(0, len(reply), 7):
            time.sleep(delay)  # this is a program of its own: a model that takes its time
            yield TextDelta(reply[start : start + 7])

    try:
        yield RequestStarted(1, STATE["tokens"], 8000)
        if text == "tool":
            yield from pieces("Let me see.")
            yield ToolStarted("c1", "calculator", '{"expression": "6*7"}')
            time.sleep(delay * 20)
            yield ToolFinished("c1", "calculator", "42", ok=True, seconds=0.1)
            yield ToolStarted("c2", "calculator", '{"expression": "1/0"}')
            yield ToolFinished(
                "c2", "calculator", "division by zero\nuse another divisor", ok=False, seconds=0.0
            )
            yield RequestStarted(2, STATE["tokens"] + 20, 8000)
        elif text == "think":
            for number in range(30):
                time.sleep(delay)
                yield ReasoningDelta(f"thought {number}, ")
        elif text == "retry":
            yield Retrying("rate limited (429)", delay * 40)
            time.sleep(delay * 40)
        elif text == "compact":
            yield Working("summarizing")
            time.sleep(delay * 20)
            STATE["compactions"] += 1
            STATE["tokens"] = 6200
            yield Compacted(
                Compaction(1, "summary", 8, 0, 0, 5120, 6, 7950, 6200, 180, 212, 8, "kept 6 of 10 turns")
            )
        elif text == "ask":
            answer = screen.ask("Remember name=Ada?", ["yes", "no", "always"])
            yield Notice(f"You answered {answer!r}.")
        elif text == "hang":
            yield from pieces("Beginning of a **reply that ")
            time.sleep(60)
        elif text == "fail":
            yield from pieces("Half a reply")
            yield Failed("timeout", "The server did not answer within 60 s.", "Raise OPENAI_TIMEOUT.", text)
            return
        reply = REPLIES.get(text, f"You said: {text}")
        yield from pieces(reply)
        STATE["tokens"] += 800
        yield Done(reply, TurnTrace())
    except KeyboardInterrupt:
        yield Failed("interrupted", "Stopped.", "The question is back in the prompt.", text)


def main() -> None:
    """Runs the chat, or one question."""
    parser = argparse.ArgumentParser()
    parser.add_argument("question", nargs="?")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--title", default="")
    parser.add_argument("--history", type=Path)
    parser.add_argument("--reasoning", action="store_true")
    options = parser.parse_args()
    screen = Screen(sys.stdout, look_of(sys.stdout, os.environ, plain=options.plain))

    def meter() -> Meter:
        return Meter(STATE["tokens"], 8000, STATE["compactions"])

    def choices(line: str) -> Iterator[Choice]:
        for name in ("/compact", "/context", "/help", "/quit"):
            if name.startswith(line):
                yield Choice(name, len(line), f"what {name[1:]} does")

    renderer: list[object] = []

    def play(text: str, notes: Screen | None = None) -> Answer:
        from agent import Failed  # after the prompt, which must be there at once
        from terminal.render import Renderer

        if not renderer:
            renderer.append(
                Renderer(
                    screen,
                    notes,
                    meter=meter,
                    prompt=notes is None,
                    toolbar=notes is None and reader.toolbar,
                    shield=InterruptShield(),
                    reasoning=options.reasoning,
                )
            )
        with closing(turn(text.strip(), options.delay, screen)) as events:
            last = renderer[0].play(events)
        return Answer(restore=text) if isinstance(last, Failed) else Answer()

    with quiet_pipe(sys.stdout, sys.stderr):
        if options.question is not None:
            notes = Screen(sys.stderr, look_of(sys.stderr, os.environ, plain=options.plain))
            sys.exit(1 if play(options.question, notes).restore else 0)
        reader = open_reader(
            screen,
            toolbar=lambda: Toolbar(meter(), "gpt-4o-mini", options.title),
            choices=choices,
            history=options.history,
        )

        def handle(line: str) -> Answer:
            if line.startswith("/quit"):
                return Answer(leave=True)
            if line.startswith("/"):
                screen.say(f"command {line}")
                return Answer()
            return play(line)

        repl(reader, handle)


if __name__ == "__main__":
    main()
