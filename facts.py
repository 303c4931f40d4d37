"""The facts of one person: written, shown to the model, forgotten, and taken back with an undone turn.

Covered here: `FactStore`, an SQLite file that all sessions share, or the same in memory. Not covered:
the rules it applies (`provenance.py`), and summaries, which live and die with one conversation
(`memory.py`).

A write only ever adds a version on top of its key's stack. So whatever is taken away later, by an
undo or by forgetting a source, what it had replaced is in force again without being written anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from facts_file import FactFile
from provenance import (
    CONFIDENCES,
    FACTS_HEADING,
    ORIGINS,
    POLICIES,
    PROTECTED,
    Fact,
    FactError,
    Mark,
    Source,
    Version,
    check_word,
    clean_line,
    clean_text,
    fold,
    identity,
    left_out_line,
    successor,
)
from tokens import counter_for

__all__ = ["FACTS_HEADING", "PROTECTED", "Fact", "FactError", "FactStore", "Mark", "Rendered"]

MESSAGE_TOKENS = 800
"""What `as_message` may take: the share of the facts in the default budget (10 % of 8,000)."""

_TURN = re.compile(r"turn-\d+")


class Rendered(NamedTuple):
    """What the last rendering did: facts shown, and facts it had no room for."""

    shown: int
    left_out: int


class _Snapshot(NamedTuple):
    changes: tuple[int, int]
    in_force: dict[str, Version]
    revocation_serial: int


class FactStore:
    """Facts with their provenance.

    Args:
        path: the SQLite file, made when it is not there, shared safely by several processes; None
            keeps the facts in memory.
        validate: called with each fact before it is written; what it raises stops the write.

    Every method raises FactError (a ValueError) when it refuses, and when the file cannot be used.
    """

    def __init__(
        self, path: Path | str | None = None, validate: Callable[[Fact], object] | None = None
    ) -> None:
        self.session = ""
        """Id of the conversation whose turns are stamped; "" for none."""
        self._validate = validate
        self._file = FactFile(None if path is None else Path(path))
        self._turn: Mark | None = None
        self._evidence: tuple[str, ...] = ()
        self._snapshot: _Snapshot | None = None
        self._cache: tuple[object, str | None, Rendered] | None = None

    def close(self) -> None:
        """Close the file; the store cannot be used afterwards."""
        self._file.close()

    # Writing

    def write(self, fact: Fact, on_conflict: str = "newest") -> Fact:
        """Write a fact and return the one that is in force for its key now.

        In a turn with evidence, a model's fact counts as the documents': they are its source.

        Args:
            fact: what to write.
            on_conflict: what to do when the key has another value: "newest" replaces it, "keep" leaves
                it, "reject" raises.

        Raises:
            FactError: a protected key, text that may not be kept, a refusal by the validation hook,
                or a value that a model or document may not replace (`provenance.successor`).
        """
        check_word("on_conflict", on_conflict, POLICIES)
        names: Sequence[str] = (fact.source,)
        if self._evidence and fact.origin == "model":
            names = self._evidence
            fact = replace(fact, origin="document")
        sources = tuple(self._source(clean_text(name)) for name in names)
        checked = [replace(fact, source=name).cleaned() for name in names]
        fact = replace(checked[0], source=", ".join(each.source for each in checked))
        if self._validate is not None:
            try:
                self._validate(fact)
            except Exception as error:  # a person's own hook may raise anything; all of it means no
                raise FactError(
                    str(error) or f"The validation hook refused it: {type(error).__name__}."
                ) from error
        with self._file.transaction():
            old = next(iter(self._file.stack(identity(fact.key))), None)
            top = successor(old, Version(fact, sources, self._turn), on_conflict)
            if old is not None and (top is None or (top.repeats(old) and old.outlives(top))):
                return self._labeled(old)
            assert top is not None
            self._file.push(identity(fact.key), top)
        return self._labeled(top)

    def forget(self, key: str) -> bool:
        """Delete every version of a key, its bytes too; return whether there was one. No undo reverses it."""
        with self._file.transaction(erase=True):
            return self._file.delete_key(identity(key)) > 0

    def forget_source(self, source: str) -> int:
        """Delete everything that came from a source, and return how many facts that concerned.

        A fact counts once, whether its value in force or a replaced one came from there. What a
        deleted version had replaced is in force again. `turn-N` means a turn of this session; a turn
        of another one is named as `all` shows it (`turn-N@session`).
        """
        wanted = fold(clean_line(source))
        if not wanted:
            return 0
        gone: dict[int, str] = {}
        names = {self._source(clean_line(source))}  # also when no fact came from it: a summary may have
        with self._file.transaction(erase=True):
            for row_id, name, version in self._file.everything():
                meant = {each for each in version.sources if fold(each.label(self.session)) == wanted}
                if not meant and fold(self._labeled(version).source) == wanted:
                    meant = set(version.sources)  # several documents, named as they are shown
                if meant:
                    names |= meant
                    gone[row_id] = name
            self._file.delete_rows(gone)
            self._file.revoke(sorted(names))
        return len(set(gone.values()))

    # Turns

    def mark(self, turn: int, evidence: Sequence[str] = ()) -> Mark:
        """Begin a turn: until `end_turn`, writes are stamped with it. `evidence` names its documents."""
        self._turn = self.mark_for(turn)
        self._evidence = tuple(evidence)
        return self._turn

    def mark_for(self, turn: int) -> Mark:
        """Return the mark of a turn of this session without beginning it."""
        return Mark(self.session, turn)

    def end_turn(self) -> None:
        """End the turn: writes are not stamped any more, so no undo takes them back."""
        self._turn = None
        self._evidence = ()

    @property
    def evidence(self) -> str | None:
        """Names of the documents of the turn, which are the source of what a model writes now."""
        return ", ".join(self._evidence) or None

    def rewind(self, mark: object) -> None:
        """Take back what this turn and later ones of its session wrote; what that had replaced is back.

        Can be repeated, so that a resumed session finishes what a crash cut short. A forget stays.
        """
        assert isinstance(mark, Mark), "pass what mark() or mark_for() returned"
        if self._turn is not None and self._turn.session == mark.session and self._turn.turn >= mark.turn:
            self.end_turn()
        with self._file.transaction():
            self._file.delete_after(mark)

    # Reading

    def get(self, key: str) -> Fact | None:
        """Return the fact in force for a key."""
        version = self._current().in_force.get(identity(key))
        return None if version is None else self._labeled(version)

    def all(self, include_superseded: bool = False) -> list[Fact]:
        """Return the facts in force, the most important first; superseded ones follow what replaced them."""
        facts = self._ranked("low")
        if not include_superseded:
            return [self._labeled(version) for version in facts]
        return [version for fact in facts for version in self.versions(fact.fact.key)]

    def versions(self, key: str) -> list[Fact]:
        """Return every version of a fact, the one in force first."""
        found: list[Version] = []
        for version in self._file.stack(identity(key)):
            if not found or not version.repeats(found[-1]):  # a repetition is one fact with two stamps
                found.append(version)
        return [self._labeled(version) for version in found]

    def sources(self) -> list[str]:
        """Return the sources of the facts in force, named as `revoked` names them."""
        names = (
            each.name_in(self.session)
            for version in self._current().in_force.values()
            for each in version.sources
        )
        return list(dict.fromkeys(names))

    @property
    def revocation_serial(self) -> int:
        """Serial of the newest revocation, 0 before the first."""
        return self._current().revocation_serial

    def revoked(self, after: int = 0) -> list[tuple[int, str]]:
        """Return (serial, source) of every source that was forgotten after this serial, in order."""
        return [(serial, source.name_in(self.session)) for serial, source in self._file.revoked(after)]

    # Showing

    def render(
        self, max_tokens: int, min_confidence: str = "low", *, count: Callable[[str], int] | None = None
    ) -> str | None:
        """Return the facts for the system message, one a line, or None when there is nothing to show.

        What the person said comes first, then what is surer, then what is newer. What does not fit is
        counted in a last line. While nothing changed, here or in another process, this costs one
        look at SQLite's change counter.

        Args:
            max_tokens: most tokens that the text may have.
            min_confidence: facts below it are known and not asserted.
            count: counts the tokens of a text; by default the count for an unknown model.
        """
        check_word("min_confidence", min_confidence, CONFIDENCES)
        with self._file.lock:
            key = (self._current().changes, self.session, max_tokens, min_confidence, count)
            if self._cache is None or self._cache[0] != key:
                self._cache = (key, *self._fit(max_tokens, min_confidence, count))
            return self._cache[1]

    @property
    def last_render(self) -> Rendered:
        """What the last `render` showed and had no room for."""
        return self._cache[2] if self._cache else Rendered(0, 0)

    def as_message(self, min_confidence: str = "low", max_tokens: int = MESSAGE_TOKENS) -> dict[str, Any]:
        """Return the facts as a system message of its own, for a program that keeps its list by hand."""
        check_word("min_confidence", min_confidence, CONFIDENCES)
        heading = f"## {FACTS_HEADING}\n"
        text, _ = self._fit(max_tokens - counter_for("").text(heading), min_confidence, None)
        return {"role": "system", "content": heading + (text or "(nothing to show)")}

    def _fit(
        self, max_tokens: int, min_confidence: str, count: Callable[[str], int] | None
    ) -> tuple[str | None, Rendered]:
        count = count or counter_for("").text
        room = max_tokens
        facts = self._ranked(min_confidence)
        smallest = count("a: a (a, low)\n")
        shown: list[str] = []
        for fact in facts:
            if room < smallest:
                break
            line = self._labeled(fact, "another conversation").line()
            tokens = count(f"{line}\n")
            if tokens <= room:  # a long one that does not fit leaves room for shorter ones
                room -= tokens
                shown.append(line)
        while True:
            left_out = len(facts) - len(shown)
            text = "\n".join([*shown, left_out_line(left_out)] if left_out else shown)
            if count(text) <= max_tokens:
                return text or None, Rendered(len(shown), left_out)
            if not shown:
                return None, Rendered(0, left_out)
            shown.pop()

    def _ranked(self, min_confidence: str) -> list[Version]:
        lowest = CONFIDENCES.index(min_confidence)
        newest_first = reversed(self._current().in_force.values())
        sure = [each for each in newest_first if CONFIDENCES.index(each.fact.confidence) >= lowest]
        return sorted(
            sure,
            key=lambda each: (-ORIGINS.index(each.fact.origin), -CONFIDENCES.index(each.fact.confidence)),
        )

    def _labeled(self, version: Version, elsewhere: str | None = None) -> Fact:
        """The fact with its sources as they read in this session."""
        here = self.session
        names = [
            elsewhere if elsewhere and each.session not in ("", here) else clean_line(each.label(here))
            for each in version.sources
        ]
        return replace(version.fact, source=", ".join(dict.fromkeys(names)))

    def _source(self, label: str) -> Source:
        """The source that a label means in this session."""
        name, _, session = label.partition("@")
        if not _TURN.fullmatch(name):
            return Source(label)
        return Source(name, session or self.session)

    def _current(self) -> _Snapshot:
        """What is in force now, read again only when this store or another one wrote something."""
        with self._file.lock:
            changes = self._file.changes()
            if self._snapshot is None or self._snapshot.changes != changes:
                self._snapshot = _Snapshot(changes, self._file.in_force(), self._file.revocation_serial())
            return self._snapshot
