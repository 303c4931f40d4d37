"""How tool calls are taken apart."""

from __future__ import annotations

from typing import Any

from server import Answer, calls, delta, message, piece, plain

from quirks.row import OK, Row, whole

LOOK, SEE = ("look", {"at": "sky"}), ("see", {"n": 2})
LOOK_TEXT, SEE_TEXT = '{"at": "sky"}', '{"n": 2}'


def one(*pieces: dict[str, Any], **expected: Any) -> dict[str, Any]:
    """Arguments of a row whose stream has each piece in a chunk of its own."""
    return {"answers": (whole(*map(calls, pieces), finish="tool_calls"),), "text": "", **expected}


def arguments(value: Any) -> dict[str, Any]:
    return one(piece(value, id="c1", name="look"))


def invalid(text: str) -> list[tuple[str, dict[str, Any]]]:
    return [("look", {"_invalid": text})]


def cut_everywhere(text: str) -> Answer:
    """Arguments in single characters."""
    return whole(
        calls(piece("", id="c1", name="look")), *(calls(piece(c)) for c in text), finish="tool_calls"
    )


TOOL_CALLS = [
    Row(
        "as OpenAI sends them",
        **one(
            piece("", id="c1", name="look"),
            piece('{"at": '),
            piece('"sky"}'),
            piece("", index=1, id="c2", name="see"),
            piece(SEE_TEXT, index=1),
            calls=[LOOK, SEE],
        ),
    ),
    Row(
        "interleaved",
        **one(
            piece("", id="c1", name="look"),
            piece("", index=1, id="c2", name="see"),
            piece('{"at": '),
            piece('{"n": ', index=1),
            piece('"sky"}'),
            piece("2}", index=1),
            calls=[LOOK, SEE],
        ),
    ),
    Row(
        "both in one chunk",
        answers=[
            whole(
                calls(piece(LOOK_TEXT, id="c1", name="look"), piece(SEE_TEXT, index=1, id="c2", name="see"))
            )
        ],
        text="",
        calls=[LOOK, SEE],
    ),
    Row(
        "both in one chunk, bare",
        answers=[
            whole(calls(piece(LOOK_TEXT, index=None, name="look"), piece(SEE_TEXT, index=None, name="see")))
        ],
        text="",
        calls=[LOOK, SEE],
    ),
    Row(
        "index missing",
        **one(
            piece('{"at": ', index=None, id="c1", name="look"),
            piece('"sky"}', index=None),
            piece(SEE_TEXT, index=None, id="c2", name="see"),
            calls=[LOOK, SEE],
        ),
    ),
    Row(
        "index always 0",
        **one(
            piece(LOOK_TEXT, id="c1", name="look"), piece(SEE_TEXT, id="c2", name="see"), calls=[LOOK, SEE]
        ),
    ),  # Gemini
    Row(
        "index always 0, in pieces",
        **one(
            piece("", id="c1", name="look"),
            piece('{"at": '),
            piece('"sky"}'),
            piece("", id="c2", name="see"),
            piece(SEE_TEXT),
            calls=[LOOK, SEE],
        ),
    ),
    Row(
        "index shared, no ids",
        **one(piece(LOOK_TEXT, name="look"), piece(SEE_TEXT, name="see"), calls=[LOOK, SEE]),
    ),
    Row(
        "index shared, no ids, one tool twice",
        **one(
            piece('{"n": 1}', name="see"),
            piece('{"n": 2}', name="see"),
            calls=[("see", {"n": 1}), ("see", {"n": 2})],
        ),
    ),
    Row(
        "index from 1",
        **one(piece("", index=1, id="c1", name="look"), piece(LOOK_TEXT, index=1), calls=[LOOK]),
    ),  # LiteLLM
    Row(
        "index wrong in the second piece",
        **one(piece('{"at": ', id="c1", name="look"), piece('"sky"}', index=1), calls=[LOOK]),
    ),
    Row(
        "index wrong, id repeated",
        **one(piece('{"at": ', id="c1", name="look"), piece('"sky"}', index=1, id="c1"), calls=[LOOK]),
    ),
    Row(
        "index is text",
        **one(piece('{"at": ', index="0", id="c1", name="look"), piece('"sky"}', index="0"), calls=[LOOK]),
    ),
    Row("id missing", **one(piece('{"at": ', name="look"), piece('"sky"}'), calls=[LOOK])),
    Row(
        "id empty",
        **one(
            piece(LOOK_TEXT, name="look") | {"id": ""},
            piece(SEE_TEXT, index=1, name="see") | {"id": ""},
            calls=[LOOK, SEE],
        ),
    ),
    Row(
        "id null, later",
        **one(piece('{"at": ', id="c1", name="look"), piece('"sky"}') | {"id": None}, calls=[LOOK]),
    ),
    Row("id late", **one(piece('{"at": ', name="look"), piece('"sky"}', id="c1"), calls=[LOOK])),
    Row("id a number", **one(piece(LOOK_TEXT, name="look") | {"id": 7}, calls=[LOOK])),
    Row(
        "id in every chunk",
        **one(piece('{"at": ', id="c1", name="look"), piece('"sky"}', id="c1"), calls=[LOOK]),
    ),
    Row(
        "another id in every chunk",
        **one(
            piece('{"at": ', id="c1", name="look"), piece('"sk', id="c2"), piece('y"}', id="c3"), calls=[LOOK]
        ),
    ),  # OCI
    Row(
        "id repeated for two calls",
        **one(
            piece(LOOK_TEXT, id="c1", name="look"),
            piece(SEE_TEXT, index=1, id="c1", name="see"),
            calls=[LOOK, SEE],
        ),
    ),
    Row(
        "id repeated for two calls, in pieces",
        **one(
            piece("", id="c1", name="look"),
            piece(LOOK_TEXT),
            piece("", index=1, id="c1", name="see"),
            piece(SEE_TEXT, index=1),
            calls=[LOOK, SEE],
        ),
    ),
    Row("id of an earlier turn", **one(piece(LOOK_TEXT, id="call_0", name="look"), calls=[LOOK])),
    Row(
        "name in every chunk",
        **one(piece('{"at": ', id="c1", name="look"), piece('"sky"}', name="look"), calls=[LOOK]),
    ),
    Row(
        "name and id in every chunk",
        **one(
            piece('{"at": ', id="c1", name="look"),
            piece('"sky"}', id="c1", name="look"),
            piece("", id="c1", name="look"),
            calls=[LOOK],
        ),
    ),
    Row(
        "name in two pieces", **one(piece("", id="c1", name="lo"), piece(LOOK_TEXT, name="ok"), calls=[LOOK])
    ),
    Row("name missing", **one(piece("{}", id="c1"), calls=[("unnamed", {})])),
    Row("name unknown", **one(piece("{}", id="c1", name="fly"), calls=[("fly", {})])),
    Row("name with blanks around", **one(piece(LOOK_TEXT, id="c1", name=" look\n"), calls=[LOOK])),
    Row("name with blanks inside", **one(piece("{}", id="c1", name="look up"), calls=[("look_up", {})])),
    Row(
        "name that no server takes back",
        **one(piece("{}", id="c1", name="функция.look" + "x" * 99), calls=[("________look" + "x" * 52, {})]),
    ),
    Row(
        "name is a number",
        **one(piece("{}", id="c1") | {"function": {"name": 7, "arguments": "{}"}}, calls=[("unnamed", {})]),
    ),
    Row("flat", **one({"index": 0, "id": "c1", "name": "look", "arguments": LOOK_TEXT}, calls=[LOOK])),
    Row(
        "empty entries",
        answers=[
            whole(
                calls({}, {"index": 0}, {"index": 0, "function": None}),
                calls(None),
                calls(piece(LOOK_TEXT, id="c1", name="look")),
            )
        ],
        text="",
        calls=[LOOK],
    ),  # type: ignore[arg-type]  # nonsense, on purpose
    Row(
        "tool_calls an object",
        answers=[whole(delta(tool_calls=piece(LOOK_TEXT, id="c1", name="look")))],
        text="",
        calls=[LOOK],
    ),
    Row("tool_calls: null", answers=[whole(delta(OK, tool_calls=None, function_call=None))]),
    Row(
        "arguments in single characters",
        answers=[cut_everywhere('{"at": "a\\u00e9\\n\\"b\\\\"}')],
        text="",
        calls=[("look", {"at": 'aé\n"b\\'})],
    ),
    Row("arguments empty", **arguments(""), calls=[("look", {})]),
    Row("arguments blank", **arguments(" \n"), calls=[("look", {})]),
    Row("arguments missing", **arguments(None), calls=[("look", {})]),
    Row(
        "arguments null",
        **one({"index": 0, "id": "c1", "function": {"name": "look", "arguments": None}}),
        calls=[("look", {})],
    ),
    Row("arguments an object", **arguments({"at": "sky"}), calls=[LOOK]),
    Row("arguments a list", **arguments([1, 2]), calls=invalid("[1, 2]")),
    Row("arguments a number", **arguments(7), calls=invalid("7")),
    Row("arguments false", **arguments(False), calls=invalid("false")),
    Row("arguments a list as text", **arguments("[1]"), calls=invalid("[1]")),
    Row("arguments null as text", **arguments("null"), calls=invalid("null")),
    Row("arguments cut", **arguments('{"at": "sk'), calls=invalid('{"at": "sk')),
    Row("arguments doubled", **arguments("{}{}"), calls=invalid("{}{}")),
    Row(
        "arguments doubled with a real one",
        **one(piece("{}", id="c1", name="look"), piece(LOOK_TEXT), calls=invalid("{}" + LOOK_TEXT)),
    ),
    Row("arguments in words", **arguments("the sky"), calls=invalid("the sky")),
    Row("arguments with NaN", **arguments('{"n": NaN}'), calls=invalid('{"n": NaN}')),
    Row("arguments with single quotes", **arguments("{'at': 'sky'}"), calls=invalid("{'at': 'sky'}")),
    Row(
        "arguments nested without end",
        **arguments('{"a":' * 1_500 + "}"),
        calls=invalid('{"a":' * 1_500 + "}"),
    ),
    Row(
        "finish reason stop beside calls",
        answers=[whole(calls(piece(LOOK_TEXT, id="c1", name="look")))],
        text="",
        calls=[LOOK],
        finish="stop",
    ),
    Row("finish reason tool_calls without any", answers=[whole(delta(OK), finish="tool_calls")]),
    Row("finish reason tool_calls and nothing else", answers=[whole(finish="tool_calls")], kind="empty"),
    Row(
        "calls beside text",
        answers=[whole(delta(OK), calls(piece(LOOK_TEXT, id="c1", name="look")), finish="tool_calls")],
        calls=[LOOK],
    ),
    Row(
        "calls and text in one chunk",
        answers=[whole(delta(OK, tool_calls=[piece(LOOK_TEXT, id="c1", name="look")]), finish="tool_calls")],
        calls=[LOOK],
    ),
    Row(
        "function_call",
        answers=[
            whole(
                delta(function_call={"name": "look", "arguments": ""}),
                delta(function_call={"arguments": '{"at": '}),
                delta(function_call={"arguments": '"sky"}'}),
                finish="function_call",
            )
        ],
        text="",
        calls=[LOOK],
    ),
    Row(
        "function_call beside tool_calls",
        answers=[
            whole(
                delta(
                    tool_calls=[piece(LOOK_TEXT, id="c1", name="look"), piece(SEE_TEXT, id="c2", name="see")],
                    function_call={"name": "look", "arguments": LOOK_TEXT},
                )
            )
        ],
        text="",
        calls=[LOOK, SEE],
    ),
    Row(
        "one tool twice, the first time without arguments",
        **one(
            piece("", id="c1", name="look"),
            piece(LOOK_TEXT, id="c2", name="look"),
            calls=[("look", {}), LOOK],
        ),
    ),
    Row(
        "a second call without a name",
        **one(piece(LOOK_TEXT, id="c1", name="look"), piece("{}", id="c2"), calls=[LOOK, ("unnamed", {})]),
    ),
    Row(
        "function_call in a plain answer",
        answers=[
            plain(message(None, "function_call", function_call={"name": "look", "arguments": LOOK_TEXT}))
        ],
        text="",
        calls=[LOOK],
    ),
]
