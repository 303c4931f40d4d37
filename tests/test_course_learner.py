"""The learner's commands on a little course: they say what is next, teach from failures, lose nothing."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("lessons", reason="the course is not in this tree")

import little_course as little

from lessons import CourseError, check, learner, prose, start
from lessons.cli import main
from lessons.hostile import hostile_environment, hostile_home
from lessons.workspace import Workspace


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a clone and, beside it, a learner's repository that was just made."""
    root = tmp_path_factory.mktemp("course")
    start.start(little.make_clone(root), root / start.NAME)
    return root


@pytest.fixture
def work(template: Path, tmp_path: Path) -> Workspace:
    """A learner's repository of one's own; the clone is shared by all tests of this file."""
    shutil.copytree(template / start.NAME, tmp_path / "course", symlinks=True)
    return Workspace(tmp_path / "course")


def say(work: Workspace, capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """Run a command in this process and return everything that it printed."""
    main(["--repository", str(work.root), *command])
    printed = capsys.readouterr()
    return printed.out + printed.err


def everything_kept(root: Path) -> set[str]:
    """The content of every file that any branch or tag reaches, or that is on disk."""
    objects = little.git(root, "rev-list", "--objects", "--all").splitlines()
    found = {line.split(" ")[0] for line in objects}
    for path in root.rglob("*"):
        if path.is_file() and ".git" not in path.relative_to(root).parts:
            found.add(blob(path.read_text("utf-8", "replace")))
    return found


def blob(text: str) -> str:
    """The id that git gives to a text."""
    data = text.encode()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


# Beginning


def test_start_makes_a_repository_that_plain_git_understands(work: Workspace) -> None:
    """Annotated tags of every lesson, a branch of one's own, a clean tree, and ./course that is not in it."""
    assert little.git(work.root, "status", "--porcelain") == ""
    assert little.git(work.root, "branch", "--show-current") == "my/greet"
    tags = little.git(work.root, "tag", "--list").splitlines()
    assert tags == [f"article-{nn}{part}" for nn in ("00", "01", "02") for part in ("", "-start")]
    said = little.git(work.root, "show", "--no-patch", "article-00")
    for part in ("Goal: The program greets.", "greeting.py", "./course check", "- ends with a period"):
        assert part in said
    assert "counting.py" in little.git(work.root, "diff", "--stat", "article-00", "article-01")


def test_the_first_success_takes_no_thought(template: Path, tmp_path: Path) -> None:
    """`start`, `./course check`, `./course`: each says what to type next, and it works from any folder."""
    begun = little.run(template / "clone", sys.executable, "-m", "lessons", "start", str(tmp_path / "mine"))
    assert begun.returncode == 0, begun.stderr
    assert "./course read" in begun.stdout
    script = tmp_path / "mine" / "course"
    said = little.run(tmp_path, str(script))
    assert "Next: ./course read" in said.stdout, said.stderr
    checked = little.run(tmp_path / "mine" / "tests", "../course", "check")
    assert (checked.returncode, "0 of 2" in checked.stdout) == (1, True), checked.stderr
    chat = little.run(tmp_path, str(script), "chat", "00", data="Ada\n")
    assert chat.stdout == "you> Hello, Ada.\nyou> "


@pytest.mark.parametrize("inside", ["clone", "clone/lessons/new", "clone/not/yet/there"])
def test_never_inside_a_repository(template: Path, inside: str) -> None:
    """The learner's repository is refused inside of any git work tree, the clone's first of all."""
    before = sorted(template.rglob("*"))
    with pytest.raises(CourseError, match="lies in the git repository"):
        start.start(template / "clone", template / inside)
    assert sorted(template.rglob("*")) == before


def test_a_folder_with_something_in_it_is_left_alone(template: Path, tmp_path: Path) -> None:
    """What is not ours is refused, and not a file of it changes."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear", "utf-8")
    with pytest.raises(CourseError, match="is not empty"):
        start.start(template / "clone", tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_a_damaged_patch_stops_the_start_and_leaves_nothing(template: Path, tmp_path: Path) -> None:
    """A patch that is not what the manifest says is found before anybody works on it."""
    shutil.copytree(template / "clone", tmp_path / "clone")
    patch = tmp_path / "clone" / "lessons" / "02-product" / "given.patch"
    patch.write_bytes(patch.read_bytes().replace(b"Hello, {name}!", b"Hallo, {name}!"))
    with pytest.raises(CourseError, match=r"greeting.py at article-02-start is not what"):
        start.start(tmp_path / "clone", tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["clone"]


def test_where_the_clone_says_one_is(template: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m lessons` finds the learner's repository beside the clone and says what is next there."""
    learner.where_am_i(template / "clone")
    said = capsys.readouterr().out
    assert "Lesson 00 of 02" in said
    assert "Next: ./course read" in said
    assert start.NAME in said


def test_a_clone_that_moved_is_linked_again(work: Workspace, template: Path, tmp_path: Path) -> None:
    """./course says in a sentence that the clone is gone, and `start` in its new place mends that."""
    (work.root / "course").write_text(
        (work.root / "course").read_text("utf-8").replace(str(template / "clone"), str(tmp_path / "gone")),
        "utf-8",
    )
    lost = little.run(work.root, "./course")
    assert lost.returncode == 1
    assert len(lost.stderr.splitlines()) == 1
    shutil.copytree(template / "clone", tmp_path / "elsewhere")
    (work.root / "mine.txt").write_text("kept", "utf-8")
    _, new = start.start(tmp_path / "elsewhere", work.root)
    assert not new
    found = little.run(work.root, "./course")
    assert "Lesson 00" in found.stdout, found.stderr
    assert (work.root / "mine.txt").read_text("utf-8") == "kept"


# Checking


def test_a_failing_check_teaches(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """What was called, what came back, what was expected, where; what comes after it waits."""
    greeting = work.root / "greeting.py"
    greeting.write_text(little.GREETING.replace("{name}", "you"), "utf-8")
    said = say(work, capsys, "check").splitlines()
    assert said[0].split() == ["article-00", "Greeting", "1", "of", "2"]
    assert said[1:5] == [
        "  FAIL  greets by name",
        "        called greet('Ada'); it came back as 'Hello, you.'.",
        f"        {'expected the name in it.':<48}  tests/test_greeting.py:7",
        "  ok    ends with a period",
    ]
    greeting.write_text("def greet(name):\n    raise KeyError(name)\n", "utf-8")
    said = say(work, capsys, "check").splitlines()
    assert said[1:5] == [
        "  FAIL  greets by name",
        '        called said = greeting.greet("Ada")',
        f"        {'which raised KeyError: ' + repr('Ada'):<48}  greeting.py:2  tests/test_greeting.py:6",
        f"  ...   {'ends with a period':<48} (waiting for the one above)",
    ]
    everything = say(work, capsys, "check", "--all")
    assert everything.count("FAIL") == 2


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param("def greet(name:\n", "this is not Python yet", id="syntax"),
        pytest.param(None, "the module greeting, which is not there", id="no module"),
        pytest.param("", "AttributeError", id="no function"),
        pytest.param("from re import nothing\n", "a name that re.py does not have", id="no such import"),
        pytest.param("def greet(name):\n    return None\n", "TypeError", id="wrong type"),
        pytest.param("import os\nos._exit(3)\n", "Python itself ended", id="it exits"),
        pytest.param("raise SystemExit\n", "ended while it was imported", id="it leaves"),
        pytest.param(
            "import socket\ndef greet(name):\n    socket.create_connection(('192.0.2.1', 9))\n",
            "reached for 192.0.2.1",
            id="network",
        ),
    ],
)
def test_any_failure_is_a_sentence(
    work: Workspace, capsys: pytest.CaptureFixture[str], content: str | None, sentence: str
) -> None:
    """Whatever is wrong in the learner's file, check says so in its own words and shows no traceback."""
    little.write(work.root, {"greeting.py": content})
    said = say(work, capsys, "check")
    assert sentence in said
    assert "Traceback" not in said
    assert "0 of 2" in said


def test_the_clone_cannot_stand_in_for_what_is_missing(
    work: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tests see the learner's modules alone: neither the product beside the lessons nor the machinery."""
    source = (
        "import importlib.util\n\n\ndef greet(name):\n    return [importlib.util.find_spec(name) for name in "
    )
    (work.root / "greeting.py").write_text(f"{source}('brain', 'lessons', 'workspace')]\n", "utf-8")
    assert "it came back as [None, None, None]" in say(work, capsys, "check")


def test_a_test_that_is_gone_or_changed_is_named(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """Passing by removing tests is no passing, and check says how to bring them back."""
    (work.root / "greeting.py").write_text(little.GREETING, "utf-8")
    tests = work.root / "tests" / "test_greeting.py"
    tests.write_text(tests.read_text("utf-8").replace("test_ends", "check_ends"), "utf-8")
    said = say(work, capsys, "check")
    assert "this test is not in your files" in said
    assert "git diff article-00-start -- tests/test_greeting.py" in said
    assert work.state.load(work.home / "state.json").done == ["greet/name"]


def test_earlier_lessons_go_on_working(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """What worked in a lesson before and no longer does is a failure of this one."""
    say(work, capsys, "solution", "01")
    little.write(work.root, {"greeting.py": little.GREETING.replace("{name}", "you")})
    said = say(work, capsys, "check")
    assert "1 of 1" in said
    assert "FAIL  greets by name   (worked in an earlier lesson)" in said
    assert "is done" not in said


def test_watch_runs_again_when_a_file_changes(tmp_path: Path) -> None:
    """A change of a Python file is seen, one of another kind is not; the state of the disk decides."""
    little.write(tmp_path, {"a.py": "1", "deep/b.py": "1", ".git/c.py": "1", "note.txt": "1"})
    seen = check.fingerprint(tmp_path)
    little.write(tmp_path, {"note.txt": "22", ".git/c.py": "22"})
    assert check.fingerprint(tmp_path) == seen
    little.write(tmp_path, {"deep/b.py": "22"})
    os.utime(tmp_path / "deep" / "b.py", ns=(5, 5))
    assert check.fingerprint(tmp_path) != seen


def test_watch_ends_when_all_is_done(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """The first look comes at once, and nothing is left to wait for when everything passes."""
    little.write(work.root, {"greeting.py": little.GREETING})
    assert "is done" in say(work, capsys, "check", "--watch")


# Help


def test_hints_become_more_specific_and_follow_the_open_task(
    work: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three hints one by one, then the way to the reference; for the first task that is not done."""
    first, second, third = (say(work, capsys, "hint") for _ in range(3))
    assert "Greet by name: hint 1 of 3\n\nOne." in first
    assert "Two." in second
    assert "## no heading" in third
    assert "./course show 00" in third
    little.write(work.root, {"greeting.py": little.GREETING.replace('."', '"')})
    say(work, capsys, "check")
    assert "End with a period: hint 1 of 3" in say(work, capsys, "hint")


def test_read_and_show_and_diff(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """The text, the reference of any lesson, and one's own files beside it, new ones included."""
    assert say(work, capsys, "read").startswith("# Greeting")
    assert "+    return len(name.split())" in say(work, capsys, "show", "1")
    little.write(work.root, {"greeting.py": little.GREETING, "new.py": "mine = 1\n"})
    said = say(work, capsys, "diff")
    assert "-mine = 1" in said
    assert "greeting.py" not in said
    assert little.git(work.root, "status", "--porcelain").split() == ["M", "greeting.py", "??", "new.py"]
    (work.root / "new.py").unlink()
    assert "Your files are those of article-00." in say(work, capsys, "diff")


def test_help_lists_the_commands(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """`./course help` is what a person types; `--help` says the same."""
    said = say(work, capsys, "help")
    assert "the text of the lesson, or the glossary" in said
    with pytest.raises(SystemExit):
        main(["--repository", str(work.root), "--help"])
    assert capsys.readouterr().out == said


TEXT = """\
# A heading that is longer than the twenty columns stays

A paragraph that goes
on in a second line.

- an item that is long enough
  to be wrapped
- [two](x.md)

```sh
a command that is longer than twenty columns
```

| a table | that is longer than twenty |
"""
FILLED = """\
# A heading that is longer than the twenty columns stays

A paragraph that
goes on in a second
line.

- an item that is
  long enough to be
  wrapped
- [two](x.md)

```sh
a command that is longer than twenty columns
```

| a table | that is longer than twenty |
"""


def test_texts_are_filled_to_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paragraphs, items and answers, between words; code, tables and headings stay as they are."""
    monkeypatch.setenv("COLUMNS", "20")
    assert prose.markdown(TEXT) == FILLED
    assert prose.fill("b) because it is wrong\n\nx") == "b) because it is\n   wrong\n\nx"
    monkeypatch.setenv("COLUMNS", "400")
    assert max(map(len, prose.fill("word " * 100).split("\n"))) <= prose.WIDEST


def test_quiz_explains_right_and_wrong(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is explained, anything else is asked again, the best try is kept."""
    answers = iter(["a", "b", "x", "", "a"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    assert main(["--repository", str(work.root), "quiz"]) == 0
    assert Workspace(work.root).state.quiz == {"greet": 2}


def test_the_quiz_can_be_left(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-D leaves, and nothing is noted."""
    asked = little.run(work.root, "./course", "quiz", data="a\n")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert Workspace(work.root).state.quiz == {}


def test_the_whole_way_through(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """A learner who takes every solution ends at 100 %, each step printed by the one before."""
    for lesson in work.course:
        assert f"Lesson {lesson.nn} is done" in say(work, capsys, "solution", lesson.nn)
        assert f"{lesson.tag} " in say(work, capsys, "check")
        said = say(work, capsys)
        expected = "./course progress" if lesson.number == 2 else "./course next"
        assert expected in said
        say(work, capsys, "next")
    said = say(work, capsys, "progress")
    assert "100 % of the course." in said
    assert said.count("solution taken") == 3


def test_next_asks_before_it_skips(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """With open tasks, `next` stays and says how to go on all the same."""
    assert "next --skip" in say(work, capsys, "next")
    assert work.branch() == "my/greet"
    say(work, capsys, "next", "--skip")
    assert work.branch() == "my/count"
    assert "is the last one" in (say(work, capsys, "goto", "02"), say(work, capsys, "next"))[1]


def test_plain_git_decides_where_one_is(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """After `git checkout article-01` one is at lesson 01, and what passes there is not one's own work."""
    little.git(work.root, "checkout", "--quiet", "article-01")
    said = say(work, capsys, "check")
    assert "article-01" in said
    assert "1 of 1" in said
    assert "This is the reference" in said
    assert Workspace(work.root).state.done == []


# Nothing is ever lost

MOVES = [
    ("goto", "01"),
    ("goto", "02"),
    ("next", "--skip"),
    ("reset",),
    ("solution", "00"),
    ("solution", "01"),
]


def make_dirty(root: Path) -> list[str]:
    """Leave work that is not committed in every way there is; return the contents."""
    marks = [f"# work {number}\n" for number in range(8)]
    little.write(root, {"greeting.py": marks[0], "main.py": marks[1], "run.sh": marks[2]})
    little.git(root, "add", "main.py", "run.sh")
    little.write(root, {"main.py": marks[3], "counting.py": marks[4], "notes/new.txt": marks[5]})
    # An ignored file that another lesson has under the same name, and one that is only ignored.
    with (root / ".git" / "info" / "exclude").open("a") as file:
        file.write("test_counting.py\n")
    little.write(root, {"tests/test_counting.py": marks[6], "only.log": marks[7]})
    little.git(root, "rm", "--quiet", "--cached", "data/odd.txt")
    return marks


@pytest.mark.parametrize("move", MOVES, ids=" ".join)
def test_no_move_loses_work(
    work: Workspace, capsys: pytest.CaptureFixture[str], move: tuple[str, ...]
) -> None:
    """Changed, staged, staged and changed again, new, conflicting and ignored files are all still there."""
    marks = make_dirty(work.root)
    say(work, capsys, *move)
    kept = everything_kept(work.root)
    assert [mark for mark in marks if blob(mark) not in kept] == []
    assert "only.log" not in little.git(work.root, "ls-files")
    where = {"01": "my/count", "02": "my/product", "--skip": "my/count"}.get(move[-1], "my/greet")
    assert work.branch() == where
    if move[0] == "goto" and where != "my/greet":
        little.git(work.root, "checkout", "--quiet", "my/greet")
        assert (work.root / "main.py").read_text("utf-8") == marks[3]


@pytest.mark.parametrize("move", MOVES, ids=" ".join)
@pytest.mark.parametrize("where", ["article-00", "article-01-start"])
def test_work_on_a_tag_gets_a_branch(
    work: Workspace, capsys: pytest.CaptureFixture[str], move: tuple[str, ...], where: str
) -> None:
    """Changed files and commits made on a checked out tag, where no branch would keep them."""
    little.git(work.root, "checkout", "--quiet", where)
    little.write(work.root, {"greeting.py": "# committed\n"})
    little.commit(work.root, "mine")
    if move != ("goto", "02"):  # there: nothing to commit, and still a commit that no branch has
        little.write(work.root, {"greeting.py": "# not committed\n"})
    say(work, capsys, *move)
    kept = everything_kept(work.root)
    assert blob("# committed\n") in kept
    assert (blob("# not committed\n") in kept) is (move != ("goto", "02"))
    assert "-kept-1" in little.git(work.root, "branch")


def conflicted(root: Path, command: str) -> None:
    """Leave a merge, a cherry-pick or a stash half done, with conflict marks in greeting.py."""
    little.write(root, {"greeting.py": "theirs = 1\n"})
    little.commit(root, "theirs")
    little.git(root, "branch", "theirs")
    little.git(root, "reset", "--quiet", "--hard", "HEAD^")
    if command == "stash":
        little.write(root, {"greeting.py": "stashed = 1\n"})
        little.git(root, "stash")
    little.write(root, {"greeting.py": "mine = 1\n"})
    little.commit(root, "mine")
    words = ["stash", "pop"] if command == "stash" else [command, "theirs"]
    with pytest.raises(AssertionError):
        little.git(root, *words)
    little.write(root, {"other.txt": "beside it\n"})


@pytest.mark.parametrize("move", MOVES, ids=" ".join)
@pytest.mark.parametrize("command", ["merge", "cherry-pick", "stash"])
def test_a_conflict_is_kept_as_it_is(
    work: Workspace, capsys: pytest.CaptureFixture[str], move: tuple[str, ...], command: str
) -> None:
    """Conflicting files are committed with their marks; the other side stays reachable."""
    conflicted(work.root, command)
    marked = (work.root / "greeting.py").read_text("utf-8")
    assert "<<<<<<<" in marked
    said = say(work, capsys, *move)
    kept = everything_kept(work.root)
    for content in (
        marked,
        "mine = 1\n",
        "beside it\n",
        "stashed = 1\n" if command == "stash" else "theirs = 1\n",
    ):
        assert blob(content) in kept, said
    assert little.git(work.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("move", MOVES, ids=" ".join)
def test_a_rebase_is_left_to_its_owner(
    work: Workspace, capsys: pytest.CaptureFixture[str], move: tuple[str, ...]
) -> None:
    """A move in the middle of a rebase is refused, and changes nothing."""
    conflicted(work.root, "merge")
    little.git(work.root, "merge", "--abort")
    (work.root / "other.txt").unlink()
    with pytest.raises(AssertionError):
        little.git(work.root, "rebase", "theirs")
    before = little.git(work.root, "status", "--porcelain"), little.git(work.root, "branch", "--list")
    assert "A rebase is under way" in say(work, capsys, *move)
    assert (
        little.git(work.root, "status", "--porcelain"),
        little.git(work.root, "branch", "--list"),
    ) == before


def test_a_lesson_is_where_it_was_left(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """Coming back finds one's own files, and `reset` says under which name the old ones are."""
    little.write(work.root, {"greeting.py": "# half done\n"})
    say(work, capsys, "goto", "01")
    say(work, capsys, "goto", "00")
    assert (work.root / "greeting.py").read_text("utf-8") == "# half done\n"
    said = say(work, capsys, "reset")
    assert "my/greet-kept-1" in said
    assert little.git(work.root, "diff", "--stat", "article-00-start") == ""
    assert little.git(work.root, "show", "my/greet-kept-1:greeting.py") == "# half done"


def test_what_is_kept_is_in_the_learners_name(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """The commits that keep work carry the learner's own name, today's date, and run none of their hooks."""
    little.git(work.root, "config", "user.name", "Ada")
    little.git(work.root, "config", "user.email", "ada@example.invalid")
    little.write(work.root, {".git/hooks/pre-commit": "#!/bin/sh\nexit 1\n", "greeting.py": "# mine\n"})
    (work.root / ".git" / "hooks" / "pre-commit").chmod(0o755)
    say(work, capsys, "goto", "01")
    author, date = little.git(work.root, "log", "-1", "--format=%an <%ae>%n%as", "my/greet").splitlines()
    assert author == "Ada <ada@example.invalid>"
    assert not date.startswith("2025-01-01")


def test_a_hostile_configuration_changes_nothing(
    work: Workspace, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under conversions, hooks and signing the files are the lesson's, and plain git sees them as clean."""
    hostile_home(tmp_path / "home")
    for name, value in hostile_environment(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    marks = make_dirty(work.root)
    say(work, capsys, "goto", "01")
    say(work, capsys, "solution", "01")
    assert (work.root / "counting.py").read_bytes() == (little.PARTS[4][1]["counting.py"] or "").encode()
    for name in hostile_environment(tmp_path / "home"):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    status = little.run(work.root, "git", "status", "--porcelain")
    assert (status.returncode, status.stdout) == (0, ""), status.stderr
    kept = everything_kept(work.root)
    assert [mark for mark in marks if blob(mark) not in kept] == []


# Editions


@pytest.fixture
def newer(template: Path, work: Workspace, tmp_path: Path) -> Iterator[Path]:
    """A clone with a newer edition, which the learner's repository belongs to."""
    parts = [
        (
            message,
            {
                name: text and text.replace("Hello", "Good day").replace("somebody", "someone")
                for name, text in files.items()
            },
        )
        for message, files in little.PARTS
    ]
    from lessons.editing import import_history
    from lessons.lesson import Course

    clone = tmp_path / "newer"
    shutil.copytree(template / "clone", clone)
    start.start(clone, work.root)
    import_history(Course(clone / "lessons"), clone, little.author_history(tmp_path / "history", parts))
    return clone


def test_a_new_edition_is_offered_and_not_imposed(
    work: Workspace, newer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until it is taken, tags, texts and files are the old ones; afterwards only tags and texts are new."""
    work = Workspace(work.root)
    little.write(work.root, {"greeting.py": "# mine\n", "new.py": "# new\n"})
    say(work, capsys, "goto", "01")
    say(work, capsys, "goto", "00")
    branches = little.git(work.root, "for-each-ref", "refs/heads")
    old = little.git(work.root, "rev-parse", "article-00^{commit}")
    little.write(work.root, {"greeting.py": "# not committed\n"})
    for command in ((), ("doctor",), ("check",)):
        said = say(work, capsys, *command)
        assert ("./course update" in said) is (command != ("check",))
    assert little.git(work.root, "rev-parse", "article-00^{commit}") == old

    said = say(work, capsys, "update")
    assert "Lesson 00 changed; my/greet stays as it is" in said
    assert "Good day" in little.git(work.root, "show", "article-00:greeting.py")
    assert little.git(work.root, "for-each-ref", "refs/heads") == branches
    assert (work.root / "greeting.py").read_text("utf-8") == "# not committed\n"
    earlier = little.git(work.root, "for-each-ref", "--format=%(*objectname)", "refs/tags/edition-*/*")
    assert old in earlier.splitlines()
    assert "began at another edition" in say(work, capsys, "check")
    assert "You have the edition of the clone." in say(work, capsys, "update")
    say(work, capsys, "reset")
    assert "began at another edition" not in say(work, capsys, "check")


# When something is broken


def test_doctor_finds_what_is_wrong(work: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing tag and a lock that was left behind are named, each with what to do, and then it helps."""
    assert "as they should be" in say(work, capsys, "doctor")
    little.git(work.root, "tag", "--delete", "article-01")
    (work.root / ".git" / "index.lock").touch()
    (work.root / "course").chmod(0o644)
    said = say(work, capsys, "doctor")
    for sentence in ("article-01", "./course update", "index.lock", "start"):
        assert sentence in said
    (work.root / ".git" / "index.lock").unlink()
    say(work, capsys, "update")
    start.start(Path(work.state.clone), work.root)
    assert "as they should be" in say(work, capsys, "doctor")


@pytest.mark.parametrize(
    "command",
    [("goto", "7"), ("goto", "nowhere"), ("show", "-1"), ("solution", "99"), ("chat", "44"), ("read", "x")],
    ids=" ".join,
)
def test_an_unknown_lesson_is_one_sentence(
    work: Workspace, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    """A number that is none is answered with those that are."""
    try:
        said = say(work, capsys, *command)
    except SystemExit:  # argparse: -1 is an option to it
        said = capsys.readouterr().err.splitlines()[-1]
    assert len(said.splitlines()) == 1
    assert re.search(r"00 to 02|unrecognized|required", said)


@pytest.mark.parametrize("content", ["", "{", '{"done": 3}', "[]"])
def test_a_damaged_state_is_one_sentence(
    work: Workspace, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    """What to do about it works: the repository is linked again, and the branches were never in that file."""
    (work.home / "state.json").write_text(content, "utf-8")
    said = say(work, capsys)
    assert len(said.splitlines()) == 1
    (work.home / "state.json").unlink()
    start.start(Path(work.state.clone), work.root)
    assert "Lesson 00" in say(work, capsys)
