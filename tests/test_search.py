"""Full-text search: any script, any query text, the right rows and no others, with their matching words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from histories import DAY, NOW, assistant, call, connection, result, sql, talk, user
from hypothesis import given
from hypothesis import strategies as st

import search
import words
from history import ChatHistory, HistoryError, Session
from words import SNIPPET_LENGTH, find_marks, joined_words, make_snippet, parse_query, split_words


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "history.db"


@pytest.fixture
def history(path: Path) -> Iterator[ChatHistory]:
    with ChatHistory(path, synchronous="NORMAL") as opened:  # no power cut here, and a loaded disk is slow
        yield opened


def say(session: Session, *texts: str) -> None:
    for text in texts:
        session.open_turn(session.last_turn() + 1, user(text))


def found(history: ChatHistory, query: str, **options: str) -> list[str]:
    return [hit.text for hit in history.search(query, **options)]


TEXTS = (
    "The policy is POL-358, signed in Ubuntu 20.04.",
    "I don't like it",
    "今天天气很好，我们去公园",
    "昨日は東京タワーに行きました",
    "ｶﾞﾗｽの窓",
    "서울에서 만나요",
    "สวัสดีครับ",
    "C++ or C, R, Go",
    "naïve Café in Zürich",
    "snake_case_name = 5€ 🙂",
    "the deployment was deployed",
    "Straße",
    "e\u0301te\u0301",
)


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("POL-358", [0]),
        ("pol 358", [0]),
        ("20.04", [0]),
        ("2.04", []),
        ("358-POL", []),
        ("don't", [1]),
        ("天气", [2]),
        ("天", [2]),
        ("气天", []),
        ("好", [2]),
        ("我们公园", [2]),  # no such phrase, but the pairs are there
        ("東京", [3]),
        ("タワー", [3]),
        ("東", [3]),
        ("は", [3]),
        ("ガラス", [4]),
        ("カ", []),
        ("서울", [5]),
        ("울", [5]),
        ("สวัส", [6]),
        ("C++", [7]),
        ("R", [7]),
        ("go", [7]),
        ("cafe zurich", [8]),
        ("NAÏVE", [8]),
        ("case_name", [9]),
        ("€", [9]),
        ("🙂", [9]),
        ("deploy", [10]),
        ("ploy", []),
        ("STRASSE", [11]),
        ("été", [12]),
        ("like policy", [0, 1]),  # nothing has both words: what has one is found
    ],
)
def test_words_of_every_script_are_found(history: ChatHistory, query: str, places: list[int]) -> None:
    say(history.new_session(), *TEXTS)
    assert sorted(TEXTS.index(text) for text in found(history, query)) == places


LONG = ("x" * 100_000, "字" * 10_000, "a b " * 10_000)
STRANGE = (
    " ",
    "",
    '"',
    '""',
    "*",
    "a*",
    "^a",
    "-",
    "'",
    "...",
    "(",
    "%",
    "_",
    "\\",
    "¨",
    "﷽",
    "\0",
    "a\0b",
    "\ud800",
)
SYNTAX = ("NOT", "a AND", "NEAR(a b)", "text:x", "{a b}", "a OR OR b")


@pytest.mark.parametrize("query", LONG + STRANGE + SYNTAX)
def test_any_text_is_a_query(history: ChatHistory, query: str) -> None:
    say(history.new_session(), "a plain message")
    assert isinstance(history.search(query), list)


def test_words_end_at_punctuation_and_where_the_script_changes() -> None:
    found_words = [word.word for word in split_words("über—été你a好“x”")]
    assert found_words == ["uber", "ete", "你", "a", "好", "x"]


@given(st.text())
def test_a_text_holds_every_piece_of_itself(text: str) -> None:
    """What the index is fed and what marks are made of are the same words, and each piece matches itself."""
    assert joined_words(text) == " ".join(word.word for word in split_words(text))
    for phrase in parse_query(text):
        assert find_marks(text, [phrase])
    for word in split_words(text):
        assert text[word.start : word.end]
        assert not set(word.word) & set(' "*')


@given(
    st.lists(st.text("ab 你好字€+é'.-", max_size=20), min_size=1, max_size=8),
    st.text("ab 你好€+é-", max_size=6),
)
def test_the_index_finds_what_looking_at_every_text_finds(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str
) -> None:
    """A differential test against the marks: all phrases of a query in one text, if there is such a text."""
    with ChatHistory(tmp_path_factory.mktemp("d") / "history.db", synchronous="NORMAL") as history:
        say(history.new_session(), *texts)
        phrases = parse_query(query)
        expected = [
            text for text in texts if phrases and all(find_marks(text, [phrase]) for phrase in phrases)
        ]
        if expected:
            assert sorted(found(history, query)) == sorted(expected)


def test_a_hit_says_where_and_when_and_marks_the_words_in_the_original_text(path: Path) -> None:
    with ChatHistory(path, clock=lambda: NOW) as history:
        session = history.new_session("Names")
        say(session, "x", "My  cat\tis called  ADA,\nnot Adam")
        (hit,) = history.search("cat ada")
        assert (hit.session, hit.title, hit.turn, hit.role) == (session.id, "Names", 2, "user")
        assert hit.time.isoformat() == "2027-01-15T08:00:00+00:00"
        assert hit.snippet == "My  cat is called  ADA, not Adam"
        assert [hit.snippet[start:end] for start, end in hit.marks] == ["cat", "ADA", "Adam"]
        assert hit.text == "My  cat\tis called  ADA,\nnot Adam"


def test_a_snippet_is_the_part_with_the_most_matches(history: ChatHistory) -> None:
    text = "needle " + "hay " * 200 + "a needle and a needle here " + "hay " * 200
    snippet, marks = make_snippet(text, parse_query("needle"))
    assert len(snippet) == SNIPPET_LENGTH + 2
    assert snippet[0] == snippet[-1] == "…"
    assert [snippet[start:end] for start, end in marks] == ["needle", "needle"]
    assert make_snippet("short", parse_query("nothing")) == ("short", ())
    long_word = "x" * 500
    snippet, marks = make_snippet(long_word, parse_query(long_word))
    assert (snippet, marks) == ("x" * SNIPPET_LENGTH + "…", ((0, SNIPPET_LENGTH),))


def test_better_matches_come_first_and_newer_ones_before_older(path: Path) -> None:
    now = NOW
    with ChatHistory(path, clock=lambda: now) as history:
        session = history.new_session()
        say(
            session,
            "ada ada ada",
            "we spoke of ada and of many other things, at length, on a long day",
            "nothing",
        )
        assert found(history, "ada")[0] == "ada ada ada"
        now += 400 * DAY
        say(session, "ada again", *["filler"] * 5)
        say(session, "bob then")
        now += 400 * DAY
        say(session, "it is bob now")  # longer, so a little worse but for its age
        assert found(history, "bob") == ["it is bob now", "bob then"]


def test_only_live_rows_are_found(history: ChatHistory) -> None:
    """Undone before or after it was indexed, deleted, or in another session than asked for."""
    one, two = history.new_session(), history.new_session()
    say(one, "word first", "word second")
    say(two, "word third")
    assert len(found(history, "word")) == 3
    one.undo(2)
    say(two, "word fourth")
    two.undo(2)
    assert sorted(found(history, "word")) == ["word first", "word third"]
    indexed = connection(history).execute("SELECT count(*) FROM search_index_docsize").fetchone()
    assert indexed == (3,)  # what was undone before the search never was
    assert found(history, "word", session=two.id[:6]) == ["word third"]
    history.delete_session(one.id)
    assert found(history, "word") == ["word third"]
    say(two, "word fifth")
    assert sorted(found(history, "word")) == ["word fifth", "word third"]
    with pytest.raises(HistoryError, match="There is no session"):
        history.search("word", session=one.id)


def test_a_rewritten_turn_is_found_as_it_is_now(history: ChatHistory) -> None:
    session = history.new_session()
    session.open_turn(1, user("old wording"))
    assert found(history, "wording") == ["old wording"]
    session.open_turn(1, user("new wording"))
    assert found(history, "wording") == ["new wording"]


def test_results_of_a_search_are_not_found_by_the_next_one(history: ChatHistory) -> None:
    """Other tools' results are: what a tool said is what the window may have lost."""
    session = history.new_session()
    session.open_turn(1, user("look it up"))
    calls = [call("c1", "search_history"), call("c2", "read_file")]
    session.append(1, assistant(None, tool_calls=calls))
    session.append(1, result("c1", "zebra, found earlier"))
    session.append(1, result("c2", "zebra, in a file"))
    session.append(1, result("c9", "zebra, of no call"))
    assert sorted(found(history, "zebra")) == ["zebra, in a file", "zebra, of no call"]


def test_limit_and_order_hold_over_many_hits(history: ChatHistory) -> None:
    session = history.new_session()
    say(session, *(f"same {number}" for number in range(30)))
    assert len(history.search("same", limit=7)) == 7
    assert history.search("same", limit=0) == []
    assert found(history, "same")[0] == "same 29"  # equal rank: the newest


def test_indexing_happens_at_the_search_and_reports_how_far_it_is(
    history: ChatHistory, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_BATCH", 4)
    session = history.new_session()
    talk(session, 5)
    assert sql(path, "SELECT 1 FROM sqlite_master WHERE name = 'search_index'") == []
    seen: list[tuple[int, int]] = []
    history.search("answer", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(4, 10), (8, 10), (10, 10)]
    history.search("answer", progress=lambda done, total: seen.append((done, total)))
    assert len(seen) == 3  # nothing new, nothing done


def test_an_index_of_another_format_is_made_anew(history: ChatHistory, path: Path) -> None:
    session = history.new_session()
    say(session, "one word")
    assert found(history, "word") == ["one word"]
    sql(path, "UPDATE meta SET value = 0 WHERE name = 'index_format'")
    assert found(history, "word") == ["one word"]
    assert sql(path, "SELECT value FROM meta WHERE name = 'index_format'") == [(search.INDEX_FORMAT,)]


def test_two_terminals_index_each_message_once(path: Path) -> None:
    with ChatHistory(path) as one, ChatHistory(path) as two:
        say(one.new_session(), "alpha", "beta")
        say(two.new_session(), "alpha")
        assert len(one.search("alpha")) == len(two.search("alpha")) == 2
        assert connection(one).execute("SELECT count(*) FROM search_index_docsize").fetchone() == (3,)


def test_without_fts5_searching_still_works_and_says_so_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_has_fts5", lambda _: False)
    with ChatHistory(path) as history:
        session = history.new_session()
        say(session, *TEXTS, "100% sure", "a_b", r"back\slash")
        for query, count in (
            ("天气", 1),
            ("POL-358", 1),
            ("0%", 1),
            ("a_b", 1),
            (r"\s", 1),
            ("", 0),
            ("C nothing", 0),
        ):
            assert len(history.search(query)) == count, query
        (hit,) = history.search("policy")
        assert [hit.snippet[start:end] for start, end in hit.marks] == ["policy"]
        session.undo(1)
        assert history.search("policy") == []
        assert len(history.notices) == 1
        assert "FTS5" in history.notices[0]


def test_deleting_without_fts5_empties_an_index_that_another_python_made(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatHistory(path) as history:
        doomed, kept = history.new_session(), history.new_session()
        say(doomed, "zqsecret")
        say(kept, "kept")
        assert found(history, "zqsecret")
    with monkeypatch.context() as patch, ChatHistory(path) as history:
        patch.setattr(search, "_has_fts5", lambda _: False)
        history.delete_session(doomed.id)
    assert b"zqsecret" not in path.read_bytes()
    with ChatHistory(path) as history:
        assert found(history, "kept") == ["kept"]
        assert found(history, "zqsecret") == []


def test_a_query_has_an_end() -> None:
    assert sum(len(phrase.words) for phrase in parse_query("字" * 1000)) == words.MAX_WORDS
    assert len(parse_query("a " * 1000)) == words.MAX_WORDS


def test_what_somebody_sees_anyway_is_not_searched(history: ChatHistory) -> None:
    """The question that is being asked holds all words of its own search, and would hide the answer."""
    session = history.new_session()
    session.open_turn(1, {"role": "user", "content": "the boat leaves at seven"})
    session.append(1, {"role": "assistant", "content": "noted"})
    session.open_turn(2, {"role": "user", "content": "when does the boat leave?"})
    words = "when does the boat leave"
    assert [hit.turn for hit in history.search(words)] == [2]
    assert [hit.turn for hit in history.search(words, hidden=(session.id, 2))] == [1]
    assert history.search(words, hidden=(session.id, 1)) == []
    assert [hit.turn for hit in history.search(words, hidden=("another", 1))] == [2]
