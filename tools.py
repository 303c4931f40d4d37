"""What a model can do: tools, the registry that runs them, and a person's own file of tools.

A tool is a typed function with a docstring (`examples/my_tools.py` is a whole file of them):

    @tool
    def add(a: int, b: int) -> int:
        '''Add two whole numbers.'''
        return a + b

Covered here: marking, registering, running a call, turning any result or failure into one text, and
loading a file. Not covered: the JSON Schema and the check of arguments (`tool_schema.py`), the tools
that come with the program (`builtin_tools.py`), asking for approval and the loop (`agent.py`).
"""

from __future__ import annotations

import inspect
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, overload

from plugins import PluginError, describe, run_file
from tool_schema import ArgumentsError, JsonSchema, Signature, ToolDefinitionError, read_signature
from turns import clean_text

MAX_RESULT = 20_000
"""Characters of one result that the model gets to see; about 5,000 tokens of English."""

MAX_ITEMS = 1_000
"""Items taken from a generator, which may have no end."""

MAX_ERROR = 1_000
"""Characters of what a `ToolError` says."""

_MARK = "_mini_agent_tool"

Function = TypeVar("Function", bound=Callable[..., Any])


class ToolError(Exception):
    """Raise it inside a tool to tell the model what was wrong and what is allowed, in your own words."""


class ToolFileError(Exception):
    """A file of tools that cannot be used; one sentence for the person, with the line where there is one."""


class ToolResult(NamedTuple):
    """What one call gives: never empty, always text that encodes as UTF-8."""

    content: str
    ok: bool


class _Mark(NamedTuple):
    """What `@tool` leaves on a function."""

    needs_approval: bool
    name: str


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(*, needs_approval: bool = True, name: str = "") -> Callable[[Function], Function]: ...
def tool(
    function: Function | None = None, /, *, needs_approval: bool = True, name: str = ""
) -> Function | Callable[[Function], Function]:
    """Mark a function as a tool. It stays the plain function that it was.

    Args:
        function: The function, when the decorator is written without parentheses.
        needs_approval: Whether the person is asked before each call. Leave it on for whatever writes,
            sends, spends or reads something private.
        name: The name that the model sees, where it is not the function's.
    """

    def mark(function: Function) -> Function:
        setattr(function, _MARK, _Mark(needs_approval, name))
        return function

    return mark if function is None else mark(function)


@dataclass(frozen=True)
class Tool:
    """A function that the model may call."""

    signature: Signature
    needs_approval: bool
    function: Callable[..., Any]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Tool:
        """Make a tool of a function, marked with `@tool` or not.

        Raises:
            ToolDefinitionError: the function lacks something; the sentence says what to add.
        """
        mark = _mark_of(function) or _Mark(needs_approval=True, name="")
        return cls(read_signature(function, mark.name), mark.needs_approval, function)

    @property
    def name(self) -> str:
        """The name that the model calls it by."""
        return self.signature.name

    @property
    def description(self) -> str:
        """The docstring, without its sections."""
        return self.signature.description

    @property
    def schema(self) -> JsonSchema:
        """What the model is told, in OpenAI's form."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.signature.schema,
            },
        }

    def accepts(self, arguments: str) -> bool:
        """Whether a call with these arguments would run; what is wrong with others, `run` says."""
        try:
            self.signature.check(arguments)
        except Exception:  # noqa: BLE001 - whatever stops the check stops the call
            return False
        return True


class ToolRegistry:
    """The tools that a model is offered, by name, and the one place where they run.

    Args:
        max_result_chars: Characters of a result that the model gets to see; the rest is cut off, with a
            marker that says how much.
    """

    def __init__(self, *, max_result_chars: int = MAX_RESULT) -> None:
        if max_result_chars < MAX_ERROR:
            raise ValueError(f"max_result_chars must be at least {MAX_ERROR:,}, so that an error text fits.")
        self.max_result_chars = max_result_chars
        self._tools: dict[str, Tool] = {}

    @property
    def names(self) -> list[str]:
        """Names of the tools, in the order in which they were registered."""
        return list(self._tools)

    def get(self, name: str) -> Tool | None:
        """The tool of that name, if there is one."""
        return self._tools.get(name)

    def schemas(self) -> list[JsonSchema]:
        """What the model is told about all tools, in OpenAI's form. The first call imports pydantic."""
        # A round trip through JSON: a copy as deep as it gets, and proof that it can be sent.
        text = json.dumps([tool.schema for tool in self._tools.values()], ensure_ascii=False)
        copy: list[JsonSchema] = json.loads(clean_text(text))
        return copy

    def register(self, function: Callable[..., Any] | Tool, *, check: bool = True) -> Tool:
        """Offer a function, or a ready tool, to the model.

        Args:
            function: A typed function with a docstring. Without `@tool` it needs approval.
            check: Work out the schema now rather than when it is first asked for. The program's own
                tools, whose schemas are tested, switch it off to start sooner.

        Raises:
            ToolDefinitionError: the function cannot be a tool, or its name is taken.
        """
        made = function if isinstance(function, Tool) else Tool.of(function)
        if made.name in self._tools:
            raise ToolDefinitionError(f"there already is a tool named {made.name}: rename one of the two.")
        if check:
            _ = made.schema
        self._tools[made.name] = made
        return made

    def run(self, name: str, arguments: str) -> ToolResult:
        """Run one call and return its result, whatever happens; only Ctrl-C gets through.

        Args:
            name: The name that the model gave.
            arguments: The JSON text of an object, as the model sent it.
        """
        tool = self._tools.get(name)
        try:
            if tool is None:
                return self._result(self._unknown(name), ok=False)
            values = tool.signature.check(arguments)
            with _prints_aside():
                return self._result(_as_text(tool.function(**values)), ok=True)
        except KeyboardInterrupt:
            raise
        except ArgumentsError as error:
            return self._result(f"{name} was not called: {error}", ok=False)
        except BaseException as error:  # noqa: BLE001 - `exit()` in a tool ends the call, not the program
            return self._result(f"{name} failed: {_reason(error)}", ok=False)

    def load_file(self, path: Path | str) -> list[str]:
        """Register every function of a Python file that is marked with `@tool`; all of them or none.

        The file runs as a module of its own, so two files may use the same names inside.

        Returns:
            The names of the new tools, in the order in which the file defines them.

        Raises:
            ToolFileError: the file cannot be used; nothing was registered.
        """
        path = Path(path)
        before = self._tools.copy()
        try:
            with _prints_aside():
                module = run_file(path)
            for function in _marked(module):
                try:
                    self.register(function)
                except ToolDefinitionError as error:
                    raise ToolFileError(f"{path.name}, line {_line_of(function)}: {error}") from error
        except PluginError as error:
            raise ToolFileError(str(error)) from error
        except BaseException as error:
            self._tools = before
            if isinstance(error, KeyboardInterrupt | ToolFileError):
                raise
            raise ToolFileError(f"{path.name}: {describe(error)}.") from error
        if len(self._tools) == len(before):
            raise ToolFileError(f"{path.name} has no function marked with @tool (from tools import tool).")
        return self.names[len(before) :]

    def _unknown(self, name: str) -> str:
        if not self._tools:
            return f"There is no tool {_quote(name)}: no tools are available. Answer without one."
        near = get_close_matches(name[:64].lower(), self._tools, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"There is no tool {_quote(name)}.{hint} The tools are: {', '.join(self._tools)}."

    def _result(self, text: str, *, ok: bool) -> ToolResult:
        return ToolResult(clean_text(_cut(text, self.max_result_chars)), ok)


def _prints_aside() -> AbstractContextManager[object]:
    """What a person's own code prints goes to stderr: stdout is for the answer alone."""
    return redirect_stdout(sys.stderr)


def _as_text(value: Any) -> str:
    """Say a result as text: a string as it is, anything else as JSON, or as its repr where JSON cannot."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()  # or Python would warn that it was never awaited
        raise ToolError("it returned an awaitable; call asyncio.run(...) inside the tool")
    if value is None:
        return "(done; there is no result to show)"
    if isinstance(value, str):
        # A plain str also of a subclass, whose own __str__ may say something else (an enum's does).
        return str.__str__(value) or "(the result is an empty text)"
    if isinstance(value, Iterator):
        value = _items(value)
    from pydantic_core import to_json  # knows dataclasses, dates, decimals, sets, models, ...

    try:
        return to_json(value, fallback=str, inf_nan_mode="strings").decode()
    except Exception:  # noqa: BLE001 - cyclic, too deep, bytes that are no text, odd keys, a failing __str__
        return _repr(value)


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - the value is anybody's, and so is its __repr__
        return f"(a result of type {type(value).__name__} that cannot be shown as text)"


def _items(iterator: Iterator[Any]) -> list[Any]:
    items = list(itertools.islice(iterator, MAX_ITEMS + 1))
    if len(items) > MAX_ITEMS:
        items[MAX_ITEMS:] = [f"(only the first {MAX_ITEMS:,} items were taken)"]
    return items


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    shown = limit - 100  # room for the marker
    return f"{text[:shown]}\n[cut: the first {shown:,} of {len(text):,} characters are shown]"


def _reason(error: BaseException) -> str:
    """Say in one line what an exception says; a `ToolError` in its own words, any other with its type."""
    try:
        text = str(error) if isinstance(error, ToolError) else describe(error)
    except Exception:  # noqa: BLE001 - an exception whose __str__ fails still has a type to name
        text = ""
    return " ".join(text.split())[:MAX_ERROR] or type(error).__name__


def _quote(name: str) -> str:
    return repr(name if len(name) <= 64 else name[:63] + "…")


def _mark_of(function: object) -> _Mark | None:
    # Statically, because a module may hold objects that answer to any attribute (proxies, mocks).
    mark = inspect.getattr_static(function, _MARK, None)
    return mark if isinstance(mark, _Mark) else None


def _marked(module: ModuleType) -> list[Callable[..., Any]]:
    """The functions of a module that carry the mark, each once even when it has two names."""
    return list({id(value): value for value in vars(module).values() if _mark_of(value)}.values())


def _line_of(function: Callable[..., Any]) -> int:
    """The line on which a function (its decorator, where it has one) begins."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_firstlineno if code else 1
