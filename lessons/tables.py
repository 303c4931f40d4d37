"""Read a TOML file so that every mistake in it becomes one sentence: a key missing, wrong or unknown."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from lessons import CourseError


class Table:
    """A table of a TOML file, each key of which is asked for once; what nobody asked for is a mistake."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = dict(values)
        self._where = where
        self._inner: list[Table] = []

    @classmethod
    def parse(cls, text: str, where: str) -> Table:
        """The table that a TOML text is; `where` names it in complaints.

        Raises:
            CourseError: it is not TOML.
        """
        try:
            return cls(tomllib.loads(text), where)
        except tomllib.TOMLDecodeError as error:
            raise CourseError(f"{where} is not TOML: {error}.") from None

    def _take(self, key: str, kind: type, default: Any) -> Any:
        value = self._values.pop(key, default)
        if value is None:
            raise CourseError(f"{self._where}: {key!r} is missing.")
        if not isinstance(value, kind):
            raise CourseError(f"{self._where}: {key!r} must be a {kind.__name__}.")
        return value

    def string(self, key: str, *, default: str | None = None, empty: bool = False) -> str:
        """A text; it must be there, and not be blank, unless a default or `empty` says otherwise."""
        value: str = self._take(key, str, default)
        if not value.strip() and not empty:
            raise CourseError(f"{self._where}: {key!r} is empty.")
        return value

    def integer(self, key: str) -> int:
        """A whole number; it must be there."""
        number: int = self._take(key, int, None)
        return number

    def boolean(self, key: str, *, default: bool = False) -> bool:
        """True or false."""
        value: bool = self._take(key, bool, default)
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of texts; nothing is an empty list."""
        values: list[Any] = self._take(key, list, [])
        if not all(isinstance(each, str) for each in values):
            raise CourseError(f"{self._where}: {key!r} must be a list of strings.")
        return tuple(values)

    def one_or_more(self, key: str) -> tuple[str, ...]:
        """One text under the key, or a list under its plural."""
        return (self.string(key),) if key in self._values else self.strings(f"{key}s")

    def table(self, key: str) -> Table:
        """A table in this one; nothing is an empty table."""
        inner = Table(self._take(key, dict, {}), f"{self._where}, [{key}]")
        self._inner.append(inner)
        return inner

    def tables(self, key: str) -> list[Table]:
        """The tables `[[key]]`; nothing is none."""
        values: list[Any] = self._take(key, list, [])
        if not all(isinstance(each, dict) for each in values):
            raise CourseError(f"{self._where}: {key!r} must be tables, [[{key}]].")
        inner = [Table(each, f"{self._where}, [[{key}]] {at}") for at, each in enumerate(values, 1)]
        self._inner += inner
        return inner

    def done(self) -> None:
        """Raise for a key that nobody asked for, here or further in."""
        for name in self._values:
            raise CourseError(f"{self._where}: {name!r} is not known here.")
        for each in self._inner:
            each.done()
