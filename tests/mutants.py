"""Put one fault at a time into the context engine and see that the tests find it: `make mutants`.

A mutant is a piece of source that stands in its file exactly once, and the fault in its place. Each is
tried in a copy of the project of its own; one that the tests do not notice is a hole in them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parent.parent
TESTS = ["tests/test_cases.py", "tests/test_context.py", "tests/test_context_machine.py"]  # quickest first


class Mutant(NamedTuple):
    """A fault: what it breaks, where, the right piece of source, and the wrong one."""

    breaks: str
    file: str
    right: str
    wrong: str


MUTANTS = [
    Mutant(
        "a second question is accepted",
        "context.py",
        "if self._log.live() is not None:\n            raise",
        "if False:\n            raise",
    ),
    Mutant("blank questions are accepted", "context.py", "or not text.strip():", "or not text:"),
    Mutant(
        "an answer is accepted while results are missing",
        "context.py",
        "turn = self._open_turn()\n        self._refuse_while_pending(turn)\n",
        "turn = self._open_turn()\n",
    ),
    Mutant(
        "a build is accepted while results are missing",
        "context.py",
        "if live is not None:\n            self._refuse_while_pending(live)",
        "if False:\n            self._refuse_while_pending(live)",
    ),
    Mutant("any result is accepted", "context.py", "if tool_call_id not in pending:", "if not pending:"),
    Mutant(
        "saying nothing is accepted",
        "context.py",
        "if not text.strip() and not calls:",
        "if not text and not calls and False:",
    ),
    Mutant("surrogates get in with a result", "context.py", "clean_text(content)", "content"),
    Mutant(
        "surrogates get in with a question",
        "context.py",
        "self._new_turn(clean_text(text)",
        "self._new_turn(text",
    ),
    Mutant("undo keeps the view", "context.py", "        self._projection.restore(number)\n", ""),
    Mutant("a summarizer may touch the context", "context.py", "        self._summarizing = True\n", ""),
    Mutant(
        "usage of a payload with other settings teaches",
        "context.py",
        "            self._resend_reasoning()\n        self._built = None\n",
        "            self._resend_reasoning()\n",
    ),
    Mutant(
        "the correction is not bounded",
        "context.py",
        "ratio = min(high, max(low, billed / self._built))",
        "ratio = billed / self._built",
    ),
    Mutant(
        "the budget ignores the correction",
        "payload.py",
        "return tokens > self.limits(view).budget",
        "return tokens > self.token_budget",
    ),
    Mutant("a learned ratio leaves no margin", "view.py", "- int(MARGIN * token_budget)", "- 0"),
    Mutant(
        "the margin is not given up for the newest turn",
        "compaction.py",
        "if payload.corrected_count(slid) > payload.token_budget:",
        "if payload.count(slid) > limits.budget:",
    ),
    Mutant("a pin has no cap", "context.py", "if pinned > cap:", "if False:"),
    Mutant(
        "a pin is checked alone",
        "context.py",
        "+ sum(self._log[number].question.tokens for number in self._view.pins)",
        "",
    ),
    Mutant(
        "a new model keeps the old correction", "context.py", "if self._view.correction != 1.0:", "if False:"
    ),
    Mutant("a new model keeps the old counts", "context.py", "            self._log.count_for(model)\n", ""),
    Mutant(
        "evidence stays after its turn", "turns.py", "entries = [self.question]\n", "entries = [self.asked]\n"
    ),
    Mutant(
        "results are sent in the order they came",
        "turns.py",
        'self.results[ids.index(result.message["tool_call_id"])] = result',
        "self.results[self.results.index(None)] = result",
    ),
    Mutant("NaN passes for JSON", "turns.py", "raise ValueError(constant)", "return None"),
    Mutant(
        "a list passes for an object",
        "turns.py",
        "isinstance(_STRICT.decode(text), dict)",
        "_STRICT.decode(text) is not None",
    ),
    Mutant("two calls share an id", "turns.py", "if call_id in seen:", "if False:"),
    Mutant(
        "a copy shares its calls",
        "turns.py",
        '    if calls:\n        copy["tool_calls"]',
        '    if False:\n        copy["tool_calls"]',
    ),
    Mutant(
        "a fence has no nonce at its end",
        "turns.py",
        "[end of untrusted data {nonce}]",
        "[end of untrusted data]",
    ),
    Mutant(
        "the live turn can be dropped",
        "cutting.py",
        "while first < log.last and",
        "while first <= log.last and",
    ),
    Mutant(
        "keep-recent-turns is one too many",
        "cutting.py",
        "log.last - limits.keep_turns + 1)",
        "log.last - limits.keep_turns)",
    ),
    Mutant(
        "the slide stops at the budget, not at the mark",
        "cutting.py",
        "mark = limits.low_water - room",
        "mark = limits.budget - room",
    ),
    Mutant(
        "no room is left for the summary",
        "cutting.py",
        "mark = limits.low_water - room",
        "mark = limits.low_water",
    ),
    Mutant(
        "pinned turns go like others",
        "cutting.py",
        "        if turn.pinned:\n            view = fit_pins",
        "        if False:\n            view = fit_pins",
    ),
    Mutant(
        "a pinned turn keeps its steps",
        "cutting.py",
        "    if not turn.steps:\n        return view\n    cut",
        "    if True:\n        return view\n    cut",
    ),
    Mutant(
        "the last step of an open turn is dropped",
        "cutting.py",
        "droppable = len(turn.steps) - (1 if turn.answer is None else 0)",
        "droppable = len(turn.steps)",
    ),
    Mutant(
        "all steps go at the first cut",
        "cutting.py",
        "while first < droppable and total > limits.low_water:",
        "while first < droppable:",
    ),
    Mutant(
        "steps are cut only to the budget",
        "cutting.py",
        "while first < droppable and total > limits.low_water:",
        "while first < droppable and total > limits.budget:",
    ),
    Mutant(
        "large results take the room of small ones",
        "cutting.py",
        "sorted(range(len(sizes)), key=lambda index: sizes[index])",
        "list(range(len(sizes)))",
    ),
    Mutant(
        "the steps of a pinned turn come back",
        "cutting.py",
        "if number >= first or number in view.pins)",
        "if number >= first)",
    ),
    Mutant(
        "shortened text has no marker",
        "view.py",
        'text = (content[:characters] + marker(len(content) - characters, len(content))).lstrip("\\n")',
        'text = content[:characters] or "x"',
    ),
    Mutant(
        "old pins are not sent",
        "view.py",
        "return [number for number in self.pins if number < self.first] + list(",
        "return list(",
    ),
    Mutant(
        "the correction rounds down",
        "view.py",
        "-int(-(tokens * correction) // 1)",
        "int(tokens * correction)",
    ),
    Mutant(
        "the schemas are not counted",
        "payload.py",
        "return PRIMING + self._tools_tokens + self.system(view).tokens",
        "return PRIMING + self.system(view).tokens",
    ),
    Mutant(
        "the payload is handed out live",
        "payload.py",
        "else message.copy() for message in messages",
        "else message for message in messages",
    ),
    Mutant(
        "the summary is not sent",
        "payload.py",
        "            if view.summary:\n                parts.append",
        "            if False:\n                parts.append",
    ),
    Mutant(
        "dropped turns come back between old pins and the window",
        "payload.py",
        "max(ready.last + 1, view.first)",
        "ready.last + 1",
    ),
    Mutant(
        "an undone turn stays in the kept messages",
        "payload.py",
        "or ready.last > log.last or (ready.turn and log[ready.last] is not ready.turn)",
        "",
    ),
    Mutant(
        "an overflow goes out",
        "compaction.py",
        "        _overflow(slid, payload)\n    dropped",
        "        pass\n    dropped",
    ),
    Mutant(
        "one absurd usage locks the chat",
        "compaction.py",
        "if view.correction_for(payload.model) <= 1.0:",
        "if True:",
    ),
    Mutant(
        "a starved window asks every turn",
        "compaction.py",
        "starved = payload.count(slid) > limits.low_water",
        "starved = False",
    ),
    Mutant(
        "a failing summarizer is asked for ever",
        "compaction.py",
        'return Plan(replace(new, fruitless=slid.fruitless + 1), "summary refused", fault)',
        'return Plan(new, "summary refused", fault)',
    ),
    Mutant(
        "results are not shortened",
        "compaction.py",
        "for shrink in (cut_steps, shorten_results):",
        "for shrink in (cut_steps,):",
    ),
    Mutant(
        "every attempt counts as a compaction",
        "compaction.py",
        "        return None\n    spans",
        "        pass\n    spans",
    ),
    Mutant(
        "what was dropped is not owed",
        "summarizing.py",
        "return replace(view, owed=(*old, *new), omitted=omitted)",
        "return view",
    ),
    Mutant(
        "what a brief covers is owed again",
        "summarizing.py",
        "[span for span in dropped if span.last > view.covered]",
        "list(dropped)",
    ),
    Mutant(
        "what is owed grows without bound",
        "summarizing.py",
        "while not view.rebuild and old and total > limits.owed:",
        "while False:",
    ),
    Mutant(
        "an error of the summarizer goes through",
        "summarizing.py",
        "except BaseException as error:  # noqa: BLE001",
        "except LookupError as error:  # noqa: BLE001",
    ),
    Mutant(
        "an empty summary is taken",
        "summarizing.py",
        "if not isinstance(text, str) or not text.strip():",
        "if not isinstance(text, str):",
    ),
    Mutant("junk is taken for a summary", "summarizing.py", "if pattern.search(text):", "if False:"),
    Mutant("a summary over its cap is taken", "summarizing.py", "if tokens > max_tokens:", "if False:"),
    Mutant(
        "a summary longer than what it replaces is taken",
        "summarizing.py",
        "if tokens > replaced:",
        "if False:",
    ),
    Mutant(
        "the previous summary is not handed on",
        "summarizing.py",
        "text = summarizer(view.summary, piece.messages",
        "text = summarizer(None, piece.messages",
    ),
    Mutant(
        "a step covers its whole turn",
        "summarizing.py",
        "span.first if span.stop is None else span.first - 1",
        "span.first",
    ),
    Mutant(
        "undo stops one view too early",
        "projection.py",
        "while self._past and self._past[-1][0] >= turn:",
        "while self._past and self._past[-1][0] > turn:",
    ),
    Mutant(
        "undo keeps the records of compactions",
        "projection.py",
        "del self._records[self.view.compactions :]",
        "pass",
    ),
]


def is_found(mutant: Mutant) -> bool:
    """Tell whether the tests fail on this mutant."""
    source = (PROJECT / mutant.file).read_text(encoding="utf-8")
    if source.count(mutant.right) != 1:
        raise SystemExit(f"{mutant.file} has {source.count(mutant.right)} places for: {mutant.breaks}")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        hidden = shutil.ignore_patterns(".*", "lessons", "benchmarks", "__pycache__")
        shutil.copytree(PROJECT, copy, ignore=hidden)
        (copy / mutant.file).write_text(source.replace(mutant.right, mutant.wrong), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *TESTS]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_PROFILE": "ci"}
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1}:
        raise SystemExit(
            f"the tests did not run on: {mutant.breaks}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.returncode == 1


def main(arguments: list[str]) -> int:
    """Try all mutants, or those whose text holds the first argument; print each with its verdict."""
    chosen = [mutant for mutant in MUTANTS if not arguments or arguments[0] in mutant.breaks]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        verdicts = list(pool.map(is_found, chosen))
    for mutant, found in zip(chosen, verdicts, strict=True):
        print(f"{'found ' if found else 'MISSED'}  {mutant.file:15} {mutant.breaks}")
    missed = verdicts.count(False)
    print(f"\n{len(chosen)} faults, {len(chosen) - missed} found, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
