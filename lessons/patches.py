"""A patch of the course: a commit as text, with nothing in it that changes without its content.

It is what `git format-patch` writes and `git am` reads, less what depends on the commits before it: no commit
id, no `index` line, no signature, no date of its own. A mended word in lesson 00 changes one patch, not all.
"""

from __future__ import annotations

import re
from pathlib import Path

from lessons import CourseError
from lessons.git import AUTHOR, Git, GitError

_ENVELOPE = b"From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001"
_FROM = f"From: {AUTHOR[0]} <{AUTHOR[1]}>".encode()
_DATE = b"Date: Wed, 1 Jan 2025 00:00:00 +0000"
_SUBJECT = b"Subject: [PATCH] "
_END = b"\n---\n\n"

_DIFF = (
    *("diff-tree", "-p", "-r", "--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff"),
    *("--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "-U3", "--diff-algorithm=myers"),
    *("--indent-heuristic", "--inter-hunk-context=0", "--no-relative", "--ignore-submodules=none"),
)


def render(message: str, diff: bytes) -> bytes:
    """A patch file of a commit's message and its diff.

    Raises:
        CourseError: the message has a line that would end it.
    """
    subject, _, body = message.strip().partition("\n")
    if "---" in body.split("\n"):
        raise CourseError(
            f"The message of {subject!r} has a line '---', which ends it in a patch; leave it out."
        )
    head = [_ENVELOPE, _FROM, _DATE, _SUBJECT + subject.encode()]
    text = b"\n".join(head) + b"\n\n" + (body.strip().encode() + b"\n" if body.strip() else b"")
    return text + _END + diff


def parse(patch: Path) -> tuple[str, bytes]:
    """The message and the diff of a patch file.

    Raises:
        CourseError: it is not a file that `render` writes.
    """
    raw = patch.read_bytes()
    where = f"{patch.parent.name}/{patch.name}"
    if b"\r\n" in raw[: raw.find(b"\n") + 1]:
        raise CourseError(f"{where} has line ends of Windows; clone again with core.autocrlf=false.")
    head, found, diff = raw.partition(_END)
    lines = head.split(b"\n")
    if not found or lines[:3] != [_ENVELOPE, _FROM, _DATE] or not lines[3].startswith(_SUBJECT):
        raise CourseError(f"{where} is not a patch of this course; `python -m lessons save` writes them.")
    subject = lines[3].removeprefix(_SUBJECT).decode()
    body = b"\n".join(lines[5:]).decode().strip()
    return f"{subject}\n\n{body}\n" if body else f"{subject}\n", diff


def diff_between(git: Git, old: str, new: str) -> bytes:
    """The canonical diff of two commits or trees. A text needs no index line; a binary file does."""
    lines = git.run(*_DIFF, old, new).split(b"\n")
    kept = []
    for at, line in enumerate(lines):
        # Every line of a file begins with a blank, a plus, a minus or a backslash, so this is a header.
        binary = line.startswith(b"index ") and lines[at + 1 : at + 2] == [b"GIT binary patch"]
        if binary or not line.startswith(b"index "):
            kept.append(line)
    return b"\n".join(kept)


def apply(git: Git, patch: Path) -> str:
    """Apply a patch to the index of a repository, exactly or not at all; return its message.

    Raises:
        CourseError: it does not fit.
    """
    message, diff = parse(patch)
    if diff.strip():
        try:
            git.run("apply", "--cached", "--whitespace=nowarn", "-p1", "-", data=diff)
        except GitError as error:
            raise CourseError(f"{patch.parent.name}/{patch.name} does not apply: {error}") from None
    return message


def changed_lines(diff: bytes) -> dict[str, int]:
    """Added and removed lines of each file of a diff."""
    counts: dict[str, int] = {}
    path, in_hunk = "", 0
    for line in diff.split(b"\n"):
        if in_hunk <= 0 and (match := re.match(rb"diff --git a/(.*) b/(.*)$", line)):
            path = match[2].decode("utf-8", "replace")
            counts[path] = 0
        elif in_hunk <= 0 and (match := re.match(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", line)):
            in_hunk = sum(int(each) if each is not None else 1 for each in match.groups())
        elif in_hunk > 0 and not line.startswith(b"\\"):
            in_hunk -= 2 if line[:1] == b" " else 1
            counts[path] += line[:1] in (b"+", b"-")
    return counts
