"""The product as the last lesson sees it: what git tracks in the clone, but for what is left out."""

from __future__ import annotations

from pathlib import Path

from lessons import CourseError
from lessons.git import Git
from lessons.series import Tree

LEFT_OUT = ("lessons/", "benchmarks/", ".ci/")
"""What is not part of the last lesson: the course itself, the measurements, and the script of the CI."""


def files_of(clone: Path) -> dict[str, str]:
    """The files of the product in a clone: path to mode, as git tracks them.

    Raises:
        CourseError: the folder is no git checkout, so nobody can say what belongs to the product.
    """
    if not (clone / ".git").exists():
        raise CourseError(f"{clone} is not a git checkout, so it is not known which files are the product.")
    files = {}
    for entry in Git(_git_dir(clone), clone).names("ls-files", "-s", "-z"):
        facts, path = entry.split("\t", 1)
        if not path.startswith(LEFT_OUT) and (clone / path).exists():
            files[path] = facts.split(" ")[0]
    return files


def _git_dir(clone: Path) -> Path:
    """Where the repository is; a linked work tree and a submodule have a file that says so."""
    dot_git = clone / ".git"
    if dot_git.is_file():
        return (clone / dot_git.read_text("utf-8").removeprefix("gitdir:").strip()).resolve()
    return dot_git


def tree_of(clone: Path, git: Git) -> str:
    """Write the product's files, as they are on disk, into a repository and return the tree's id."""
    files = files_of(clone)
    paths = [path for path, mode in files.items() if mode != "120000"]
    data = "".join(f"{clone / path}\n" for path in paths).encode("utf-8", "surrogateescape")
    blobs = dict(
        zip(
            paths,
            git.text("hash-object", "-w", "--no-filters", "--stdin-paths", data=data).split(),
            strict=True,
        )
    )
    for path, mode in files.items():
        if mode == "120000":
            target = str((clone / path).readlink()).encode()
            blobs[path] = git.text("hash-object", "-w", "--no-filters", "--stdin", data=target)
    index = {"GIT_INDEX_FILE": str(git.git_dir / "product.index")}
    entries = "".join(f"{mode} {blobs[path]}\t{path}\0" for path, mode in files.items())
    Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)
    git.run("update-index", "-z", "--index-info", data=entries.encode("utf-8", "surrogateescape"), env=index)
    return git.text("write-tree", env=index)


def carry(clone: Path, git: Git, old: str, new: str) -> list[str]:
    """Change the clone's files from one tree to another; return the paths that changed."""
    before, after = git.tree(old), git.tree(new)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    for path in changed:
        target = clone / path
        target.unlink(missing_ok=True)
        if path in after:
            write_file(git, after, path, target)
    return changed


def write_file(git: Git, tree: Tree, path: str, target: Path) -> None:
    """Write one file of a tree, with its mode."""
    mode, blob = tree[path]
    content = git.run("cat-file", "blob", blob)
    target.parent.mkdir(parents=True, exist_ok=True)
    if mode == "120000":
        target.symlink_to(content.decode("utf-8", "surrogateescape"))
    else:
        target.write_bytes(content)
        target.chmod(0o755 if mode == "100755" else 0o644)


def differences(clone: Path, tree: Tree) -> list[str]:
    """Paths at which the product on disk is not what a tree says, modes included."""
    files = files_of(clone)
    wrong = sorted(files.keys() ^ tree.keys())
    for path in sorted(files.keys() & tree.keys()):
        mode, blob = tree[path]
        if files[path] != mode or blob_id(clone / path) != blob:
            wrong.append(path)
    return wrong


def blob_id(path: Path) -> str:
    """The id that git gives to a file's content, computed here and not by git."""
    import hashlib

    content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
