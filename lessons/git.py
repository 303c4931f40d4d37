"""Run git so that nothing of the person's configuration or environment can change what comes out.

The same patches must give the same commit ids on every machine: signing, hooks, templates, `core.autocrlf`,
`apply.whitespace`, a locale or a `GIT_DIR` in the environment each broke that in a plain `git am`. So every
call gets an environment without `GIT_*`, no configuration files but the repository's own, and the options
below. Not covered: a git that writes other diffs than today's; the proofs would show it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from lessons import CourseError

OLDEST = (2, 34)
"""The oldest git that was tried; older ones lack `GIT_CONFIG_GLOBAL` or read it differently."""

AUTHOR = ("mini-agent course", "course@mini-agent.invalid")
DATE = "2025-01-01T00:00:00 +0000"
"""One date for every commit, so that a lesson put in between changes no other lesson's text."""

_OPTIONS = {
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.fsmonitor": "false",
    "core.quotePath": "true",
    "core.editor": "true",  # whoever wants an editor gets a program that changes nothing
    "core.pager": "cat",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "apply.whitespace": "nowarn",
    "apply.ignoreWhitespace": "no",
    "i18n.commitEncoding": "utf-8",
    "i18n.logOutputEncoding": "utf-8",
    "merge.conflictStyle": "merge",
    "rerere.enabled": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
    # A checkout owned by another user (a container's mount) is refused otherwise, and the person's own
    # exception is in the global configuration that is left out here.
    "safe.directory": "*",
}


class GitError(CourseError):
    """git refused; the message is its own last sentence."""


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of git: the person's, less everything that configures git."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "LC_", "LANG"))}
    name, email = AUTHOR
    return kept | {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_AUTHOR_DATE": DATE,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
        "GIT_COMMITTER_DATE": DATE,
        "LC_ALL": "C",
        "TZ": "UTC",
        **(extra or {}),
    }


class Git:
    """One repository.

    Args:
        git_dir: its `.git`, or the folder itself when it is bare.
        work_tree: its files; None when it has none.
    """

    def __init__(self, git_dir: Path, work_tree: Path | None = None) -> None:
        self.git_dir = git_dir
        self.work_tree = work_tree

    @classmethod
    def create(cls, git_dir: Path, work_tree: Path | None = None) -> Git:
        """Make an empty repository with no templates and nothing of the person's configuration."""
        git_dir.parent.mkdir(parents=True, exist_ok=True)
        bare = "true" if work_tree is None else "false"
        _run(
            ["init", "--quiet", "--template=", "--object-format=sha1", "--bare", "-b", "course", str(git_dir)]
        )
        git = cls(git_dir, work_tree)
        (git_dir / "info").mkdir(exist_ok=True)
        # Above every .gitattributes of a tree: no file is converted, filtered or diffed in its own way.
        plain = "* -text -ident !eol !filter !diff !merge !working-tree-encoding !whitespace\n"
        (git_dir / "info" / "attributes").write_text(plain, "utf-8")
        for name, value in {"core.bare": bare, "core.autocrlf": "false", "core.eol": "lf"}.items():
            git.run("config", name, value)
        return git

    def run(self, *arguments: str, data: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
        """Run a command and return what it printed.

        Raises:
            GitError: the command failed.
        """
        where = [f"--git-dir={self.git_dir}"]
        if self.work_tree is not None:
            where.append(f"--work-tree={self.work_tree}")
        return _run([*where, *arguments], data=data, env=env, cwd=self.work_tree or self.git_dir)

    def text(self, *arguments: str, data: bytes | None = None, env: Mapping[str, str] | None = None) -> str:
        """Run a command and return what it printed, without white space around it."""
        return self.run(*arguments, data=data, env=env).decode("utf-8", "replace").strip()

    def ok(self, *arguments: str) -> bool:
        """Whether a command succeeds."""
        try:
            self.run(*arguments)
        except GitError:
            return False
        return True

    def names(self, *arguments: str) -> list[str]:
        """Run a command that prints names ended by NUL (`-z`) and return them."""
        printed = self.run(*arguments).decode("utf-8", "surrogateescape")
        return [name for name in printed.split("\0") if name]

    def commit_of(self, name: str) -> str | None:
        """The commit that a branch, tag or id names, or None."""
        try:
            return self.text("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        except GitError:
            return None

    def tree(self, name: str) -> dict[str, tuple[str, str]]:
        """Every file of a commit: path to its mode and blob id."""
        files = {}
        for entry in self.names("ls-tree", "-r", "-z", "--full-tree", name):
            facts, path = entry.split("\t", 1)
            mode, _, blob = facts.split(" ")
            files[path] = (mode, blob)
        return files

    def show(self, name: str, path: str) -> bytes | None:
        """The content of a file of a commit, or None when it has no such file."""
        try:
            return self.run("cat-file", "blob", f"{name}:{path}")
        except GitError:
            return None

    def export(self, name: str, folder: Path) -> None:
        """Write the files of a commit into an empty folder, byte for byte."""
        folder.mkdir(parents=True, exist_ok=True)
        index = {"GIT_INDEX_FILE": str(folder.parent / f".{folder.name}.index")}
        git = Git(self.git_dir, folder)
        try:
            git.run("read-tree", name, env=index)
            git.run("checkout-index", "--all", "--force", env=index)
        finally:
            Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)


def _run(
    arguments: list[str],
    *,
    data: bytes | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> bytes:
    options = [part for name, value in _OPTIONS.items() for part in ("-c", f"{name}={value}")]
    try:
        done = subprocess.run(
            ["git", *options, *arguments],
            input=b"" if data is None else data,
            capture_output=True,
            env=clean_environment(env),
            cwd=cwd,
            check=False,
        )
    except (FileNotFoundError, NotADirectoryError):
        if cwd is not None and not cwd.is_dir():
            raise GitError(f"{cwd} is no git repository.") from None
        raise GitError("git is not installed; the course needs git 2.34 or newer.") from None
    if done.returncode:
        raise GitError(_sentence(done.stderr, arguments))
    return done.stdout


def _sentence(stderr: bytes, arguments: list[str]) -> str:
    """What git complained of, as one line."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    said = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    first = re.sub(r"^(fatal|error): ", "", said[0]) if said else "no reason given"
    command = next((each for each in arguments if not each.startswith("-")), "")
    return f"git {command} failed: {first.rstrip('.:')}."


def version() -> tuple[int, ...]:
    """The version of the git that is installed.

    Raises:
        GitError: there is none.
    """
    found = re.search(r"(\d+)\.(\d+)", _run(["--version"]).decode("ascii", "replace"))
    return tuple(map(int, found.groups())) if found else (0, 0)


def repository_above(folder: Path) -> Path | None:
    """The git work tree that a folder (which need not exist) lies in, or None.

    By looking for `.git`, not by asking git, which refuses to look into what belongs to another user.
    """
    for each in (folder, *folder.parents):
        if (each / ".git").exists():
            return each
    return None
