"""The registry: whatever a model asks for and whatever a tool does, each call gives one readable text."""

import asyncio
import dataclasses
import datetime
import decimal
import enum
import functools
import itertools
import json
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins import describe
from tool_schema import NAME, ToolDefinitionError
from tools import MAX_ITEMS, MAX_RESULT, Tool, ToolError, ToolFileError, ToolRegistry, ToolResult, tool

ROOT = Path(__file__).parent.parent


def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


def identity_named(name):
    def f(x: int) -> int:
        """Do it."""
        return x

    f.__name__ = name
    return f


def give(value):
    if isinstance(value, BaseException):
        raise value
    return value


def returning(value):
    """A registry whose tool `f` returns this, or raises it."""

    def f() -> object:
        """Do it."""
        return give(value)

    registry = ToolRegistry()
    registry.register(f)
    return registry


# ---- registering ------------------------------------------------------------------------------------------


def test_a_function_becomes_a_tool_in_the_form_that_openai_takes():
    registry = ToolRegistry()
    registry.register(add)
    assert registry.names == ["add"]
    assert registry.schemas() == [
        {
            "type": "function",
            "function": {
                "name": "add",
                "description": "Add two whole numbers.",
                "parameters": {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                    "required": ["a", "b"],
                    "additionalProperties": False,
                },
            },
        }
    ]


def test_the_mark_says_name_and_approval_and_leaves_the_function_as_it_was():
    @tool(needs_approval=False, name="plus")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    made = ToolRegistry().register(add)
    assert (made.name, made.needs_approval, made.function) == ("plus", False, add)
    assert add(1, 2) == 3


def test_tools_need_approval_unless_they_say_otherwise():
    registry = ToolRegistry()
    assert registry.register(add).needs_approval
    assert registry.register(tool(functools.lru_cache(identity_named("a")))).needs_approval


def test_two_tools_of_one_name_are_refused():
    registry = ToolRegistry()
    registry.register(add)
    with pytest.raises(ToolDefinitionError, match="there already is a tool named add: rename one of the two"):
        registry.register(add)
    assert registry.names == ["add"]


def test_a_ready_tool_can_be_registered_too():
    made = Tool.of(add)
    registry = ToolRegistry()
    assert registry.register(made) is made
    assert registry.get("add") is made
    assert registry.get("other") is None


def test_a_refused_function_is_not_registered():
    def f(x: type(len)) -> None:
        """Do it."""

    registry = ToolRegistry()
    with pytest.raises(ToolDefinitionError):
        registry.register(f)
    assert registry.names == []


def test_changing_the_schemas_changes_nothing_inside():
    registry = ToolRegistry()
    registry.register(add)
    registry.schemas()[0]["function"]["parameters"]["properties"].clear()
    assert "a" in registry.schemas()[0]["function"]["parameters"]["properties"]


def test_a_limit_too_small_for_an_error_is_refused():
    with pytest.raises(ValueError, match="at least 1,000"):
        ToolRegistry(max_result_chars=10)


# ---- calls that do not run --------------------------------------------------------------------------------


def test_arguments_are_checked_and_coerced_before_the_call():
    registry = ToolRegistry()
    registry.register(add)
    assert registry.run("add", '{"a": "7", "b": 1}') == ToolResult("8", ok=True)
    assert registry.run("add", '{"a": "x", "b": 1}') == ToolResult(
        "add was not called: 'a' should be a valid integer, "
        'unable to parse string as an integer (got "x").\n'
        "Arguments of add: a (integer), b (integer).",
        ok=False,
    )


def test_an_unknown_tool_lists_the_names_and_the_nearest():
    registry = ToolRegistry()
    assert registry.run("add", "{}").content == (
        "There is no tool 'add': no tools are available. Answer without one."
    )
    registry.register(add)
    registry.register(identity_named("divide"))
    assert registry.run("Addd", "{}") == ToolResult(
        "There is no tool 'Addd'. Did you mean add? The tools are: add, divide.", ok=False
    )
    assert "Did you mean divide?" in registry.run("DIVIDE", "{}").content
    assert registry.run("weather", "{}").content == "There is no tool 'weather'. The tools are: add, divide."
    assert len(registry.run("x" * 10_000, "{}").content) < 200
    assert registry.run("\ud800\n", "{}").content.encode()


# ---- failures ---------------------------------------------------------------------------------------------


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("no\n  such\tthing"), "f failed: ValueError: no such thing"),
        (ToolError("give a name"), "f failed: give a name"),
        (ToolError(), "f failed: ToolError"),
        (KeyError("x"), "f failed: KeyError: 'x'"),
        (ValueError(), "f failed: ValueError"),
        (ValueError("\ud800"), "f failed: ValueError: \ufffd"),
        (ToolError(UnprintableError()), "f failed: ToolError"),
        (UnprintableError(), "f failed: UnprintableError"),
        (SystemExit(3), "f failed: it tried to end the program"),
        (MemoryError(), "f failed: MemoryError"),
        (StopIteration(1), "f failed: StopIteration: 1"),
        (GeneratorExit(), "f failed: GeneratorExit"),
        (asyncio.CancelledError(), "f failed: CancelledError"),
        (ExceptionGroup("several", [ValueError("x")]), "f failed: ExceptionGroup: several (1 sub-exception)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_failing_tool_gives_one_line(error, expected):
    assert returning(error).run("f", "{}") == ToolResult(expected, ok=False)


def test_endless_recursion_in_a_tool_is_its_failure():
    def f() -> int:
        """Do it."""
        return f()

    registry = ToolRegistry()
    registry.register(f)
    assert registry.run("f", "{}").content.startswith("f failed: RecursionError: maximum recursion depth")


def test_the_text_of_an_exception_is_bounded():
    for error in (ValueError("x" * 1_000_000), ToolError("x" * 1_000_000)):
        assert len(returning(error).run("f", "{}").content) < 1_100


def test_what_a_tool_prints_is_no_part_of_the_answer(capsys):
    """Nor is it of the result: it goes to stderr, where a person sees it."""

    def chatty() -> Iterator[str]:
        """Do it."""
        print("noise")
        yield "value"

    registry = ToolRegistry()
    registry.register(chatty)
    assert registry.run("chatty", "{}") == ToolResult('["value"]', ok=True)
    assert capsys.readouterr() == ("", "noise\n")


def test_control_c_gets_through():
    with pytest.raises(KeyboardInterrupt):
        returning(KeyboardInterrupt()).run("f", "{}")


def test_an_awaitable_result_is_a_failure_that_says_what_to_do():
    async def work() -> int:
        return 1

    def f():
        """Do it."""
        return work()

    registry = ToolRegistry()
    registry.register(f)
    assert registry.run("f", "{}") == ToolResult(
        "f failed: it returned an awaitable; call asyncio.run(...) inside the tool", ok=False
    )


# ---- results ----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x: int
    tags: set[str]


class Color(str, enum.Enum):  # noqa: UP042 - not a StrEnum, whose str() is its value
    RED = "red"


class Plain:
    def __str__(self):
        return "a plain thing"


class Broken:
    def __str__(self):
        raise RuntimeError

    __repr__ = __str__


CYCLE: list[object] = [1]
CYCLE.append(CYCLE)
DEEP = functools.reduce(lambda inner, _: [inner], range(100_000), [])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("as it is\n", "as it is\n", id="str"),
        pytest.param(Color.RED, "red", id="str-enum"),
        pytest.param("", "(the result is an empty text)", id="empty"),
        pytest.param(None, "(done; there is no result to show)", id="none"),
        pytest.param(7, "7", id="int"),
        pytest.param(True, "true", id="bool"),
        pytest.param(0.1, "0.1", id="float"),
        pytest.param({"ä": [1, None]}, '{"ä":[1,null]}', id="dict"),
        pytest.param({1: "a", (2, 3): "b", None: "c"}, '{"1":"a","2,3":"b","None":"c"}', id="odd-keys"),
        pytest.param(Point(1, {"a"}), '{"x":1,"tags":["a"]}', id="dataclass"),
        pytest.param(
            datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC), '"2026-01-31T00:00:00Z"', id="datetime"
        ),
        pytest.param(datetime.timedelta(hours=1), '"PT1H"', id="timedelta"),
        pytest.param(decimal.Decimal("1.10"), '"1.10"', id="decimal"),
        pytest.param(uuid.UUID(int=0), '"00000000-0000-0000-0000-000000000000"', id="uuid"),
        pytest.param(PurePosixPath("/a"), '"/a"', id="path"),
        pytest.param({3}, "[3]", id="set"),
        pytest.param(b"abc", '"abc"', id="bytes"),
        pytest.param(b"\xff", r"b'\xff'", id="bytes-no-text"),
        pytest.param([float("nan"), float("inf")], '["NaN","Infinity"]', id="nan"),
        pytest.param(Plain(), '"a plain thing"', id="object"),
        pytest.param([Plain()], '["a plain thing"]', id="object-inside"),
        pytest.param(Broken(), "(a result of type Broken that cannot be shown as text)", id="unprintable"),
        pytest.param(10**5_000, "1" + "0" * 5_000, id="int-past-4300-digits"),
        pytest.param(CYCLE, "[1, [...]]", id="cyclic"),
        pytest.param(DEEP, "(a result of type list that cannot be shown as text)", id="deep"),
        pytest.param((n for n in range(3)), "[0,1,2]", id="generator"),
        pytest.param(map(str, [1]), '["1"]', id="iterator"),
        pytest.param("\ud83d\ude00 \ud800", "😀 \ufffd", id="surrogates"),
        pytest.param(["\ud800"], r"['\ud800']", id="surrogate-inside"),
    ],
)
def test_any_result_becomes_text(value, expected):
    assert returning(value).run("f", "{}") == ToolResult(expected, ok=True)


def test_a_generator_without_end_is_taken_up_to_a_bound():
    content = returning(itertools.count()).run("f", "{}").content
    assert json.loads(content) == [*range(MAX_ITEMS), "(only the first 1,000 items were taken)"]


def test_a_generator_that_fails_half_way_is_a_failure():
    def broken():
        yield 1
        raise ValueError("torn")

    assert returning(broken()).run("f", "{}") == ToolResult("f failed: ValueError: torn", ok=False)


def test_a_long_result_is_cut_with_a_marker_that_says_how_much():
    content = returning("x" * 1_234_567).run("f", "{}").content
    assert content == "x" * 19_900 + "\n[cut: the first 19,900 of 1,234,567 characters are shown]"
    assert len(content) <= MAX_RESULT
    assert returning("x" * MAX_RESULT).run("f", "{}").content == "x" * MAX_RESULT


def test_the_limit_is_the_registrys_own():
    registry = ToolRegistry(max_result_chars=1_000)
    registry.register(returning("y" * 1_001).get("f"))
    assert (
        registry.run("f", "{}").content == "y" * 900 + "\n[cut: the first 900 of 1,001 characters are shown]"
    )


# ---- a person's own file ----------------------------------------------------------------------------------

GOOD = """
    from __future__ import annotations
    from dataclasses import dataclass
    from tools import tool

    @dataclass
    class Point:
        x: int

    @tool(needs_approval=False)
    def first(at: Point) -> int:
        '''Tell x.'''
        return at.x

    def helper():
        pass

    @tool
    def second() -> str:
        '''Say it.'''
        return __name__

    again = second
"""


def write(folder, text, name="my_tools.py"):
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_a_file_brings_its_marked_functions_in_order(tmp_path):
    registry = ToolRegistry()
    assert registry.load_file(write(tmp_path, GOOD)) == ["first", "second"]
    assert [registry.get(name).needs_approval for name in registry.names] == [False, True]
    assert registry.run("first", '{"at": {"x": 3}}') == ToolResult("3", ok=True)
    assert not (tmp_path / "__pycache__").exists()


def test_two_files_are_two_modules(tmp_path):
    """Files of one name in two folders do not replace each other, nor a module of the program."""
    registry = ToolRegistry()
    for word in ("one", "two"):
        (tmp_path / word).mkdir()
        text = f"""
            from tools import tool
            WORD = "{word}"
            @tool
            def {word}() -> str:
                '''Say it.'''
                return WORD
        """
        registry.load_file(write(tmp_path / word, text, "json.py"))
    assert [registry.run(word, "{}").content for word in ("one", "two")] == ["one", "two"]
    assert sys.modules["json"] is json


HEAD = "from tools import tool\n"
FINE = "@tool\ndef fine() -> str:\n    '''Say it.'''\n    return ''\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("x = 1\ndef f(:\n", "my_tools.py, line 2: SyntaxError: invalid syntax.", id="syntax"),
        pytest.param(
            "\nimport nowhere_to_be_found\n",
            "my_tools.py, line 2: ModuleNotFoundError: No module named 'nowhere_to_be_found'.",
            id="import",
        ),
        pytest.param(
            HEAD + FINE + "def f():\n    return 1 / 0\nf()\n",
            "my_tools.py, line 7: ZeroDivisionError: division by zero.",
            id="exception",
        ),
        pytest.param("raise SystemExit", "my_tools.py, line 1: it tried to end the program.", id="exit"),
        pytest.param(
            "def f(): pass",
            "my_tools.py has no function marked with @tool (from tools import tool).",
            id="no-tool",
        ),
        pytest.param(
            "", "my_tools.py has no function marked with @tool (from tools import tool).", id="empty"
        ),
        pytest.param(
            HEAD + FINE + "@tool\ndef f(x) -> str:\n    '''Do it.'''\n",
            "my_tools.py, line 6: 'x' of f has no type: write x: str, or int, float, bool, list[str]...",
            id="no-type",
        ),
        pytest.param(
            HEAD + FINE + "@tool\nclass F:\n    '''Do it.'''\n",
            "my_tools.py, line 1: <class",
            id="class",
        ),
        pytest.param(
            HEAD + FINE + "@tool\ndef add() -> str:\n    '''Do it.'''\n",
            "my_tools.py, line 6: there already is a tool named add: rename one of the two.",
            id="name-taken",
        ),
        pytest.param(
            HEAD + FINE + "@tool(name='fine')\ndef g() -> str:\n    '''Do it.'''\n",
            "my_tools.py, line 6: there already is a tool named fine: rename one of the two.",
            id="name-twice",
        ),
        pytest.param("\0", "my_tools.py: ", id="null-byte"),
    ],
)
def test_a_broken_file_is_one_sentence_and_registers_nothing(tmp_path, source, expected):
    registry = ToolRegistry()
    registry.register(add)
    (tmp_path / "my_tools.py").write_text(source, encoding="utf-8")
    with pytest.raises(ToolFileError) as caught:
        registry.load_file(tmp_path / "my_tools.py")
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)
    assert registry.names == ["add"]


def test_a_file_in_another_encoding_is_one_sentence(tmp_path):
    path = tmp_path / "my_tools.py"
    path.write_bytes(HEAD.encode("utf-16"))
    with pytest.raises(ToolFileError, match=r"my_tools\.py"):
        ToolRegistry().load_file(path)


def test_what_is_not_a_file_is_one_sentence(tmp_path):
    registry = ToolRegistry()
    with pytest.raises(ToolFileError, match=r"nowhere\.py cannot be read: No such file or directory\."):
        registry.load_file(tmp_path / "nowhere.py")
    with pytest.raises(ToolFileError, match="is a folder: name a Python file"):
        registry.load_file(tmp_path)


def test_a_file_whose_types_misbehave_is_one_sentence(tmp_path):
    source = """
        from tools import tool

        class Odd:
            def __get_pydantic_core_schema__(*_):
                raise SystemExit(4)

        @tool
        def f(x: Odd) -> str:
            '''Do it.'''
    """
    registry = ToolRegistry()
    with pytest.raises(ToolFileError, match=r"^my_tools\.py: it tried to end the program\.$"):
        registry.load_file(write(tmp_path, source))
    assert registry.names == []


def test_control_c_while_a_file_loads_gets_through(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        ToolRegistry().load_file(write(tmp_path, "raise KeyboardInterrupt"))


def test_the_example_in_the_repository_loads_and_runs():
    registry = ToolRegistry()
    assert registry.load_file(ROOT / "examples" / "my_tools.py") == ["free_space"]
    assert registry.run("free_space", "{}").content.endswith(" GB")
    assert not registry.get("free_space").needs_approval


# ---- the start, and everything at once --------------------------------------------------------------------


def test_nothing_heavy_is_imported_before_a_schema_is_asked_for():
    """The prompt is up before pydantic is: it alone takes about 0.1 s."""
    script = (
        "import sys, builtin_tools; registry = builtin_tools.builtin_registry(); registry.names; "
        "print(sorted({'pydantic', 'openai', 'tiktoken', 'simpleeval', 'asyncio'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("[]\n", "")


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
results = st.recursive(
    json_like
    | st.binary()
    | st.sets(st.integers() | st.text())
    | st.complex_numbers()
    | st.decimals()
    | st.datetimes()
    | st.builds(Broken)
    | st.sampled_from([Color.RED, Point(1, set()), CYCLE, len, int, object()])
    | st.builds(UnprintableError)
    | st.sampled_from([ValueError("x"), SystemExit(), ToolError("\ud800"), RecursionError()])
    | st.text(max_size=1).map(lambda text: text * 5_000),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.integers(), inner)
    ),
    max_leaves=5,
)
types = st.recursive(
    st.sampled_from([int, float, bool, str, bytes, object, Color, Point, datetime.date, decimal.Decimal]),
    lambda inner: (
        inner.map(lambda kind: list[kind])
        | inner.map(lambda kind: dict[str, kind])
        | inner.map(lambda kind: kind | None)
        | inner.map(lambda kind: tuple[kind, ...])
        | st.tuples(inner, inner).map(lambda kinds: kinds[0] | kinds[1])
    ),
    max_leaves=4,
)
parameter_names = st.sampled_from(["a", "b", "schema", "_invalid", "self", "größe"])


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_schema_argument_or_result_breaks_a_payload(data):
    """Whatever is registered, asked for and returned: one text that can be sent, within the limit."""
    declared = data.draw(st.dictionaries(parameter_names, types, max_size=4))
    result = data.draw(results)
    lines = []
    for number, name in enumerate(declared):
        lines.append(f"{name}: kinds[{number}]" + (" = None" if data.draw(st.booleans()) else ""))
    source = f"def f(*, {', '.join(lines)}):\n" if lines else "def f():\n"
    source += "    '''Do it.'''\n    return give()\n"
    scope = {"kinds": list(declared.values()), "give": lambda: give(result)}
    exec(source, scope)

    registry = ToolRegistry(max_result_chars=1_000)
    registry.register(scope["f"])
    schemas = registry.schemas()
    assert NAME.fullmatch(schemas[0]["function"]["name"])
    assert json.dumps(schemas, ensure_ascii=False, allow_nan=False).encode()

    offered = data.draw(st.dictionaries(parameter_names | st.text(max_size=3), json_like, max_size=4))
    arguments = data.draw(
        st.just(json.dumps(offered)) | st.just("{}") | st.text(st.characters()) | json_like.map(json.dumps)
    )
    name = data.draw(st.just("f") | st.text(st.characters(), max_size=80))
    content, ok = registry.run(name, arguments)
    assert isinstance(ok, bool)
    assert type(content) is str
    assert 0 < len(content) <= 1_000
    assert json.loads(json.dumps({"content": content}).encode())["content"] == content
    assert content.encode()


class _MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SyntaxError(), "SyntaxError: None"),
        (_MuteError(), "_MuteError"),
        (SystemExit(3), "it tried to end the program"),
        (ValueError("sk-" * 100_000), "ValueError: sk-sk-"),
    ],
)
def test_any_exception_can_be_described(error: BaseException, said: str) -> None:
    assert describe(error).startswith(said)
