"""Lesson 02: what a model can do is a list of functions, and each call gives it one text."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from conversation import MODEL, problems

from builtin_tools import builtin_registry
from context import ContextError, ContextManager
from offline import OfflineBrain
from tokens import count_payload
from tools import ToolFileError, ToolRegistry, ToolResult, tool


@tool(needs_approval=False)
def weather(city: str, days: int = 3, unit: Literal["C", "F"] = "C") -> dict[str, object]:
    """Tell the weather of a city.

    Args:
        city: Its name, in any language.
        days: How far ahead.
        unit: Of the temperature.
    """
    if city == "Atlantis":
        raise LookupError("it sank")
    return {"city": city, "days": days, "unit": unit}


def registry() -> ToolRegistry:
    tools = ToolRegistry(max_result_chars=1000)
    tools.register(weather)
    return tools


def test_a_typed_function_with_a_docstring_is_a_tool() -> None:
    """A typed function with a docstring is a tool: its schema says what is required, allowed and default."""
    (schema,) = registry().schemas()
    assert schema["type"] == "function"
    assert schema["function"]["name"] == "weather"
    assert schema["function"]["description"] == "Tell the weather of a city."
    parameters = schema["function"]["parameters"]
    assert parameters["required"] == ["city"]
    assert parameters["properties"]["city"]["description"] == "Its name, in any language."
    assert parameters["properties"]["days"]["default"] == 3
    assert parameters["properties"]["unit"]["enum"] == ["C", "F"]


def test_arguments_are_checked_before_the_call() -> None:
    """Arguments are checked and coerced before a call; an error names the argument and what is allowed."""
    tools, days = registry(), random.Random(3).randint(4, 9)
    content, ok = tools.run("weather", json.dumps({"city": "Oslo", "days": str(days)}))
    assert ok
    assert json.loads(content)["days"] == days
    for arguments, named in [
        ('{"days": 1}', "'city' is missing"),
        ('{"city": "Oslo", "unit": "K"}', "'unit' should be 'C' or 'F'"),
        ('{"city": "Oslo", "wind": true}', "'wind' is not an argument"),
        ('["Oslo"]', "not a JSON object"),
        ('{"city": "Os', "not a JSON object"),
    ]:
        content, ok = tools.run("weather", arguments)
        assert not ok
        assert named in content
        assert "city (string)" in content


def test_every_call_gives_one_text() -> None:
    """Every call gives one text: the value, or JSON, or one line of error; an unknown tool gets the names."""
    tools = registry()
    assert tools.run("weather", '{"city": "Oslo"}').content == '{"city":"Oslo","days":3,"unit":"C"}'
    assert tools.run("weather", '{"city": "Atlantis"}') == ToolResult(
        "weather failed: LookupError: it sank", ok=False
    )
    content, ok = tools.run("whether", "{}")
    assert not ok
    assert "The tools are: weather." in content


def test_a_result_that_is_too_long_is_cut() -> None:
    """A result that is too long is cut, with a marker that says how much of it is shown."""
    content, ok = registry().run("weather", json.dumps({"city": "x" * 5000}))
    assert ok
    assert len(content) <= 1000
    assert content.endswith("characters are shown]")
    assert "of 5," in content


@pytest.mark.parametrize(
    "expression",
    [
        "9**9**9**9",
        "((10**100)**100)**100",
        "(" * 10_000 + "1" + ")" * 10_000,
        "1/0",
        "__import__('os')",
        "(1).real",
        "'a' * 10**9",
        "[x for x in range(10**9)]",
    ],
    ids=["tower", "powers", "parentheses", "zero", "import", "attribute", "repetition", "comprehension"],
)
def test_the_calculator_answers_at_once_whatever_is_asked(expression: str) -> None:
    """The calculator answers at once, with an error where there is no value or too large a one."""
    content, ok = builtin_registry().run("calculator", json.dumps({"expression": expression}))
    assert not ok
    assert content.startswith("calculator failed: ")


def test_the_calculator_is_exact() -> None:
    """The calculator keeps whole numbers exact, however long, and 0.1 + 0.2 is 0.3."""
    rng = random.Random(5)
    tools = builtin_registry()
    for expression, value in [
        ("2**1000", str(2**1000)),
        ("0.1 + 0.2", "0.3"),
        (f"{(a := rng.randint(10**20, 10**30))} * {(b := rng.randint(10**20, 10**30))}", str(a * b)),
        ("-7 // 2 + 10 % 3", "-3"),
    ]:
        assert tools.run("calculator", json.dumps({"expression": expression})) == ToolResult(value, ok=True)


def test_the_clock_knows_zones() -> None:
    """The clock tells time, offset and weekday in any zone; a misspelled zone gets the closest names."""
    tools = builtin_registry(clock=lambda: datetime(2026, 3, 29, 12, 0, tzinfo=UTC))
    assert tools.run("current_time", '{"timezone": "Asia/Tokyo"}').content == (
        "2026-03-29T21:00:00+09:00 (Sunday, Asia/Tokyo)"
    )
    content, ok = tools.run("current_time", '{"timezone": "Europe/Berln"}')
    assert not ok
    assert "Europe/Berlin" in content


def test_tools_take_room_in_the_budget() -> None:
    """The schemas of the tools are part of the count, and /context shows what they take."""
    ctx = ContextManager("Be brief.", 2000, MODEL)
    without = ctx.token_count
    schemas = builtin_registry().schemas()
    ctx.configure(tools=schemas)
    ctx.append_user("What time is it?")
    assert ctx.token_count == count_payload(ctx.build_for_llm(), MODEL, schemas)
    section = next(section for section in ctx.sections if section.name == "tools")
    assert section.tokens > 50
    assert ctx.token_count > without + section.tokens
    assert "2 tools" in section.note


def test_the_stand_in_calls_two_tools_in_one_step() -> None:
    """Asked for two things, the stand-in makes two calls in one step and answers from both results."""
    rng = random.Random(9)
    percent, whole = rng.choice([15, 20, 25]), rng.randint(2, 9) * 100
    tools = builtin_registry(clock=lambda: datetime(2026, 3, 29, 12, 0, tzinfo=UTC))
    brain, ctx = OfflineBrain(), ContextManager("Be brief.", 2000, MODEL, tools=tools.schemas())
    ctx.append_user(f"What is {percent}% of {whole}, and what time is it in Tokyo?")
    reply = brain.chat(ctx.build_for_llm(), tools=tools.schemas())
    assert [call["function"]["name"] for call in reply.tool_calls] == ["calculator", "current_time"]
    ctx.append_assistant(reply.text, reply.tool_calls)
    with pytest.raises(ContextError, match="Results are missing"):
        ctx.build_for_llm()
    for call in reversed(reply.tool_calls):
        result = tools.run(call["function"]["name"], call["function"]["arguments"])
        ctx.append_tool_result(call["id"], result.content)
    payload = ctx.build_for_llm()
    assert problems(payload, budget=2000, tools=tools.schemas()) == []
    answer = brain.chat(payload, tools=tools.schemas()).text
    assert str(percent * whole // 100) in answer
    assert "21:00" in answer


def test_a_persons_own_tools_need_approval() -> None:
    """A tool needs approval unless it says otherwise; calculator and clock need none."""

    @tool
    def erase(path: str) -> str:
        """Erase a file."""
        return path

    tools = builtin_registry()
    tools.register(erase)
    asks = {name: made.needs_approval for name in tools.names if (made := tools.get(name))}
    assert asks == {"calculator": False, "current_time": False, "erase": True}


def test_a_file_of_ones_own_tools_is_loaded(tmp_path: Path) -> None:
    """A file of one's own tools is loaded; a broken one is one sentence and changes nothing."""
    path = tmp_path / "my_tools.py"
    number = random.Random(1).randint(100, 999)
    function = f"def mine() -> int:\n    '''Give my number.'''\n    return {number}\n"
    path.write_text(f"from tools import tool\n\n@tool\n{function}")
    tools = builtin_registry()
    assert tools.load_file(path) == ["mine"]
    assert tools.run("mine", "{}") == ToolResult(str(number), ok=True)
    path.write_text("def mine(:\n")
    before = tools.names
    with pytest.raises(ToolFileError, match=r"^my_tools\.py, line 1: SyntaxError: invalid syntax\.$"):
        tools.load_file(path)
    assert tools.names == before
