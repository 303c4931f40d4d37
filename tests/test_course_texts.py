"""What a lesson says is checked, and each proof finds what is put wrong into a good course."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("lessons", reason="the course is not in this tree")

import little_course as little

from lessons import CourseError, quiz, transcript
from lessons.cli import known
from lessons.lesson import Choice, Course, Question, read_lesson
from lessons.prove import prove_lesson
from lessons.texts import blocks, conversations, found_in, headings, missing_sections, same_output, script

# Blocks


def test_blocks_are_found_with_their_words() -> None:
    """Language, words with and without a value, quotes; indentation in a list is not part of the block."""
    text = """
```python title=a.py at=article-01
x = 1
```
1. in a list:
   ```sh norun="needs a key"
   run
     deep
   ```
````text
```
inner
```
````
```
plain
```
```python sketch
open end"""
    found = list(blocks(text))
    assert [block.language for block in found] == ["python", "sh", "text", "", "python"]
    assert found[0].words == {"title": "a.py", "at": "article-01"}
    assert found[1].words == {"norun": "needs a key"}
    assert found[1].lines == ["run", "  deep"]
    assert found[2].lines == ["```", "inner", "```"]
    assert found[4].words == {"sketch": ""}
    assert found[0].where == "README.md:2"


FILE = """class A:
    def one(self):
        return 1

    def two(self):
        return 2
"""


@pytest.mark.parametrize(
    ("snippet", "found"),
    [
        pytest.param("    def one(self):\n        return 1", True, id="verbatim"),
        pytest.param("def one(self):\n    return 1\n\ndef two(self):", True, id="indentation cut"),
        pytest.param("def one(self):\n...\n        return 2", True, id="left out, own indentation"),
        pytest.param("def two(self):\n...\ndef one(self):", False, id="other order"),
        pytest.param("def one(self):\n  return 1", False, id="other indentation"),
        pytest.param("def one(self):\n    return 1  # said here", False, id="a comment more"),
        pytest.param("def one(self", False, id="half a line"),
        pytest.param("def one(self):\n    return 2", False, id="not together"),
        pytest.param("...", True, id="nothing"),
    ],
)
def test_a_snippet_is_in_the_file_or_not(snippet: str, found: bool) -> None:
    """As it is, but for one common indentation and what `...` leaves out."""
    assert found_in(snippet.splitlines(), FILE) is found


@pytest.mark.parametrize(
    ("shown", "same"),
    [
        ("a\nb\nc", True),
        ("a\n...", True),
        ("...\nc", True),
        ("a\n...\nb\n...\nc", True),
        ("...\nb", False),
        ("a\nb", False),
        ("a\nb\nc\nd", False),
        ("A\nb\nc", False),
    ],
)
def test_output_is_compared_whole(shown: str, same: bool) -> None:
    """Every line, unless `...` says that some are left out."""
    assert same_output(shown.splitlines(), "a\nb  \nc\n") is same


def test_a_script_stops_at_a_failure() -> None:
    """An expected exit code is a condition; the course's own commands are put aside."""
    text, aside = script(
        ["true", "false  # exit 1", "cd ../x", "./course check  # now", "printf a \\", "  b"]
    )
    assert aside == ["cd ../x", "./course check  # now"]
    assert transcript.run(text, Path.cwd(), {"PATH": "/usr/bin:/bin"}) == (0, "a")
    for line in ("false", "true # exit 1", "sh -c 'exit 2' # exit 1"):
        assert transcript.run(script([line])[0], Path.cwd(), {"PATH": "/usr/bin:/bin"})[0] != 0


def test_a_console_block_is_commands_with_their_output() -> None:
    """What stands before the first command belongs to none."""
    assert list(conversations(["x", "$ one", "a", "", "$ two", "$ three", "b"])) == [
        ("one", ["a", ""]),
        ("two", []),
        ("three", ["b"]),
    ]


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        ("./course", True),
        ("./course check -w", True),
        ("./course chat 03 -- --plain x", True),
        ("./course --help", True),
        ("./course chek", False),
        ("./course show", False),
        ("python -m lessons start ../x", True),
        ("python -m lessons check", False),
    ],
)
def test_commands_of_the_course_are_known(command: str, is_one: bool) -> None:
    """A text cannot name a command or an argument that does not exist."""
    assert known(command.split()) is is_one


def test_sections_are_complete_and_in_order() -> None:
    """A heading inside of a block is none; further sections are welcome."""
    assert missing_sections(little.README) == []
    assert missing_sections(little.README.replace("## Why", "## Why?")) == ["Why"]
    swapped = little.README.replace("## Why", "## X").replace("## Goal", "## Why").replace("## X", "## Goal")
    assert "Goal" in missing_sections(swapped)
    assert headings("## a\n```\n## b\n```\n## c") == ["a", "c"]


# Hints, quiz, records


def test_hints_out_of_order_are_one_sentence(tmp_path: Path) -> None:
    """They are numbered 1, 2, 3 in each task."""
    little.write(
        tmp_path, {"00-greet/meta.toml": little.META_00, "00-greet/hints.md": "## name\n### 1\na\n### 3\nb"}
    )
    with pytest.raises(CourseError, match="expected hint 2, found 3"):
        read_lesson(tmp_path / "00-greet").hints()


def test_a_quiz_counts_first_answers_and_explains() -> None:
    """The explanation is that of the choice taken; of a wrong one also which is right."""
    question = Question("Why?", (Choice("Because", "It is so.", right=True), Choice("No", "It is not.")))
    said: list[str] = []
    answers = iter(["B", "what", "a"])
    assert quiz.ask([question] * 2, lambda _: next(answers), said.append) == 1
    text = "\n".join(said)
    assert "No. It is not.\nRight is a) Because\nIt is so." in text
    assert "Type one of the letters a, b" in text
    assert text.endswith("Right. It is so.\n\n1 of 2 right.")
    assert quiz.faults([question] * 2)
    assert quiz.faults([question] * 3) == []
    assert quiz.faults([question, question, Question("?", (Choice("x", "y"), Choice("x", "y")))])


RECORD = "$ one\nyou> a\nA\nyou> b\nB\nyou>\nbye\n$ two\nhello\nyou> \nEmpty\nyou> c\n"


def test_a_record_is_sessions_with_what_was_typed() -> None:
    """A last bare prompt is the end of the input, any other is an empty line."""
    first, second = transcript.parse(RECORD, "you> ")
    assert (first.command, first.typed) == ("one", ("a", "b"))
    assert (second.command, second.typed) == ("two", ("", "c"))
    assert first.text == RECORD.partition("$ two")[0]


def record(tmp_path: Path, program: str, text: str, how: Callable[..., str]) -> str:
    (tmp_path / "tree").mkdir(exist_ok=True)
    (tmp_path / "tree" / "p.py").write_text(program, "utf-8")
    return how(transcript.parse(text, "> "), tmp_path / "tree", "> ", Path(sys.executable))


KEEPING = """import os, sys
kept = os.path.join(os.environ["MINI_AGENT_HOME"], "kept")
print(open(kept).read() if os.path.exists(kept) else "nothing", flush=True)
for line in sys.stdin:
    print("noted", line.strip(), file=sys.stderr, flush=True)
    open(kept, "a").write(line)
"""


def test_sessions_of_a_record_share_their_data(tmp_path: Path) -> None:
    """Also where a program is run several times to see what each line gives: the data is as it was before."""
    said = record(tmp_path, KEEPING, "$ python p.py\n> x\n> y\n$ python p.py\n> z\n", transcript.record)
    assert said == "$ python p.py\nnothing\n> x\nnoted x\n> y\nnoted y\n$ python p.py\nx\ny\n\n> z\nnoted z\n"
    assert record(tmp_path, KEEPING, said, transcript.check) == said
    wrong = said.replace("noted y", "noted yes")
    assert record(tmp_path, KEEPING, wrong, transcript.check) != wrong


def test_nothing_of_the_person_is_in_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, no settings, no proxy of theirs; one width, one time zone."""
    for name in ("OPENAI_API_KEY", "CONTEXT_TOKEN_BUDGET", "all_proxy", "PYTHONSTARTUP", "NO_COLOR"):
        monkeypatch.setenv(name, "mine")
    program = (
        "import os\nprint(*sorted(k for k, v in os.environ.items() if v == 'mine'), os.environ['COLUMNS'])\n"
    )
    assert record(tmp_path, program, "$ python p.py\n", transcript.record) == "$ python p.py\n80\n"


def test_a_program_that_fails_cannot_be_recorded(tmp_path: Path) -> None:
    """The last line of what it said is in the sentence."""
    with pytest.raises(CourseError, match="exit code 1: ValueError: broken"):
        record(tmp_path, "raise ValueError('broken')", "$ python p.py\n", transcript.record)


# The proofs of a lesson

PROOFS: list[tuple[str, str, str, str, str, str]] = [
    # lesson, file, what is put wrong, what it becomes, what the proof says, name of the case
    ("00", "meta.toml", "minutes = 5", "minutes = 50", "50 minutes are too long", "minutes"),
    ("00", "meta.toml", 'replace = "you"', 'replace = "{name}"', "does not notice the wrong", "harmless"),
    (
        "00",
        "meta.toml",
        'replace = "you"',
        'replace = "{"',
        "is no wrong solution",
        "wrong that is no Python",
    ),
    (
        "00",
        "meta.toml",
        'find = "{name}"',
        'find = "{nobody}"',
        "is 0 times in greeting.py",
        "wrong not found",
    ),
    ("00", "hints.md", "### 3", "#### 3", "task 'name' has 2 hints", "hint missing"),
    ("00", "hints.md", "## period", "## full-stop", "there is no task 'full-stop'", "hint for nobody"),
    ("00", "quiz.toml", "right = true", "right = false", "exactly one of them right", "quiz"),
    ("00", "README.md", "## Recap", "## The end", "the section 'Recap' is missing", "section"),
    (
        "00",
        "README.md",
        'return f"Hello',
        'return f"Hallo',
        "this is not in greeting.py at article-00",
        "snippet",
    ),
    ("00", "README.md", "title=greeting.py", "title=nowhere.py", "article-00 has no file nowhere.py", "file"),
    ("00", "README.md", "python title=greeting.py", "python", "or that it is a sketch", "no title"),
    ("00", "README.md", "title=greeting.py", "titel=greeting.py", "'titel' after the language", "word"),
    ("00", "README.md", "import greeting", "import greetings", "a command failed (exit 1)", "command"),
    ("00", "README.md", "./course check", "./course chekc", "is no command of the course", "course command"),
    ("00", "README.md", "# Greeting", "Type `./course greet`.", "`./course greet` is no command", "prose"),
    ("00", "README.md", "Hello, Ada.\n...", "Hello, Eve.\n...", "prints:", "console"),
    ("00", "README.md", "```sh", "```sh norun", "norun needs a reason", "norun"),
    (
        "00",
        "transcript.txt",
        "Hello, Bob.",
        "Hello, Bob!",
        "transcript.txt:5: it says 'Hello, Bob!'",
        "record",
    ),
    ("00", "transcript.txt", "main.py", "nowhere.py", "exit code 2", "record of nothing"),
    (
        "01",
        "meta.toml",
        '"counting.py", "main.py"',
        '"main.py"',
        "all new tests pass",
        "file of the lesson before",
    ),
    ("02", "meta.toml", '"tests/test_counting.py"', '"tests/test_count.py"', "fails (missing)", "superseded"),
    (
        "02",
        "meta.toml",
        "ends_with_a_period",
        "greets_by_name",
        "is superseded, but passes",
        "superseded in vain",
    ),
]


@pytest.mark.parametrize("number", ["00", "01", "02"])
def test_a_good_lesson_has_no_problems(template: Path, number: str) -> None:
    """The little course itself proves."""
    course = Course(template / "lessons")
    assert prove_lesson(course, course.numbered(number)) == []


def test_a_shown_check_is_run_where_a_learner_would_be(template: Path, tmp_path: Path) -> None:
    """`./course` in a console block runs in a learner's repository, at the start or after the solution."""
    shutil.copytree(template, tmp_path / "clone", symlinks=True)
    readme = tmp_path / "clone" / "lessons" / "00-greet" / "README.md"
    done = "```console\n$ cat greeting.py | ./course progress\n> 00  Greeting ...\n```\n"
    readme.write_text(little.README + little.CHECKED + done, "utf-8")
    course = Course(tmp_path / "clone" / "lessons")
    found = prove_lesson(course, course.lessons[0])
    assert len(found) == 1
    assert "`cat greeting.py | ./course progress` (exit 0) prints:\n> 00  Greeting " in found[0]


@pytest.mark.parametrize(
    ("number", "name", "old", "new", "sentence"),
    [pytest.param(*each[:5], id=each[5]) for each in PROOFS],
)
def test_a_proof_can_fail(
    template: Path, tmp_path: Path, number: str, name: str, old: str, new: str, sentence: str
) -> None:
    """One thing put wrong in a good lesson is found, in words that say what."""
    shutil.copytree(template, tmp_path / "clone", symlinks=True)
    folder = Course(tmp_path / "clone" / "lessons").numbered(number).folder
    text = (folder / name).read_text("utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1), "utf-8")
    course = Course(tmp_path / "clone" / "lessons")
    try:
        found = prove_lesson(course, course.numbered(number))
    except CourseError as error:
        found = [str(error)]
    assert [each for each in found if sentence in each], found


CODE: list[tuple[str, int, dict[str, str | None], str]] = [
    ("a start that passes", 1, {"greeting.py": little.GREETING}, "passes before anything is written"),
    ("a start without its module", 1, {"greeting.py": None}, "fails (ImportError)"),
    (
        "a solution that is none",
        2,
        {"greeting.py": little.GREETING.replace("return", "return 0 and")},
        "article-00: tests/",
    ),
    ("a solution of 200 lines", 2, {"long.py": "x = 1\n" * 200}, "solution.patch changes"),
    (
        "a solution with tests",
        2,
        {"tests/test_greeting.py": little.TEST_GREETING + "\n"},
        "they belong to start",
    ),
    (
        "a test in no task",
        1,
        {"tests/test_greeting.py": little.TEST_GREETING + "\n\ndef test_more(): ...\n"},
        "test_more is in no task",
    ),
    (
        "a test without words",
        1,
        {"tests/test_greeting.py": little.TEST_GREETING.replace("expected a period", "wanted a period")},
        "does not say what it expected",
    ),
    ("an earlier test that breaks", 4, {"greeting.py": "def greet(name): return name\n"}, "article-01: "),
]


@pytest.mark.parametrize(
    ("part", "files", "sentence"), [pytest.param(*each[1:], id=each[0]) for each in CODE]
)
def test_a_proof_of_the_code_can_fail(
    template: Path, tmp_path: Path, part: int, files: dict[str, str | None], sentence: str
) -> None:
    """One thing put wrong in the code of a lesson is found."""
    from lessons.editing import import_history

    clone = tmp_path / "clone"
    shutil.copytree(template, clone, symlinks=True)
    parts = [(message, dict(content)) for message, content in little.PARTS]
    parts[part][1].update(files)
    if files.get("greeting.py", "") is None:
        del parts[part][1]["greeting.py"]
    import_history(Course(clone / "lessons"), clone, little.author_history(tmp_path / "history", parts))
    course = Course(clone / "lessons")
    found = prove_lesson(course, course.numbered("01" if part > 2 else "00"))
    assert [each for each in found if sentence in each], found
