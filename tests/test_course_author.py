"""The author's commands: a change of an early lesson reaches the later ones, the product and the patches."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("lessons", reason="the course is not in this tree")

import little_course as little

from lessons.lesson import Course
from lessons.product import differences
from lessons.series import build


def lessons(clone: Path, *words: str, ok: bool = True) -> str:
    """Run `python -m lessons ...` in the clone; return what it said."""
    done = little.run(clone, sys.executable, "-m", "lessons", *words)
    said = done.stdout + done.stderr
    assert (done.returncode == 0) is ok, said
    assert "Traceback" not in said
    return said


def opened(clone: Path) -> Path:
    return clone.parent / "clone-edit"


def built(clone: Path, tag: str, path: str) -> str:
    """A file of a tag, as the patches of the clone give it."""
    folder = clone.parent / "built"
    shutil.rmtree(folder, ignore_errors=True)
    content = build(Course(clone / "lessons"), folder).git.show(tag, path)
    return "" if content is None else content.decode()


def changed(clone: Path) -> set[str]:
    """What git sees as changed in the clone."""
    said = little.git(clone, "status", "--porcelain", "-z", "--untracked-files=all")
    return {entry.strip().partition(" ")[2].strip() for entry in said.split("\0") if entry}


def test_a_change_reaches_all_later_lessons(clone: Path) -> None:
    """`edit 00`, a change, `save`: it is in every later tag, and only the patches that it touches changed."""
    said = lessons(clone, "edit", "00", "given")
    assert str(opened(clone)) in said
    main = opened(clone) / "main.py"
    assert main.read_text("utf-8") == little.MAIN
    main.write_text(little.MAIN.replace("while True:", "# for ever\nwhile True:"), "utf-8")
    little.write(opened(clone), {"new.txt": "a new file\n"})
    said = lessons(clone, "save", "--no-checks", "--keep-product")
    assert "00-greet/given.patch" in said
    assert "01-count/start.patch" not in said
    for tag in ("article-00-start", "article-00", "article-01"):
        assert "# for ever" in built(clone, tag, "main.py")
        assert built(clone, tag, "new.txt") == "a new file\n"
    assert "counting.count" in built(clone, "article-01", "main.py")
    assert built(clone, "article-02", "main.py") == little.PRODUCT["main.py"]
    assert (clone / "main.py").read_text("utf-8") == little.PRODUCT["main.py"]


def test_a_change_reaches_the_product_too(clone: Path) -> None:
    """What merges cleanly into the last lesson is written into the clone's own files."""
    lessons(clone, "edit", "01")
    little.write(opened(clone), {"extra.py": "extra = 1\n", "tool.sh": "#!/bin/sh\n"})
    said = lessons(clone, "save", "--no-checks")
    assert "written  extra.py" in said
    assert (clone / "extra.py").read_text("utf-8") == "extra = 1\n"
    assert (clone / "tool.sh").stat().st_mode & 0o111
    little.git(clone, "add", "extra.py", "tool.sh")
    series = build(Course(clone / "lessons"), clone.parent / "repo")
    assert differences(clone, series.git.tree("article-02")) == []


def test_save_proves_what_changed(clone: Path) -> None:
    """A change that breaks a lesson is written, and the proofs say at once what is wrong with it."""
    lessons(clone, "edit", "01")
    little.write(opened(clone), {"counting.py": "def count(name: str) -> int:\n    return 7\n"})
    said = lessons(clone, "save", "--keep-product", ok=False)
    assert "FAIL" in said
    assert "'len(name.split())' is 0 times in counting.py" in said


def test_a_conflict_names_the_lesson_and_is_resolved(clone: Path) -> None:
    """The replay stops at the lesson and the file; mended, it goes on from there."""
    lessons(clone, "edit", "00", "given")
    main = opened(clone) / "main.py"
    main.write_text(little.MAIN.replace("greet(name))\n", "greet(name), end='!')\n"), "utf-8")
    said = lessons(clone, "save", "--no-checks", "--keep-product", ok=False)
    assert "Lesson 01 (solution) conflicts" in said
    assert "main.py" in said
    assert len(said.splitlines()) == 1
    assert changed(clone) == set()
    assert "A replay stopped" in lessons(clone, "save", ok=False)
    assert "conflict marks" in lessons(clone, "save", "--continue", "--keep-product", ok=False)
    main.write_text(little.COUNTING.replace("greet(name))\n", "greet(name), end='!')\n"), "utf-8")
    lessons(clone, "save", "--continue", "--keep-product", "--no-checks")
    assert "end='!'" in built(clone, "article-00", "main.py")
    assert "counting.count" in built(clone, "article-01", "main.py")
    assert "end='!'" in built(clone, "article-01", "main.py")
    assert "Nothing is being replayed" in lessons(clone, "save", "--abort", ok=False)


def test_a_conflict_can_be_given_up(clone: Path) -> None:
    """`save --abort` leaves the clone as it was, and the change in the edit's folder."""
    lessons(clone, "edit", "00", "given")
    main = opened(clone) / "main.py"
    mine = little.MAIN.replace("greet(name))\n", "greet(name), end='!')\n")
    main.write_text(mine, "utf-8")
    lessons(clone, "save", "--no-checks", "--keep-product", ok=False)
    lessons(clone, "save", "--abort")
    assert main.read_text("utf-8") == mine
    assert changed(clone) == set()
    main.write_text(little.MAIN.replace("while True:", "while 1:"), "utf-8")
    lessons(clone, "save", "--no-checks", "--keep-product")
    assert "while 1:" in built(clone, "article-01", "main.py")


def test_the_product_conflicts_last_and_can_be_kept(clone: Path) -> None:
    """What the product has in its own way stops at the last lesson: mend it there, or keep the product."""
    lessons(clone, "edit", "00")
    little.write(opened(clone), {"greeting.py": little.GREETING.replace('"Hello', '"Welcome')})
    said = lessons(clone, "save", "--no-checks", ok=False)
    assert "Lesson 02 (given) conflicts" in said
    assert "--keep-product" in said
    lessons(clone, "save", "--keep-product", "--no-checks")
    assert "Welcome" in built(clone, "article-01", "greeting.py")
    assert "Hello" in built(clone, "article-02", "greeting.py")
    assert not changed(clone) & {"greeting.py", "main.py"}


def test_a_conflict_in_the_product_can_be_mended(clone: Path) -> None:
    """What the author makes of it is written into the clone."""
    lessons(clone, "edit", "00")
    little.write(opened(clone), {"greeting.py": little.GREETING.replace('"Hello', '"Welcome')})
    lessons(clone, "save", "--no-checks", ok=False)
    mended = little.PRODUCT["greeting.py"].replace("Hello", "Welcome")
    little.write(opened(clone), {"greeting.py": mended})
    lessons(clone, "save", "--continue", "--no-checks")
    assert (clone / "greeting.py").read_text("utf-8") == mended
    assert built(clone, "article-02", "greeting.py") == mended


def test_an_edit_and_a_change_of_the_product_meet(clone: Path) -> None:
    """The product was changed in the clone since the last save: both changes are there afterwards."""
    lessons(clone, "edit", "00")
    little.write(opened(clone), {"note.txt": "from lesson 00\n"})
    little.write(clone, {"main.py": little.PRODUCT["main.py"] + "# mended here\n"})
    lessons(clone, "save", "--no-checks")
    assert built(clone, "article-02", "main.py").endswith("# mended here\n")
    assert (clone / "main.py").read_text("utf-8").endswith("# mended here\n")
    assert (clone / "note.txt").exists()


def test_save_alone_carries_the_product(clone: Path) -> None:
    """With no edit open, `save` takes the product as it is in the clone, and proves the last lesson."""
    little.write(clone, {"greeting.py": little.PRODUCT["greeting.py"] + "# mended\n"})
    said = lessons(clone, "save")
    assert "written  lessons/02-product/given.patch" in said
    assert "ok    02-product" in said
    assert built(clone, "article-02", "greeting.py").endswith("# mended\n")
    assert "Nothing changed." in lessons(clone, "save")


def test_one_edit_at_a_time(clone: Path) -> None:
    """An open edit is not overwritten; a saved one makes room, and can be gone on with."""
    assert "is the product" in lessons(clone, "edit", "02", ok=False)
    assert "has no part 'given'" in lessons(clone, "edit", "01", "given", ok=False)
    assert not opened(clone).exists()
    lessons(clone, "edit", "00")
    little.write(opened(clone), {"note.txt": "first\n"})
    assert "An edit is open" in lessons(clone, "edit", "01", ok=False)
    assert (opened(clone) / "note.txt").exists()
    lessons(clone, "save", "--no-checks", "--keep-product")
    little.write(opened(clone), {"note.txt": "second\n"})
    assert "An edit is open" in lessons(clone, "edit", "01", ok=False)
    lessons(clone, "save", "--no-checks", "--keep-product")
    assert built(clone, "article-00", "note.txt") == "second\n"
    assert built(clone, "article-00-start", "note.txt") == ""
    lessons(clone, "edit", "01")
    assert (opened(clone) / "counting.py").exists()


def test_commits_of_the_author_are_part_of_the_edit(clone: Path) -> None:
    """Whether the change was committed in the edit's folder or not makes no difference."""
    lessons(clone, "edit", "00")
    little.write(opened(clone), {"one.txt": "1\n"})
    little.commit(opened(clone), "my own commit")
    little.write(opened(clone), {"two.txt": "2\n"})
    lessons(clone, "save", "--no-checks", "--keep-product")
    assert built(clone, "article-00", "one.txt") == "1\n"
    assert built(clone, "article-00", "two.txt") == "2\n"


def test_an_edit_is_not_made_in_a_repository(clone: Path) -> None:
    """Nor in a folder that somebody else uses."""
    assert "lies in the repository" in lessons(clone, "edit", "00", "--in", str(clone / "inside"), ok=False)
    assert "No lesson is open" in lessons(clone, "edit", "00", "--in", str(clone), ok=False)
    assert changed(clone) == set()


def test_record_writes_what_comes_out(clone: Path) -> None:
    """From commands and typed lines alone; a session that differs from run to run is refused."""
    for name, lines in (
        ("00-greet", "$ python main.py\nyou> Ada\nyou> Bob\nyou>\n$ python main.py\nyou> Eve\n"),
        ("02-product", "$ python main.py\n> Ada\n> Bob\n"),
    ):
        (clone / "lessons" / name / "transcript.txt").write_text(lines, "utf-8")
    lessons(clone, "record", "00", "02")
    said = (clone / "lessons" / "00-greet" / "transcript.txt").read_text("utf-8")
    once = "$ python main.py\nyou> Ada\nHello, Ada.\nyou> Bob\nHello, Bob.\nyou>\n"
    assert said == f"{once}$ python main.py\nyou> Eve\nHello, Eve.\nyou>\n"
    said = (clone / "lessons" / "02-product" / "transcript.txt").read_text("utf-8")
    assert said == "$ python main.py\n> Ada\nHello, Ada!\n> Bob\nHello, Bob!\n"
    unsteady = "$ python -c 'import time; print(time.perf_counter_ns())'\n"
    (clone / "lessons" / "00-greet" / "transcript.txt").write_text(unsteady, "utf-8")
    assert "two runs" in lessons(clone, "record", "00", ok=False)


def test_build_prints_every_tag(clone: Path) -> None:
    """`build DIR` makes the bare repository, for whoever wants no learner's one."""
    said = lessons(clone, "build", str(clone.parent / "bare"))
    commits = dict(line.split() for line in said.splitlines())
    assert sorted(commits) == sorted(f"article-0{each}{part}" for each in range(3) for part in ("", "-start"))
    assert little.git(clone.parent / "bare", "rev-parse", "article-01^{commit}") == commits["article-01"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("edit", "9"), "There is no lesson '9'"),
        (("save", "--continue"), "No lesson is open"),
        (("save", "--abort"), "No lesson is open"),
        (("import", "nowhere"), "nowhere"),
        (("prove", "9"), "There is no lesson '9'"),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else "",
)
def test_every_mistake_is_one_sentence(clone: Path, words: tuple[str, ...], sentence: str) -> None:
    """It says what is wrong, and nothing changes."""
    said = lessons(clone, *words, ok=False)
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert changed(clone) == set()
