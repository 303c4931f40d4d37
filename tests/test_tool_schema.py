"""From a typed function to its JSON Schema, and from a model's arguments to a call."""

import dataclasses
import enum
import json
from datetime import date
from typing import Annotated, Any, Literal, NotRequired, Optional

import pydantic
import pytest
from typing_extensions import TypedDict

from tool_schema import MAX_DESCRIPTION, ArgumentsError, ToolDefinitionError, read_signature


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Person(pydantic.BaseModel):
    """Somebody."""

    title: str  # a property of the name that a schema's noise has
    at: Point


class Options(TypedDict):
    loud: NotRequired[bool]


class Folder(pydantic.BaseModel):
    files: list["File"] = []


class File(pydantic.BaseModel):
    inside: Folder | None = None


class Tree(pydantic.BaseModel):
    children: list["Tree"] = []


def add(a: int, b: int = 2) -> int:
    """Add two whole numbers.

    Use it for sums.

    Args:
        a: The first one, which
            may be negative.
        b (int): The second one.

    Returns:
        Not for the model to read.
    """
    return a + b


def schema_of(function):
    return read_signature(function).schema


def annotated(annotation):
    def f(x):
        """Do it."""

    f.__annotations__ = {"x": annotation}
    return f


def property_of(annotation):
    return schema_of(annotated(annotation))["properties"]["x"]


def refusal(function, arguments):
    with pytest.raises(ArgumentsError) as caught:
        read_signature(function).check(arguments if isinstance(arguments, str) else json.dumps(arguments))
    return str(caught.value)


def test_the_whole_schema_of_a_function():
    """Names, types, descriptions, defaults and what is required; no titles, nothing more allowed."""
    assert schema_of(add) == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first one, which may be negative."},
            "b": {"type": "integer", "description": "The second one.", "default": 2},
        },
        "required": ["a"],
        "additionalProperties": False,
    }


def test_the_description_is_the_docstring_before_its_sections():
    assert read_signature(add).description == "Add two whole numbers.\n\nUse it for sums."


def test_no_parameters_give_an_empty_object():
    def now() -> str:
        """Tell the time."""
        return ""

    assert schema_of(now) == {"type": "object", "properties": {}, "additionalProperties": False}
    assert read_signature(now).check("") == {}
    assert refusal(now, {"x": 1}) == "'x' is not an argument.\nnow takes no arguments; send {}."


STRING = {"type": "string"}
OPEN_POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
}
POINT = OPEN_POINT | {"additionalProperties": False}


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        pytest.param(str, STRING, id="str"),
        pytest.param(Optional[str], {"anyOf": [STRING, {"type": "null"}]}, id="optional"),  # noqa: UP045
        pytest.param(Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, id="literal"),
        pytest.param(Color, {"type": "string", "enum": ["red", "blue"]}, id="enum"),
        pytest.param(list[str], {"type": "array", "items": STRING}, id="list"),
        pytest.param(dict[str, str], {"type": "object", "additionalProperties": STRING}, id="dict"),
        pytest.param(Annotated[str, "How."], STRING | {"description": "How."}, id="annotated"),
        pytest.param(
            Annotated[int, "How.", pydantic.Field(ge=1)],
            {"type": "integer", "minimum": 1, "description": "How."},
            id="annotated-bound",
        ),
        pytest.param(Any, {}, id="any"),
        pytest.param(date, {"type": "string", "format": "date"}, id="date"),
        pytest.param(Point, POINT, id="dataclass"),
        pytest.param(list[Point], {"type": "array", "items": POINT}, id="list-of-dataclass"),
        pytest.param(
            Person,
            {
                "type": "object",
                "description": "Somebody.",
                "properties": {"title": STRING, "at": OPEN_POINT},  # a model decides on extras itself
                "required": ["title", "at"],
            },
            id="model-in-model",
        ),
        pytest.param(
            Options,
            {"type": "object", "properties": {"loud": {"type": "boolean"}}, "additionalProperties": False},
            id="typed-dict",
        ),
    ],
)
def test_types_are_written_out_in_place(annotation, expected):
    """A model reads the schema: what can stand in place does, without references and titles."""
    assert property_of(annotation) == expected


def test_only_a_type_that_contains_itself_keeps_its_reference():
    def plant(tree: Tree, at: Point) -> None:
        """Plant it."""

    schema = schema_of(plant)
    assert schema["properties"] == {"tree": {"$ref": "#/$defs/Tree"}, "at": POINT}
    assert schema["$defs"] == {
        "Tree": {
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []}},
        }
    }
    assert read_signature(plant).check('{"tree": {"children": [{}]}, "at": {"x": 1}}') == {
        "tree": Tree(children=[Tree()]),
        "at": Point(1),
    }


def test_types_that_contain_each_other_keep_their_references():
    schema = schema_of(annotated(Folder))
    assert schema["properties"]["x"] == {"$ref": "#/$defs/Folder"}
    assert set(schema["$defs"]) == {"File", "Folder"}


def test_a_docstring_may_take_several_lines_for_an_argument():
    def f(x: int, y: int) -> None:
        """Do it.

        Args:
            x: One of these
                low: 1
                high: 2

                and nothing else.
            y: The other.
            z: Not a parameter.
        """

    properties = schema_of(f)["properties"]
    assert properties["x"]["description"] == "One of these low: 1 high: 2 and nothing else."
    assert properties["y"]["description"] == "The other."
    assert list(properties) == ["x", "y"]


@pytest.mark.parametrize(
    "value", [float("nan"), object(), b"\xff", {object(): 1}], ids=["nan", "object", "bytes", "key"]
)
def test_a_default_that_json_cannot_say_is_left_out(value):
    def f(x: Any = value) -> None:
        """Do it."""

    schema = schema_of(f)
    assert schema["properties"] == {"x": {}}
    assert "required" not in schema


def test_any_parameter_name_will_do():
    """Names that pydantic keeps for itself are ordinary names here."""

    def f(schema: int, copy: int, model_config: int, _private: int, json: int) -> None:
        """Do it."""

    given = {"schema": 1, "copy": 2, "model_config": 3, "_private": 4, "json": 5}
    assert list(schema_of(f)["properties"]) == list(given)
    assert read_signature(f).check(json.dumps(given)) == given


@pytest.mark.parametrize(
    ("annotation", "given", "expected"),
    [
        (int, "7", 7),
        (int, 7.0, 7),
        (float, "0.5", 0.5),
        (bool, "true", True),
        (str, 7, "7"),
        (Color, "red", Color.RED),
        (date, "2026-01-31", date(2026, 1, 31)),
        (list[int], ["1", 2], [1, 2]),
        (Point, {"x": "1"}, Point(1, 0)),
        (int | None, None, None),
        (str, "\ud83d\ude00 \ud800", "😀 \ufffd"),
    ],
)
def test_arguments_are_coerced(annotation, given, expected):
    assert read_signature(annotated(annotation)).check(json.dumps({"x": given})) == {"x": expected}


def test_what_is_left_out_is_left_to_the_function():
    assert read_signature(add).check('{"a": 1}') == {"a": 1}


USAGE = "\nArguments of add: a (integer), b (integer, optional)."


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"a": [1]}, "'a' should be a valid integer (got [1])." + USAGE, id="wrong-type"),
        pytest.param({"a": None}, "'a' should be a valid integer (got null)." + USAGE, id="null"),
        pytest.param({}, "'a' is missing." + USAGE, id="missing"),
        pytest.param({"a": 1, "c": 3}, "'c' is not an argument." + USAGE, id="unknown"),
        pytest.param({"A": 1}, "'a' is missing; 'A' is not an argument." + USAGE, id="misspelled"),
        pytest.param("[1, 2]", 'the arguments are not a JSON object: "[1, 2]".' + USAGE, id="array"),
        pytest.param("a=1", 'the arguments are not a JSON object: "a=1".' + USAGE, id="no-json"),
        pytest.param(
            {"_invalid": '{"a": 1, "b'},
            r'the arguments are not a JSON object: "{\"a\": 1, \"b".' + USAGE,
            id="cut-off",
        ),
    ],
)
def test_a_refusal_names_the_argument_and_what_is_allowed(arguments, expected):
    assert refusal(add, arguments) == expected


def test_a_refusal_names_the_place_inside_a_nested_argument():
    def invite(people: list[Person], color: Color | int = 1) -> None:
        """Invite them."""

    text = refusal(invite, {"people": [{"title": "Dr", "at": {"x": "q"}}, {"at": {"x": 1}}], "color": {}})
    assert "'people[0].at.x' should be a valid integer" in text
    assert "'people[1].title' is missing" in text
    # The branches of a union are one problem with one argument, whose name is the model's own.
    assert "'color' should be 'red' or 'blue' (got {}), or should be a valid integer (got {})" in text


def test_a_refusal_stays_short():
    """However much was wrong, the model reads a few lines, not its own arguments again."""
    many = {f"x{number}" + "y" * 500: "z" * 100_000 for number in range(50)}
    text = refusal(add, many)
    assert len(text) < 1_000
    assert "and 48 more" in text
    assert len(refusal(add, "x" * 100_000)) < 400
    assert len(refusal(annotated(Literal[tuple(map(str, range(5_000)))]), {"x": "y"})) < 1_200


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_are_finite(number):
    def f(x: float) -> None:
        """Do it."""

    assert "'x' should be a finite number" in refusal(f, f'{{"x": {number}}}')


@pytest.mark.parametrize("arguments", ["[" * 100_000, '{"a": ' * 5_000, '{"a": ' + "9" * 5_000 + "}"])
def test_json_that_breaks_the_parser_is_a_refusal(arguments):
    assert "not a JSON object" in refusal(add, arguments)


def test_a_parameter_may_be_called_as_the_mark_of_invalid_arguments():
    def f(_invalid: str) -> None:
        """Do it."""

    assert read_signature(f).check('{"_invalid": "x"}') == {"_invalid": "x"}


def without_docstring(a: int) -> int:
    return a


def without_types(a, b: int) -> int:
    """Do it."""


def with_rest(a: int, *rest: int) -> int:
    """Do it."""


def with_keywords(**rest: int) -> int:
    """Do it."""


def with_positional(a: int, /) -> int:
    """Do it."""


async def asynchronous(a: int) -> int:
    """Do it."""


async def asynchronous_generator(a: int):
    """Do it."""
    yield a


def with_odd_type(a: int, b: type(len)) -> int:
    """Do it."""


def with_unknown_type(a: "Nowhere") -> int:  # noqa: F821 - that is the point
    """Do it."""


def only_sections(a: int) -> int:
    """Args:
    a: What.
    """


def naïve(a: int) -> int:  # noqa: PLC2401 - that is the point
    """Do it."""


def long_winded(a: int) -> int:
    """Do it."""


long_winded.__doc__ = "x" * (MAX_DESCRIPTION + 1)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (without_docstring, "without_docstring has no docstring: say in one sentence what it does"),
        (only_sections, "only_sections has no docstring: say in one sentence what it does"),
        (without_types, "'a' of without_types has no type: write a: str, or int"),
        (with_rest, "'rest' of with_rest has no name that a model could give"),
        (with_keywords, "'rest' of with_keywords has no name that a model could give"),
        (with_positional, "'a' of with_positional has no name that a model could give"),
        (asynchronous, "asynchronous is an async function: make it a plain one that calls asyncio.run"),
        (asynchronous_generator, "asynchronous_generator is an async function"),
        (with_odd_type, "the type of 'b' in with_odd_type cannot be sent as JSON: use str, int"),
        (with_unknown_type, "the types of with_unknown_type cannot be read: name 'Nowhere' is not defined"),
        (naïve, "'naïve' cannot be the name of a tool: use up to 64 of A-Z a-z 0-9 _ -"),
        (long_winded, "the description of long_winded has 1,025 characters: shorten its docstring to 1,024"),
        (lambda a: a, "'<lambda>' cannot be the name of a tool"),
        (Point, "is not a function"),
        ("text", "'text' is not a function"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_told_what_to_add(function, expected):
    with pytest.raises(ToolDefinitionError) as caught:
        schema_of(function)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bound_method_is_a_function_too():
    class Counter:
        def __init__(self):
            self.total = 0

        def count(self, by: int) -> int:
            """Count."""
            self.total += by
            return self.total

    counter = Counter()
    assert list(schema_of(counter.count)["properties"]) == ["by"]
