"""What the context is handed from outside: the log on disk and the facts. Any object that fits will do.

`history.Session` and `memory.FactStore` fit; tests and lessons bring smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

NOTHING: Mapping[str, str] = {}


class SessionLog(Protocol):
    """Where the log is kept on disk; `history.Session` is one. Every call is durable when it returns."""

    def last_turn(self) -> int:
        """Highest turn number, 0 when there is none."""

    def open_turn(self, turn: int, message: dict[str, Any], parts: Mapping[str, str] = NOTHING) -> int:
        """Store the question of a new turn, in place of whatever a crash left at or above its number."""

    def append(self, turn: int, message: dict[str, Any], parts: Mapping[str, str] = NOTHING) -> int:
        """Store a further message of the turn."""

    def project(self, turn: int, parts: Mapping[str, str], log: Mapping[str, str] = NOTHING) -> None:
        """Store the changed parts of the projection."""

    def undo(self, turn: int) -> None:
        """Take back everything at or above this turn number."""

    def parts(self) -> dict[str, str]:
        """The newest value of each part of the projection."""

    def part_log(self, name: str) -> list[str]:
        """All values logged under this name."""

    def turns(self, first: int, last: int) -> list[tuple[int, list[dict[str, Any]]]]:
        """The messages of these turns."""


class FactSource(Protocol):
    """What is known about the person across conversations; `memory.FactStore` is one."""

    @property
    def revocation_serial(self) -> int:
        """Serial of the newest revocation of a source, 0 when there was none. Cheap: asked at every build."""

    def revoked(self, after: int = 0) -> Sequence[tuple[int, str]]:
        """Return (serial, source) of every revocation after this serial, oldest first."""

    def sources(self) -> Sequence[str]:
        """Return the sources of the facts that speak now."""

    def render(self, max_tokens: int, *, count: Callable[[str], int] | None = None) -> str | None:
        """Return the facts as text within this many tokens. Cheap when nothing changed."""

    def mark(self, turn: int, evidence: Sequence[str] = ()) -> object:
        """Stamp every write with this turn from now on."""

    def end_turn(self) -> None:
        """Stop stamping."""

    def mark_for(self, turn: int) -> object:
        """Return the mark of a turn without opening it."""

    def rewind(self, mark: object) -> None:
        """Take back every write of this turn and of later ones. Can be repeated."""
