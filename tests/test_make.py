"""`make`: what counts as a finished .venv, and what a person reads when there can be none.

The Pythons here are small shell scripts that write down how they were called. Nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(
    shutil.which("make") is None, reason="the README has plain pip lines for that"
)

# As `python3` it makes environments; in them lies a copy of it, which installs and runs.
PYTHON = """#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
case "$*" in
  -V) echo "Python ${VERSION:-3.11.9}" ;;
  *ensurepip*) exit ${NO_ENSUREPIP:-0} ;;
  *version_info*) exit ${TOO_OLD:-0} ;;
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  "-m pip "*) eval "$PIP" ;;
  main.py*) echo "chat with: $*" ;;
esac
"""


class Clone:
    """A clone with nothing but the Makefile and requirements, in a folder whose name has a blank in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a clone"
        self.folder.mkdir()
        shutil.copy(ROOT / "Makefile", self.folder)
        (self.folder / "requirements.txt").write_text("openai\n")
        (self.folder / "requirements-dev.txt").write_text("-r requirements.txt\npytest\n")
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.calls = folder / "calls"
        self.add_python("python3")

    def add_python(self, name: str) -> None:
        (self.bin / name).write_text(PYTHON)
        (self.bin / name).chmod(0o755)

    def make(self, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        self.calls.write_text("")
        return subprocess.run(
            ["make", *args],
            cwd=self.folder,
            env={"PATH": f"{self.bin}:{os.environ['PATH']}", "CALLS": str(self.calls), **environ},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    @property
    def installed(self) -> list[str]:
        """The requirements files that pip was given since the last `make`."""
        return [line.split()[-1] for line in self.calls.read_text().splitlines() if "-m pip" in line]

    @property
    def built(self) -> bool:
        """Whether the last `make` made an environment."""
        return "-m venv" in self.calls.read_text()


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_the_first_chat_installs_in_one_line_and_the_second_installs_nothing(clone: Clone) -> None:
    first = clone.make("chat", "ARGS=--model m 'two words'")
    assert first.stdout == "installing (once, about a minute) ...\nchat with: main.py --model m two words\n"
    assert first.stderr == ""
    assert clone.built
    assert clone.installed == ["requirements.txt"]
    second = clone.make("chat")
    assert second.stdout == "chat with: main.py\n"
    assert not clone.built
    assert clone.installed == []


def test_pip_runs_in_the_environment_alone(clone: Clone) -> None:
    clone.make("test")
    calls = clone.calls.read_text().splitlines()
    assert [line.split()[0] for line in calls if " -m pip" in line] == ["python"]
    assert not [line for line in calls if line.startswith("python3 -m pip")]


def test_tests_come_on_top_of_a_chat_and_bring_what_a_chat_needs(clone: Clone) -> None:
    clone.make("chat")
    clone.make("test")
    assert (clone.built, clone.installed) == (False, ["requirements-dev.txt"])
    clone.make("chat", "test")
    assert (clone.built, clone.installed) == (False, [])


@pytest.mark.parametrize("target", ["chat", "test"])
def test_changed_requirements_are_installed(clone: Clone, target: str) -> None:
    clone.make(target)
    (clone.folder / "requirements.txt").write_text("openai>=3\n")
    assert clone.make(target).returncode == 0
    assert len(clone.installed) == 1
    clone.make(target)
    assert clone.installed == []


@pytest.mark.parametrize("target", ["chat", "test"])
@pytest.mark.parametrize("end", ["exit 1", "kill -9 $PPID; exit 1", "kill -INT $PPID; exit 1"])
def test_an_installation_that_did_not_end_well_is_begun_anew(clone: Clone, target: str, end: str) -> None:
    clone.make("chat")
    (clone.folder / "requirements.txt").write_text("openai>=3\n")
    assert clone.make(target, PIP=f"echo half > .venv/half; {end}").returncode != 0
    assert clone.make(target).returncode == 0
    assert clone.built
    assert len(clone.installed) == 1
    assert not (clone.folder / ".venv/half").exists()


def test_what_pip_says_is_shown_when_it_fails_and_only_then(clone: Clone) -> None:
    failed = clone.make("chat", PIP="echo 'a warning'; echo 'no such release' >&2; exit 1")
    assert failed.stdout == "installing (once, about a minute) ...\na warning\nno such release\n"
    assert "chat with" not in failed.stdout
    assert "a warning" not in clone.make("chat", PIP="echo 'a warning'").stdout


def test_a_moved_clone_and_a_copied_one_are_built_anew(clone: Clone) -> None:
    clone.make("chat")
    clone.folder = clone.folder.rename(clone.folder.with_name("moved"))
    clone.make("chat")
    assert clone.built
    clone.make("chat")
    assert not clone.built


def test_an_environment_whose_python_is_gone_or_another_is_built_anew(clone: Clone) -> None:
    clone.make("chat")
    clone.make("chat", VERSION="3.12.1")  # the system was upgraded under it
    assert clone.built
    (clone.folder / ".venv/bin/python").unlink()
    clone.make("chat")
    assert clone.built


def test_an_environment_that_somebody_else_made_is_built_anew(clone: Clone) -> None:
    (clone.folder / ".venv/bin").mkdir(parents=True)
    shutil.copy(clone.bin / "python3", clone.folder / ".venv/bin/python")
    clone.make("chat")
    assert clone.built


def test_another_python_can_be_named_and_stays(clone: Clone) -> None:
    clone.make("chat")
    other = clone.bin / "python3.13"
    other.write_text(PYTHON.replace("3.11.9", "3.13.0"))
    other.chmod(0o755)
    clone.make("chat", "PYTHON=python3.13")
    assert clone.built
    clone.make("chat", "PYTHON=python3.13")
    assert not clone.built
    clone.make("chat")
    assert not clone.built


def test_without_ensurepip_there_is_one_line_and_no_environment(clone: Clone) -> None:
    done = clone.make("chat", NO_ENSUREPIP="1")
    assert done.returncode != 0
    assert done.stdout.endswith("sudo apt install python3-venv make git\n")
    assert len(done.stdout.splitlines()) == 1
    assert not (clone.folder / ".venv").exists()


def test_without_python_the_line_is_the_same(clone: Clone) -> None:
    done = clone.make("chat", "PYTHON=no-such-python")
    assert done.stdout.endswith("sudo apt install python3-venv make git\n")
    assert len(done.stdout.splitlines()) == 1
    assert "not found" not in done.stderr


def test_an_old_python_is_named(clone: Clone) -> None:
    done = clone.make("chat", TOO_OLD="1", VERSION="3.10.13")
    assert done.returncode != 0
    assert done.stdout.startswith("Python 3.10.13 is too old, 3.11 is needed.")
    assert not (clone.folder / ".venv").exists()


def test_a_failed_check_leaves_a_finished_environment_alone(clone: Clone) -> None:
    clone.make("chat")
    (clone.folder / "requirements.txt").write_text("openai>=3\n")
    clone.make("chat", NO_ENSUREPIP="1")
    assert (clone.folder / ".venv/bin/python").exists()


def test_make_alone_lists_every_command(clone: Clone) -> None:
    done = clone.make()
    targets = [line.split()[1] for line in done.stdout.splitlines()]
    assert {"help", "chat", "test", "acceptance", "mutants", "lint", "clean"} <= set(targets)
    assert done.returncode == 0
    assert not (clone.folder / ".venv").exists()


def test_clean_leaves_what_cannot_be_made_again(clone: Clone) -> None:
    clone.make("chat")
    kept = {clone.folder / ".env", clone.folder / "Makefile", clone.folder / "mine/notes.txt"}
    (clone.folder / "mine/__pycache__").mkdir(parents=True)
    for file in kept:
        file.touch()
    clone.make("clean")
    assert all(file.exists() for file in kept)
    assert not (clone.folder / ".venv").exists()
    assert not (clone.folder / "mine/__pycache__").exists()


CHAT = """
import sys
try:
    print("ready", flush=True)  # inside: Ctrl-C comes as soon as this is read
    sys.stdin.readline()
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.readline()
sys.exit(3 if "fail" in sys.argv else 0)
"""


@pytest.mark.parametrize(("argument", "code"), [("", 0), ("fail", 2)])
def test_ctrl_c_reaches_the_chat_and_not_make(clone: Clone, argument: str, code: int) -> None:
    """Ctrl-C stops a reply. The chat goes on, and when it ends, `make` ends with it and without complaint."""
    (clone.folder / "main.py").write_text(CHAT)
    clone.make("chat")
    (clone.folder / ".venv/bin/python").write_text(
        PYTHON.replace('echo "chat with: $*"', f'exec "{sys.executable}" -E "$@"')
    )
    child = pexpect.spawn(
        "make",
        ["chat", f"ARGS={argument}"],
        cwd=str(clone.folder),
        env={"PATH": f"{clone.bin}:{os.environ['PATH']}", "CALLS": str(clone.calls)},  # type: ignore[arg-type]
        encoding="utf-8",
        timeout=20,
        echo=False,
    )
    child.expect_exact("ready")
    child.sendcontrol("z")  # nothing: nobody could bring the chat back
    child.sendintr()
    child.expect_exact("interrupted")
    child.sendline("bye")
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, child.signalstatus) == (code, None)
