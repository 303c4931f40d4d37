"""The current view, the views before it, and their stored form.

Each view is remembered with the number of the turn during or after which it came about. Undo of that
turn puts back the newest older one, in memory and on disk alike. The log is the truth: what is
stored of a view and cannot be read, or names turns that are not there, counts for nothing.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from ports import SessionLog
from view import Compaction, View


class Projection:
    """Which view is sent now, and the way back.

    Attributes:
        view: the current view; only `assign`, `store`, `restore` and `load` replace it.
    """

    def __init__(self, history: SessionLog | None) -> None:
        self._history = history
        self.view = View()
        self._past: list[tuple[int, View]] = [(0, self.view)]
        self._records: list[Compaction] | None = []

    def load(self, turn: int) -> None:
        """Take the stored view of a log whose last turn this is; what is older is read on demand."""
        self.view = self._stored(turn)
        self._past = [(turn, self.view)]
        self._records = None

    def assign(self, view: View, turn: int) -> None:
        """Make this the current view. It was stored with the message that brought it about."""
        if view is self.view:
            return
        self.view = view
        if self._past and self._past[-1][0] == turn:
            self._past.pop()
        self._past.append((turn, view))

    def store(self, view: View, turn: int, record: Compaction | None = None) -> None:
        """Make this the current view, on disk first."""
        if self._history is not None:
            parts = view.changed_parts(self.view)
            log = {"compaction": json.dumps(asdict(record))} if record else {}
            if parts or log:
                self._history.project(turn, parts, log)
        if record is not None and self._records is not None:  # else they are read when asked for
            self._records.append(record)
        self.assign(view, turn)

    def restore(self, turn: int) -> None:
        """Put back the view that was there before this turn was opened; its rows are undone already."""
        while self._past and self._past[-1][0] >= turn:
            self._past.pop()
        if not self._past:
            self._past.append((turn - 1, self._stored(turn - 1)))
        self.view = self._past[-1][1]
        if self._records is not None:
            del self._records[self.view.compactions :]

    def records(self) -> tuple[Compaction, ...]:
        """What each compaction did, oldest first."""
        return tuple(self._known_records())

    def _known_records(self) -> list[Compaction]:
        if self._records is None:
            stored = self._history.part_log("compaction") if self._history is not None else []
            self._records = [record for text in stored if (record := _record(text)) is not None]
        return self._records

    def _stored(self, last: int) -> View:
        parts = self._history.parts() if self._history is not None else {}
        return View.from_parts({name: text for name, text in parts.items() if _is_sound(name, text, last)})


def _is_sound(name: str, text: str, last: int) -> bool:
    try:
        return View.from_parts({name: text}).fits(last)
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


def _record(text: str) -> Compaction | None:
    try:
        return Compaction(**json.loads(text))
    except (ValueError, TypeError):
        return None
