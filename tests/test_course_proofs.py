"""Every proof of the lessons that exist: the series, each lesson, and its sessions in a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pexpect
import pytest

pytest.importorskip("lessons", reason="the course is not in this tree")

from lessons import transcript
from lessons.cli import main
from lessons.lesson import Course, Lesson
from lessons.prove import prove_lesson
from lessons.prove_series import prove_series
from lessons.series import build
from lessons.start import start
from lessons.workspace import python_of

CLONE = Path(__file__).resolve().parent.parent
COURSE = Course(CLONE / "lessons")
LESSONS = pytest.mark.parametrize("lesson", [pytest.param(each, id=each.folder.name) for each in COURSE])


def test_the_series_is_whole() -> None:
    """No gap, exact patches, the files of the manifest, the same commits everywhere, the product last."""
    if not len(COURSE):
        pytest.skip("there are no lessons yet")
    assert prove_series(COURSE) == []


@LESSONS
def test_a_lesson_holds(lesson: Lesson) -> None:
    """Its tests at its tags and later ones, seeded faults, the record, texts and commands, hints and quiz."""
    assert prove_lesson(COURSE, lesson) == []


def test_a_learner_can_go_the_whole_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From `start` through every solution to 100 %, with something not committed at each step."""
    if not len(COURSE):
        pytest.skip("there are no lessons yet")
    work, _ = start(CLONE, tmp_path / "learner")
    command = ["--repository", str(work.root)]
    for lesson in COURSE:
        (work.root / "main.py").write_text(f"# lesson {lesson.nn}\n", "utf-8")
        (work.root / f"note-{lesson.nn}.txt").write_text("mine\n", "utf-8")
        assert main([*command, "solution", lesson.nn]) == 0, capsys.readouterr().out
        assert main([*command, "next"]) == 0
    capsys.readouterr()
    assert main([*command, "progress"]) == 0
    assert "100 % of the course." in capsys.readouterr().out
    log = work.git.text("log", "--all", "--format=", "--name-only", "--diff-filter=A", "--", "note-*.txt")
    assert sorted(set(log.split())) == [f"note-{lesson.nn}.txt" for lesson in COURSE]
    for lesson in COURSE:
        mine = work.git.text("log", "--all", "--format=%H", f"-S# lesson {lesson.nn}", "--", "main.py")
        assert mine, f"the change of lesson {lesson.nn} is gone"


def in_a_terminal(session: transcript.Session, tree: Path, home: Path, prompt: str) -> str:
    """Play a session on a pty as a person would, waiting for the prompt; return its record."""
    env = transcript.environment(tree, home, python_of(CLONE))
    child = pexpect.spawn(
        "sh",
        ["-c", session.command],
        cwd=str(tree),
        env=env,
        encoding="utf-8",
        dimensions=(50, 80),
        timeout=30,
    )
    seen = ""
    try:
        for line in (*session.typed, None):
            found = child.expect([f"(?:^|\n){re.escape(prompt)}$", pexpect.EOF])
            seen += child.before + (child.after if found == 0 else "")
            if found == 1:
                break
            if line is None:
                child.sendeof()
                child.expect(pexpect.EOF)
                seen += child.before
            else:
                child.sendline(line)
    finally:
        child.close(force=True)
    assert child.exitstatus == 0, seen
    plain = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", seen).replace("\r", "")
    lines = [line.rstrip() if line.rstrip() == prompt.rstrip() else line for line in plain.splitlines()]
    while lines and not lines[-1]:
        lines.pop()  # whether a line ends after the last prompt is the terminal's affair
    return "\n".join((f"$ {session.command}", *lines)) + "\n"


@LESSONS
def test_a_session_in_a_terminal_is_the_recorded_one(lesson: Lesson, tmp_path: Path) -> None:
    """What a person sees and what a pipe gives are the same text."""
    if lesson.no_pty:
        pytest.skip(lesson.no_pty)
    series = build(COURSE, tmp_path / "repo")
    series.git.export(lesson.tag, tmp_path / "tree")
    for session in transcript.parse(lesson.text("transcript.txt"), lesson.prompt):
        seen = in_a_terminal(session, tmp_path / "tree", tmp_path / "home", lesson.prompt)
        if lesson.product:  # which greets and leaves blank lines for a person alone
            lines = iter(seen.splitlines())
            assert [line for line in session.text.splitlines() if line not in lines] == [], seen
        else:
            assert seen == session.text
