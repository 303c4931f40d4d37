"""What the context promises beyond the cases: settings, the correction, briefs ahead, facts, resuming."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conversation import MODEL, call, problems, step, turn, words

from context import ContextError, ContextManager, ContextOverflow
from cutting import shares_of
from history import ChatHistory
from memory import SUMMARY_HEADING, Fact, FactStore
from summarizing import check_summary
from tokens import count_payload, counter_for
from view import View, corrected

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def context(budget: int = 8000, **options: Any) -> ContextManager:
    options.setdefault("system_prompt", "S")
    options.setdefault("keep_recent_turns", 100)
    return ContextManager(token_budget=budget, model=MODEL, **options)


# Refusals


@pytest.mark.parametrize(
    "arguments", ["[1]", "{", "null", '"x"', "7", '{"a": NaN}', '{"a": Infinity}', "", "[" * 100_000]
)
def test_arguments_that_are_no_json_object_are_refused(arguments: str) -> None:
    ctx = context()
    ctx.append_user("U")
    with pytest.raises(ContextError, match="JSON text of an object"):
        ctx.append_assistant("", [call("c", "look", arguments)])
    assert len(ctx.messages) == 1


@pytest.mark.parametrize(
    "bad", [{}, {"id": ""}, {"id": "c"}, {"id": "c", "function": {"name": ""}}, "text", None]
)
def test_what_is_no_tool_call_is_refused(bad: Any) -> None:
    ctx = context()
    ctx.append_user("U")
    with pytest.raises(ContextError):
        ctx.append_assistant("", [bad])


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "8000", None])
def test_a_budget_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ContextError, match="token_budget"):
        ContextManager(token_budget=value)
    ctx = context()
    with pytest.raises(ContextError, match="keep_recent_turns"):
        ctx.configure(keep_recent_turns=value)


OPEN, WAITING, CLOSED = "a question is open", "results are missing", "nothing is open"


@pytest.mark.parametrize(
    ("state", "method", "arguments", "why"),
    [
        (OPEN, "append_user", ["again"], "has no answer yet"),
        (WAITING, "append_user", ["again"], "has no answer yet"),
        (CLOSED, "append_user", [" \n"], "needs text"),
        (CLOSED, "append_assistant", ["A"], "append_user"),
        (CLOSED, "append_assistant", ["", [call("c")]], "append_user"),
        (WAITING, "append_assistant", ["A"], "Results are missing for c1, c2"),
        (WAITING, "append_assistant", ["", [call("d")]], "Results are missing for c1, c2"),
        (OPEN, "append_assistant", [" ", []], "needs text or tool calls"),
        (OPEN, "append_tool_result", ["c1", "r"], "waits for a result"),
        (WAITING, "append_tool_result", ["c3", "r"], "waits for a result"),
        (CLOSED, "append_tool_result", ["c1", "r"], "append_user"),
        (WAITING, "build_for_llm", [], "Results are missing for c1, c2"),
    ],
)
def test_what_would_make_the_list_invalid_is_refused(
    state: str, method: str, arguments: list[Any], why: str
) -> None:
    """Each with a sentence, and nothing is changed by it."""
    ctx = ContextManager("S")
    ctx.append_user("Q")
    if state == WAITING:
        ctx.append_assistant("", [call("c1"), call("c2")])
    elif state == CLOSED:
        ctx.append_assistant("A")
    before = ctx.messages, ctx.token_count, ctx.turn_count, ctx.is_open
    with pytest.raises(ContextError, match=why):
        getattr(ctx, method)(*arguments)
    assert (ctx.messages, ctx.token_count, ctx.turn_count, ctx.is_open) == before


def test_a_refused_setting_changes_none_of_the_others() -> None:
    ctx = context(500)
    with pytest.raises(ContextError, match="keep_recent_turns"):
        ctx.configure(token_budget=900, keep_recent_turns=0)
    with pytest.raises(TypeError):
        ctx.configure(token_budget=900, tools=[7])  # type: ignore[list-item]  # that is the point
    assert ctx.token_budget == 500


def test_a_call_whose_id_is_half_a_surrogate_pair_can_be_answered_by_that_id() -> None:
    ctx = context()
    ctx.append_user("U")
    step(ctx, "c\ud83d")
    assert not problems(ctx.build_for_llm())


def test_two_ids_that_are_sent_as_one_are_refused() -> None:
    ctx = context()
    ctx.append_user("U")
    with pytest.raises(ContextError, match="share the id"):
        ctx.append_assistant("", [call("c\ud83d"), call("c\ud83e")])


# Sealed


def test_nothing_that_is_handed_out_or_in_is_live() -> None:
    tool: dict[str, Any] = json.loads(json.dumps(TOOL))
    calls = [call("c", "look", '{"a": 1}')]
    ctx = context(tools=[tool])
    ctx.append_user("U")
    ctx.append_assistant("", calls)
    ctx.append_tool_result("c", "r")
    before, count = ctx.build_for_llm(), ctx.token_count
    tool["function"]["parameters"]["properties"]["x"] = {"description": words(500)}
    calls[0]["function"]["arguments"] = "changed"
    ctx.tools[0]["function"]["name"] = "changed"
    ctx.messages[1]["tool_calls"][0]["function"]["name"] = "changed"
    ctx.build_for_llm()[1]["content"] = "changed"
    assert ctx.build_for_llm() == before
    assert ctx.token_count == count == count_payload(before, MODEL, [TOOL])


# The learned correction


def test_one_reply_teaches_the_servers_way_of_counting() -> None:
    """A server whose tokenizer counts 1.7 times ours: after one reply the estimate is within 2 %."""
    ctx = context()
    ctx.append_user(words(300))
    raw = count_payload(ctx.build_for_llm(), MODEL)
    ctx.append_assistant("A", usage={"prompt_tokens": round(1.7 * raw)})
    ctx.append_user(words(100))
    raw = count_payload(ctx.build_for_llm(), MODEL)
    assert abs(ctx.token_count - 1.7 * raw) < 0.02 * 1.7 * raw


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": 0}, {"prompt_tokens": None}, {"prompt_tokens": -5}, "x"]
)
def test_a_usage_that_says_nothing_changes_nothing(usage: Any) -> None:
    ctx = context()
    ctx.append_user("U")
    ctx.build_for_llm()
    ctx.append_assistant("A", usage=usage)
    assert ctx.correction == 1.0


@pytest.mark.parametrize(("billed", "learned"), [(1, 0.5), (10**9, 5.0)])
def test_an_absurd_usage_is_bounded(billed: int, learned: float) -> None:
    ctx = context()
    ctx.append_user("U")
    ctx.build_for_llm()
    ctx.append_assistant("A", usage={"prompt_tokens": billed})
    assert ctx.correction == learned


def test_usage_belongs_to_the_payload_that_was_built_last() -> None:
    """A result that came after the build makes it another payload: its size would teach a wrong ratio."""
    ctx = context()
    ctx.append_user("U")
    ctx.append_assistant("", [call("c")])
    ctx.append_tool_result("c", "r")
    ctx.build_for_llm()
    ctx.append_assistant("", [call("d")])
    ctx.append_tool_result("d", words(500))
    ctx.append_assistant("A", usage={"prompt_tokens": 100})
    assert ctx.correction == 1.0


def asked(tokens: int, correction: float) -> ContextManager:
    """A context of 400 tokens: an answered turn, billed at so many times our count, and a new question."""
    ctx = context(400)
    ctx.append_user("U")
    billed = correction * count_payload(ctx.build_for_llm(), MODEL)
    ctx.append_assistant("A", usage={"prompt_tokens": int(billed)})
    ctx.append_user(words(tokens))
    assert ctx.correction == correction
    return ctx


@pytest.mark.parametrize(("correction", "limit"), [(1.0, 400), (2.0, 392)])
def test_a_learned_ratio_leaves_a_margin(correction: float, limit: int) -> None:
    """The ratio is a guess about new text: with it 2 % of the budget stay free, without it nothing does."""
    sizes = set()
    for tokens in range(int(340 / correction), int(400 / correction)):
        ctx = asked(tokens, correction)
        sizes.add(ctx.token_count)
        over = ctx.token_count > limit
        assert ctx.compacts_next == over
        if ctx.token_count <= 400:
            ctx.build_for_llm()
            assert ctx.compact_count == over
    assert {limit, 400} <= sizes


def test_the_margin_is_given_up_before_the_newest_turn_is() -> None:
    """A question that takes 98 to 100 % of the budget goes out, and the ratio is kept."""
    sizes = set()
    for tokens in range(170, 200):
        ctx = asked(tokens, 2.0)
        payload = ctx.build_for_llm()
        if ctx.correction == 2.0:
            sizes.add(ctx.token_count)
            assert ctx.build_for_llm() == payload
            assert ctx.compact_count <= 1
    assert {392, 400} <= sizes
    assert max(sizes) == 400


def test_an_overflow_by_the_correction_alone_resets_it() -> None:
    """One absurd usage cannot lock the chat."""
    ctx = context(600)
    ctx.append_user("U")
    ctx.build_for_llm()
    ctx.append_assistant("A", usage={"prompt_tokens": 10**6})
    ctx.append_user(words(300))
    payload = ctx.build_for_llm()
    assert ctx.correction == 1.0
    assert not problems(payload, budget=600)


def test_another_model_counts_anew_and_undo_brings_the_correction_back_for_the_same_model_only() -> None:
    ctx = context()
    text = "你好世界 " * 50
    ctx.append_user(text)
    ctx.build_for_llm()
    ctx.append_assistant("A", usage={"prompt_tokens": 900})
    assert ctx.correction > 1
    learned = ctx.correction
    ctx.configure(model="gpt-4")
    assert ctx.correction == 1.0
    assert (
        ctx.token_count
        == count_payload(ctx.build_for_llm(), "gpt-4")
        != count_payload(ctx.build_for_llm(), MODEL)
    )
    ctx.append_user("U2")
    ctx.rollback_last_user()
    assert ctx.correction == 1.0
    ctx.configure(model=MODEL)
    assert ctx.correction == 1.0
    ctx.append_user("U2")
    ctx.build_for_llm()
    ctx.append_assistant("A", usage={"prompt_tokens": 400})
    assert ctx.correction not in {1.0, learned}
    ctx.rollback_last_user()
    assert ctx.correction == 1.0


# Reasoning


def test_reasoning_is_sent_back_only_when_it_is_asked_for() -> None:
    ctx = context()
    ctx.append_user("U")
    ctx.append_assistant("", [call("c")], reasoning="I should look.")
    ctx.append_tool_result("c", "r")
    assert "reasoning_content" not in ctx.build_for_llm()[2]
    count = ctx.token_count
    ctx.configure(pass_reasoning=True)
    assert ctx.build_for_llm()[2]["reasoning_content"] == "I should look."
    assert ctx.token_count > count
    step(ctx, "d")
    ctx.append_assistant("A", reasoning="never the answer")
    assert ctx.messages[-1] == {"role": "assistant", "content": "A"}


# Briefs ahead


class Recorder:
    """A summarizer that says how many messages it has seen, and records each request."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []

    def __call__(self, previous: str | None, dropped: list[dict[str, Any]], *, max_tokens: int) -> str:
        self.requests.append([message["content"] for message in dropped])
        return f"{len(self.requests)} briefs"


def test_a_brief_ahead_covers_the_window_and_is_not_asked_again_when_that_is_dropped() -> None:
    recorder = Recorder()
    ctx = context(400, summarizer=recorder)
    for number in range(3):
        turn(ctx, f"U{number} {words(20)}", "A")
    assert not ctx.brief_ahead(4)
    assert ctx.brief_ahead(3)
    assert ctx.covered_turns == 3
    assert ctx.summary == "1 briefs"
    assert len(ctx.messages) == 6
    assert not ctx.brief_ahead(3)
    while not ctx.compact_count:
        turn(ctx, f"U{ctx.turn_count} {words(20)}", "A")
    dropped = ctx.first_kept_turn - 1
    asked = [text for request in recorder.requests[1:] for text in request]
    assert not [text for text in asked if text.startswith(("U0", "U1", "U2"))]
    assert (len(recorder.requests) == 1) == (dropped <= 3)


def test_steps_that_were_summarized_do_not_cover_the_rest_of_their_turn() -> None:
    recorder = Recorder()
    ctx = context(600, summarizer=recorder)
    ctx.append_user("the question")
    number = 0
    while not recorder.requests:
        step(ctx, f"c{number}", result=f"result {number} {words(60)}")
        ctx.build_for_llm()
        number += 1
    ctx.append_assistant("the answer")
    recorder.requests.clear()
    while not any("the question" in request for request in recorder.requests):
        turn(ctx, words(60), "A")
        assert ctx.turn_count < 20, "the question of the cut turn was never handed to the summarizer"
    seen = next(request for request in recorder.requests if "the question" in request)
    assert "the answer" in seen
    assert not any(str(text).startswith("result 0") for text in seen)


def test_requests_to_the_summarizer_are_bounded_and_say_what_they_leave_out() -> None:
    """Half a budget's worth at most, the newest kept, the omission marked."""
    sizes: list[int] = []
    marks: list[str] = []

    def refuse(previous: str | None, dropped: list[dict[str, Any]], *, max_tokens: int) -> str:
        sizes.append(count_payload(dropped, MODEL))
        marks.extend(text for message in dropped if "left out" in (text := message["content"]))
        return ""

    ctx = context(600, summarizer=refuse)
    for number in range(60):
        turn(ctx, f"{number} {words(40)}", words(30))
    assert len(sizes) > 5
    assert max(sizes) <= 300 + 40
    assert marks


# Facts


def test_the_order_of_the_payload_is_that_of_the_design() -> None:
    """Instructions, summary, facts; then pinned turns, the window, evidence, the question."""
    facts = FactStore()
    facts.write(Fact("name", "Ada", "user"))
    ctx = context(700, system_prompt="INSTRUCTIONS", facts=facts, summarizer=lambda *_, max_tokens: "SUMMARY")
    turn(ctx, "PINNED", "A", pinned=True)
    while not ctx.summary:
        turn(ctx, f"WINDOW {words(60)}", "A")
    ctx.append_user("QUESTION", evidence=[("doc", "EVIDENCE")])
    payload = ctx.build_for_llm()
    everything = "\n".join(message["content"] for message in payload)
    marks = [
        "INSTRUCTIONS",
        SUMMARY_HEADING,
        "SUMMARY",
        "Known about this user",
        "Ada",
        "PINNED",
        "WINDOW",
        "EVIDENCE",
        "QUESTION",
    ]
    places = [everything.index(mark) for mark in marks]
    assert places == sorted(places)
    assert not problems(payload, budget=700)
    assert sum(section.tokens for section in ctx.sections) == ctx.token_count


def test_facts_stay_under_their_tenth_and_what_is_left_out_is_said() -> None:
    facts = FactStore()
    for number in range(200):
        facts.write(Fact(f"key {number}", f"value number {number}", "user"))
    ctx = context(1000, facts=facts)
    ctx.append_user("U")
    payload = ctx.build_for_llm()
    sizes = {section.name: section for section in ctx.sections}
    assert 0 < sizes["facts"].tokens <= 100 + 30
    assert "left out" in sizes["facts"].note
    assert not problems(payload, budget=1000)


def test_facts_of_an_undone_turn_go_with_it() -> None:
    facts = FactStore()
    facts.write(Fact("city", "Oslo", "user"))
    ctx = context(facts=facts)
    before = ctx.build_for_llm()
    ctx.append_user("I moved to Rome")
    facts.write(Fact("name", "Ada", "turn-1", origin="model"))
    assert "Ada" in ctx.build_for_llm()[0]["content"]
    ctx.append_assistant("Noted.")
    ctx.rollback_last_user()
    assert facts.get("name") is None
    assert ctx.build_for_llm() == before
    turn(ctx, "U", "A")
    facts.write(Fact("pet", "cat", "user"))
    ctx.rollback_last_user()
    assert facts.get("pet") is not None, "what the person said between turns is no part of a turn"


def revoked_summary(facts: FactStore) -> tuple[ContextManager, Recorder]:
    recorder = Recorder()
    ctx = context(400, facts=facts, summarizer=recorder)
    turn(ctx, f"bad {words(30)}", "A", evidence=[("bad.txt", "poison")])
    while not ctx.summary:
        turn(ctx, f"good {words(30)}", "A")
    return ctx, recorder


def test_38_a_revoked_source_takes_the_summary_out_until_it_is_written_anew() -> None:
    """khora#1140: and the new one is written without the turns that carried the source."""
    facts = FactStore()
    ctx, recorder = revoked_summary(facts)
    assert any(text.startswith("bad") for text in recorder.requests[0])
    recorder.requests.clear()
    facts.forget_source("bad.txt")
    payload = ctx.build_for_llm()
    assert ctx.summary is None
    assert SUMMARY_HEADING not in payload[0]["content"]
    while not ctx.summary:
        turn(ctx, f"more {words(30)}", "A")
    asked = [text for request in recorder.requests for text in request]
    assert any(text.startswith("good") for text in asked)
    assert not any(text.startswith("bad") for text in asked)


def test_38_an_undo_does_not_bring_a_revoked_summary_back() -> None:
    facts = FactStore()
    ctx, _ = revoked_summary(facts)
    turn(ctx, "U", "A")
    facts.forget_source("bad.txt")
    ctx.build_for_llm()
    ctx.rollback_last_user()
    ctx.build_for_llm()
    assert ctx.summary is None


def test_38_other_sources_leave_the_summary_alone() -> None:
    facts = FactStore()
    ctx, _ = revoked_summary(facts)
    facts.write(Fact("x", "y", "elsewhere.txt", origin="document"))
    facts.forget_source("elsewhere.txt")
    ctx.build_for_llm()
    assert ctx.summary is not None


# Resuming


def reopened(path: Path, session: str, **options: Any) -> ContextManager:
    return context(history=ChatHistory(path).open_session(session), **options)


def test_a_resumed_session_sends_what_it_would_have_sent(tmp_path: Path) -> None:
    """Summary, cuts, pins, correction, counter: byte for byte, and without reading the whole log."""
    path = tmp_path / "history.db"
    summarizer = Recorder()
    with ChatHistory(path) as history:
        session = history.new_session()
        ctx = context(500, history=session, summarizer=summarizer, keep_recent_turns=5)
        turn(ctx, "PINNED", words(80), pinned=True)
        for number in range(40):
            ctx.append_user(f"{number} {words(15)}")
            step(ctx, f"c{number}", result=words(20))
            ctx.build_for_llm()
            ctx.append_assistant(words(15), usage={"prompt_tokens": int(1.1 * ctx.token_count)})
        expected = (ctx.build_for_llm(), ctx.token_count, ctx.compact_count, ctx.correction, ctx.compactions)
    with ChatHistory(path) as history:
        again = history.open_session(session.id)
        ctx = context(500, history=again, summarizer=summarizer, keep_recent_turns=5)
        assert (ctx.build_for_llm(), ctx.token_count, ctx.compact_count, ctx.correction) == expected[:4]
        assert again.rows_read < 60
        assert ctx.compactions == expected[4]
        assert ctx.recovered is None


def test_undo_after_resuming_reaches_back_across_compactions(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    states = []
    with ChatHistory(path) as history:
        session = history.new_session()
        ctx = context(150, history=session)
        for number in range(16):
            states.append((ctx.messages, ctx.compact_count, ctx.token_count))
            turn(ctx, f"U{number} {words(12)}", "A")
    assert ctx.compact_count > 1
    with ChatHistory(path) as history:
        ctx = context(150, history=history.open_session(session.id))
        while states:
            assert ctx.rollback_last_user()
            assert (ctx.messages, ctx.compact_count, ctx.token_count) == states.pop()
        assert ctx.rollback_last_user() is None


def test_13_an_undone_turn_does_not_come_back(tmp_path: Path) -> None:
    """hermes-agent#41205: undo, quit, resume."""
    path = tmp_path / "history.db"
    with ChatHistory(path) as history:
        session = history.new_session()
        ctx = context(history=session)
        turn(ctx, "stays", "A")
        turn(ctx, "goes", "A")
        ctx.rollback_last_user()
    with ChatHistory(path) as history:
        ctx = context(history=history.open_session(session.id))
        assert [message["content"] for message in ctx.messages] == ["stays", "A"]
        assert ctx.recovered is None


@pytest.mark.parametrize("how_far", ["question", "call", "one result", "results"])
def test_33_an_unanswered_turn_is_taken_back_and_offered(tmp_path: Path, how_far: str) -> None:
    """pydantic-ai#4728: also row 9's "after a restart", wherever in the turn the program was killed."""
    path = tmp_path / "history.db"
    facts = FactStore(tmp_path / "facts.db")
    history = ChatHistory(path)
    session = history.new_session()
    facts.session = session.id
    ctx = context(history=session, facts=facts)
    turn(ctx, "U1", "A1")
    before = ctx.build_for_llm()
    ctx.append_user("U2")
    facts.write(Fact("name", "Ada", "turn-2", origin="model"))
    if how_far != "question":
        ctx.append_assistant("", [call("a"), call("b")])
    for call_id in {"one result": ["b"], "results": ["a", "b"]}.get(how_far, []):
        ctx.append_tool_result(call_id, "r")
    history.close()
    with ChatHistory(path) as history:
        ctx = context(history=history.open_session(session.id), facts=facts)
        assert ctx.recovered == "U2"
        assert ctx.build_for_llm() == before
        assert facts.get("name") is None
        turn(ctx, "U2 again", "A2")
    with ChatHistory(path) as history:
        ctx = context(history=history.open_session(session.id), facts=facts)
        assert [message["content"] for message in ctx.messages] == ["U1", "A1", "U2 again", "A2"]


class FullDisk:
    """A history whose disk is full from some moment on."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.full = inner, False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def guarded(*arguments: Any, **options: Any) -> Any:
            if self.full and name in {"open_turn", "append", "project", "undo"}:
                raise OSError("the disk is full")
            return method(*arguments, **options)

        return guarded


@pytest.mark.parametrize("calls", ["ask", "answer", "act"])
def test_what_cannot_be_stored_is_not_said(tmp_path: Path, calls: str) -> None:
    """Disk first: an append that fails leaves memory as it was, and the open turn can be taken back."""
    with ChatHistory(tmp_path / "history.db") as history:
        session = history.new_session()
        disk = FullDisk(session)
        ctx = context(history=disk)
        turn(ctx, "U1", "A1")
        if calls != "ask":
            ctx.append_user("U2")
        before = ctx.messages
        disk.full = True
        arguments: dict[str, Sequence[Any]] = {"ask": ("U2",), "answer": ("A2",), "act": ("", [call("c")])}
        method = ctx.append_user if calls == "ask" else ctx.append_assistant
        with pytest.raises(OSError, match="full"):
            method(*arguments[calls])
        assert ctx.messages == before
        if calls != "ask":
            assert ctx.rollback_last_user() == "U2"
        with pytest.raises(OSError, match="full"):
            ctx.rollback_last_user()
        disk.full = False
        turn(ctx, "U3", "A3")
        assert [message["content"] for message in ctx.messages] == ["U1", "A1", "U3", "A3"]
        rows = [message["content"] for _, message in session.messages_after(0)]
        assert rows == ["U1", "A1", "U3", "A3"]


def test_a_budget_below_the_question_names_its_parts() -> None:
    ctx = context(300, tools=[TOOL], system_prompt=words(280))
    ctx.append_user("U")
    with pytest.raises(ContextOverflow, match="instructions"):
        ctx.build_for_llm()


@pytest.mark.parametrize("compact", [False, True])
def test_instructions_that_fill_the_budget_before_anything_was_said_are_an_overflow(compact: bool) -> None:
    ctx = context(300, system_prompt=words(400))
    with pytest.raises(ContextOverflow, match="instructions"):
        ctx.build_for_llm(compact=compact)


def test_a_short_answer_of_a_pinned_turn_is_never_replaced_by_a_longer_marker() -> None:
    ctx = context(400, keep_recent_turns=1)
    for number in range(6):
        turn(ctx, f"P{number}", pinned=True)
    turn(ctx, "P6", words(60), pinned=True)
    ctx.append_user(words(295))
    payload = ctx.build_for_llm()
    assert [message["content"] for message in payload if message["role"] == "assistant"][:6] == ["ok"] * 6


class GrowingFacts(FactStore):
    """Another terminal writes a fact between any two looks at them."""

    looks = 0

    def render(self, max_tokens: int, *args: Any, **options: Any) -> str | None:
        self.looks += 1
        return words(min(self.looks, max_tokens))


def test_a_payload_is_what_was_counted_though_another_terminal_writes_facts_meanwhile() -> None:
    ctx = context(600, facts=GrowingFacts())
    for number in range(60):
        ctx.append_user(f"U{number} {words(20)}")
        payload = ctx.build_for_llm()
        assert count_payload(payload, MODEL) <= 600
        assert sum(section.tokens for section in ctx.sections)
        ctx.append_assistant("ok")


def test_transcript_tells_everything_whether_or_not_it_is_sent(tmp_path: Path) -> None:
    with ChatHistory(tmp_path / "history.db") as history:
        ctx = context(120, history=history.new_session())
        for number in range(20):
            turn(ctx, f"U{number} {words(12)}", f"A{number}")
        assert ctx.compact_count
        told = [message["content"].split()[0] for message in ctx.transcript()]
        assert told == [f"{who}{number}" for number in range(20) for who in "UA"]


# What seeded faults showed to be untested (tests/mutants.py)


def test_usage_of_a_payload_with_other_settings_teaches_nothing() -> None:
    ctx = context()
    ctx.append_user("U")
    ctx.build_for_llm()
    ctx.configure(tools=[TOOL] * 20)
    ctx.append_assistant("A", usage={"prompt_tokens": 900})
    assert ctx.correction == 1.0


@pytest.mark.parametrize("keep", [1, 3])
def test_a_compaction_keeps_so_many_turns(keep: int) -> None:
    ctx = context(keep_recent_turns=keep)
    for number in range(6):
        turn(ctx, f"U{number}", "A")
    ctx.build_for_llm(compact=True)
    assert [message["content"] for message in ctx.messages[::2]] == [f"U{n}" for n in range(6 - keep, 6)]
    assert ctx.compactions[-1].kept_turns == keep


def test_a_summary_finds_its_room_below_the_mark() -> None:
    """Otherwise the next turns would compact again at once."""
    ctx = context(1000, summarizer=lambda *_, max_tokens: words(190))
    while not ctx.summary:
        turn(ctx, words(12), words(12))
    heading = 40
    assert ctx.compactions[0].after <= 750 + heading


def test_the_steps_of_an_old_pinned_turn_go_and_stay_away() -> None:
    ctx = context(400)
    ctx.append_user("PIN", pinned=True)
    step(ctx, "c")
    ctx.append_assistant("A")
    for count in (1, 2, 3):
        while ctx.compact_count < count:
            turn(ctx, words(30), "A")
        assert [message["content"] for message in ctx.build_for_llm()[1:3]] == ["PIN", "A"]


def test_only_as_many_steps_go_as_must() -> None:
    ctx = context(600)
    ctx.append_user("U")
    number = 0
    while not ctx.compact_count:
        step(ctx, f"c{number}", result=words(40))
        ctx.build_for_llm()
        number += 1
    kept = sum(message["role"] == "tool" for message in ctx.messages)
    assert 3 <= kept < number
    assert 600 * 0.5 < ctx.token_count <= 600 * 0.75


@pytest.mark.parametrize(
    ("sizes", "room", "shares"),
    [
        ([1000, 10], 500, [490, 10]),
        ([10, 1000], 500, [10, 490]),
        ([300, 300], 500, [250, 250]),
        ([5], 0, [0]),
    ],
)
def test_small_texts_stay_whole_and_large_ones_share_the_rest(
    sizes: list[int], room: int, shares: list[int]
) -> None:
    assert shares_of(sizes, room) == shares


@pytest.mark.parametrize(
    ("tokens", "ratio", "expected"), [(10, 1.0, 10), (10, 1.01, 11), (3, 0.5, 2), (100, 1.4, 140)]
)
def test_a_corrected_count_errs_upward(tokens: int, ratio: float, expected: int) -> None:
    assert corrected(tokens, ratio) == expected


def test_what_is_owed_is_bounded() -> None:
    """A summarizer that always fails must not make the debt, and with it the stored view, grow for ever."""
    ctx = context(600, summarizer=lambda *_, max_tokens: "")
    for number in range(120):
        turn(ctx, f"{number} {words(40)}", words(30))
    assert sum(span.tokens for span in ctx._view.owed) <= 600


def test_a_summary_longer_than_what_it_replaces_is_refused() -> None:
    counter = counter_for(MODEL)
    text, fault = check_summary(words(30), None, 20, 100, counter)
    assert (text, "replaces only 20" in fault) == ("", True)
    assert check_summary(words(30), words(15), 20, 100, counter) == (words(30), "")


def test_what_is_missing_before_a_request_is_named_in_full() -> None:
    """A summarizer that comes late is told how much it does not get: all that is neither sent nor told."""
    requests: list[list[dict[str, Any]]] = []

    def summarizer(previous: str | None, dropped: list[dict[str, Any]], *, max_tokens: int) -> str:
        requests.append(dropped)
        return "brief"

    ctx = context(400)
    sizes = {"user": 34, "assistant": 24}  # with their frames
    for number in range(24):
        if number == 12:
            ctx.configure(summarizer=summarizer)
        ctx.append_user(words(30))
        ctx.build_for_llm()
        if requests:
            break
        ctx.append_assistant(words(20))
    note, *told = requests[0]
    kept = sum(sizes[message["role"]] for message in (*told, *ctx.messages[:-1]))
    missing = (ctx.turn_count - 1) * sum(sizes.values()) - kept
    assert note["content"] == f"[about {missing} tokens of older messages are left out here]"


class _MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


KEY = "sk-test-" + "a1b2" * 8


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit(), "GeneratorExit"),
        (_MuteError(), "_MuteError"),
        (ValueError(f"{'x' * 150} {KEY}"), "[key]"),
        (ValueError(f"{'x' * 170} {KEY}"), "x [key]"),
    ],
)
def test_whatever_a_summarizer_raises_is_a_note(error: BaseException, said: str) -> None:
    """Without a key in it, also where a long text is cut; Ctrl-C alone goes through (case 15)."""

    def summarizer(previous: str | None, dropped: list[dict[str, Any]], *, max_tokens: int) -> str:
        raise error

    ctx = context(200, summarizer=summarizer)
    for _ in range(8):
        turn(ctx, words(20))
    assert ctx.compact_count
    assert ctx.summary_note.startswith("the summarizer failed: ")
    assert said in ctx.summary_note
    assert "sk-" not in ctx.summary_note


SOUND = {
    "first": 3, "pins": [1], "cuts": [[3, {"first_step": 0, "results": [[0, 0, 5]], "answer": None}]],
    "covered": 2, "sources": ["a"], "owed": [{"first": 1, "last": 2, "tokens": 9, "skip": 0, "stop": None}],
    "omitted": 0, "rebuild": False, "fruitless": 0, "compactions": 1, "revoked": 0, "tainted": [],
}  # fmt: skip
SPAN = SOUND["owed"][0]
CUT = SOUND["cuts"][0][1]


def test_a_sound_view_is_taken() -> None:
    parts = {"view": json.dumps(SOUND), "correction": '[1.5, "m"]', "summary": '"s"'}
    assert View.from_parts(parts).fits(4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("first", value) for value in (0, 6, 1.5, True, "1", None)),
        *(("pins", value) for value in ([0], [5], [1.0], [1, 1], [2, 1], ["1"], 1)),
        *((name, value) for name in ("covered", "omitted", "fruitless") for value in (-1, 1.5, "1", None)),
        *(
            ("cuts", [[3, {**CUT, name: value}]])
            for name in ("first_step", "answer")
            for value in (-1, "1", 1.5)
        ),
        *(("cuts", [[3, {**CUT, "results": value}]]) for value in ([[0, 0]], [[0, 0, -1]], [[0, 0, "x"]], 1)),
        ("cuts", [[5, CUT]]),
        ("cuts", [[3, CUT], [3, CUT]]),
        ("cuts", [[3]]),
        *(
            ("owed", [{**SPAN, name: value}])
            for name in ("first", "tokens", "skip")
            for value in (-1, "1", 1.0)
        ),
        ("owed", [{**SPAN, "first": 3}]),
        ("owed", [{**SPAN, "stop": "x"}]),
        ("owed", [{}]),
        *((name, value) for name in ("compactions", "revoked") for value in (-1, "x", 10**30)),
        *((name, value) for name in ("sources", "tainted") for value in ([1], [["a"]], 1)),
        ("rebuild", "no"),
        ("unknown", 1),
    ],
)
def test_a_stored_view_with_a_wrong_field_is_none(tmp_path: Path, name: str, value: Any) -> None:
    """It may come out of a damaged file or out of a stranger's export: the conversation goes on without."""
    with ChatHistory(tmp_path / "history.db") as history:
        session = history.new_session()
        ctx = context(history=session)
        for _ in range(4):
            turn(ctx, "Q", "A")
        session.project(4, {"view": json.dumps({**SOUND, name: value})})
        session.close()
        again = context(history=history.open_session(session.id))
        assert len(again.build_for_llm()) == 9
        assert again.compact_count == 0
        turn(again, "Q", "A")


@pytest.mark.parametrize(
    "correction", ['[Infinity, "m"]', '[1e-300, "m"]', '[1e300, "m"]', '[true, "m"]', '[2, ["m"]]', "[2]"]
)
def test_a_stored_correction_that_is_none_is_not_taken(tmp_path: Path, correction: str) -> None:
    with ChatHistory(tmp_path / "history.db") as history:
        session = history.new_session()
        turn(context(history=session), "Q", "A")
        session.project(1, {"correction": correction})
        session.close()
        assert context(history=history.open_session(session.id)).correction == 1.0
