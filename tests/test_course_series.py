"""From patches to commits: the same to the byte everywhere, exactly or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("lessons", reason="the course is not in this tree")

import little_course as little

from lessons import CourseError
from lessons.editing import check_export, import_history, save_product
from lessons.git import Git
from lessons.hostile import hostile_build, hostile_home
from lessons.lesson import Course, read_lesson
from lessons.patches import changed_lines, diff_between
from lessons.product import blob_id, differences
from lessons.prove_series import odd_files, prove_series
from lessons.series import behaviors, build, read_manifest, verify


def course_of(clone: Path) -> Course:
    return Course(clone / "lessons")


def test_the_tags_hold_what_the_author_committed(template: Path, tmp_path: Path) -> None:
    """Contents, modes, odd line ends, files without a last line end, empty and removed files."""
    series = build(course_of(template), tmp_path / "repo")
    tree = series.git.tree("article-00")
    assert tree["run.sh"][0] == "100755"
    assert (
        series.git.show("article-00", "data/odd.txt")
        == b"trailing blank \n\ttab and no end of line, \r inside"
    )
    assert series.git.show("article-00", "data/empty") == b""
    assert "data/empty" not in series.git.tree("article-01-start")
    message = series.git.text("log", "-1", "--format=%B", "article-01-start")
    assert message == "01 start: count\n\nA body of the message.\n\nWith two paragraphs."
    assert list(series.tags) == [
        f"article-{nn}{part}" for nn in ("00", "01", "02") for part in ("-start", "")
    ]


def test_any_configuration_gives_the_same_commits(template: Path, tmp_path: Path) -> None:
    """Signing, hooks, templates, autocrlf, whitespace fixing, GIT_* variables, locale and time zone."""
    series = build(course_of(template), tmp_path / "repo")
    expected = "".join(f"{name} {commit}\n" for name, commit in sorted(series.tags.items()))
    assert hostile_build(template, tmp_path / "c") == expected
    assert hostile_build(template, tmp_path / "d", odd=True) == expected


def test_the_hostile_configuration_is_hostile(template: Path, tmp_path: Path) -> None:
    """A git that is not sealed off fails, or gives other trees, under that very configuration."""
    hostile_home(tmp_path / "home")
    patch = template / "lessons" / "00-greet" / "given.patch"
    script = "git init -q repo && cd repo && git am -q --keep-cr $PATCH && git rev-parse HEAD^{tree}"
    plain = little.run(
        tmp_path, "sh", "-c", script, env={"PATCH": str(patch), "HOME": str(tmp_path / "home")}
    )
    series = build(course_of(template), tmp_path / "repo-2")
    tree = series.git.text("rev-parse", series.commits["greet", "given"] + "^{tree}")
    assert plain.returncode != 0 or plain.stdout.strip() != tree


def test_git_am_reads_the_patches(template: Path, tmp_path: Path) -> None:
    """They are what git itself writes: anybody can apply them by hand, exactly."""
    series = build(course_of(template), tmp_path / "repo")
    by_hand = tmp_path / "by-hand"
    by_hand.mkdir()
    little.git(by_hand, "init", "--quiet")
    lessons = template / "lessons"
    names = ["00-greet/given", "00-greet/start", "00-greet/solution", "01-count/start", "01-count/solution"]
    for name in names:
        little.git(by_hand, "am", "--quiet", "--keep-cr", str(lessons / f"{name}.patch"))
    assert little.git(by_hand, "rev-parse", "HEAD^{tree}") == series.git.text(
        "rev-parse", "article-01^{tree}"
    )


def test_patches_name_no_commit_and_no_blob(template: Path) -> None:
    """So that a change of one lesson does not show in the others."""
    for patch in (template / "lessons").glob("*/*.patch"):
        lines = patch.read_bytes().split(b"\n")
        assert not [line for line in lines if line.startswith((b"index ", b"-- "))], patch


def test_a_change_of_one_part_changes_one_patch(clone: Path, tmp_path: Path) -> None:
    """A mended line in lesson 00 is one patch and its lines of the manifest."""
    before = {path: path.read_bytes() for path in (clone / "lessons").glob("*/*.patch")}
    parts = [
        (message, {name: text and text.replace("while True:", "while 1:") for name, text in files.items()})
        for message, files in little.PARTS
        if message.startswith("00") or "start" in message
    ]
    parts.append((little.PARTS[-1][0], {"counting.py": little.PARTS[-1][1]["counting.py"]}))
    import_history(course_of(clone), clone, little.author_history(tmp_path / "one", parts))
    before = {path: path.read_bytes() for path in (clone / "lessons").glob("*/*.patch")}
    parts[0][1]["data/odd.txt"] = "mended\n"
    import_history(course_of(clone), clone, little.author_history(tmp_path / "two", parts))
    changed = {path.parent.name + "/" + path.stem for path, old in before.items() if path.read_bytes() != old}
    # The product does not have that file, so its patch removes it with its content.
    assert changed == {"00-greet/given", "02-product/given"}


def test_export_gives_the_committed_patches(template: Path, tmp_path: Path) -> None:
    """Build and export again: not a byte is different."""
    assert check_export(course_of(template), tmp_path / "repo") == []


def test_a_patch_that_only_applies_with_an_offset_is_found(clone: Path, tmp_path: Path) -> None:
    """git would look for the place; the export shows that the patch was not exact."""
    patch = clone / "lessons" / "01-count" / "solution.patch"
    patch.write_bytes(patch.read_bytes().replace(b"@@ -6,3 +7,4 @@", b"@@ -5,3 +6,4 @@"))
    assert check_export(course_of(clone), tmp_path / "repo") == ["01-count/solution.patch"]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        pytest.param(lambda raw: raw.replace(b"\n", b"\r\n"), "line ends of Windows", id="crlf"),
        pytest.param(lambda raw: raw[: len(raw) // 2], "does not apply", id="cut"),
        pytest.param(lambda _: b"", "is not a patch of this course", id="empty"),
        pytest.param(lambda raw: raw.replace(b"raise", b"RAISE"), "does not apply", id="context"),
        pytest.param(lambda raw: raw.replace(b"2025", b"2026"), "is not a patch of this course", id="date"),
    ],
)
def test_a_damaged_patch_is_one_sentence(
    clone: Path, tmp_path: Path, damage: Callable[[bytes], bytes], sentence: str
) -> None:
    """The sentence names the patch."""
    patch = clone / "lessons" / "01-count" / "solution.patch"
    patch.write_bytes(damage(patch.read_bytes()))
    with pytest.raises(CourseError, match=rf"01-count/solution.patch.*{sentence}"):
        build(course_of(clone), tmp_path / "repo")


def test_the_manifest_says_what_each_tag_holds(template: Path, tmp_path: Path) -> None:
    """Read back, it is the trees that git has, modes included, with ids that are those of files on disk."""
    course = course_of(template)
    series = build(course, tmp_path / "repo")
    last, trees = read_manifest(course.manifest.read_text("utf-8"))
    assert last == series.last
    assert trees == {name: series.git.tree(found) for name, found in series.tags.items()}
    series.git.export("article-00", tmp_path / "files")
    assert blob_id(tmp_path / "files" / "data" / "odd.txt") == trees["article-00"]["data/odd.txt"][1]
    assert odd_files(tmp_path / "files", trees["article-00"]) == []
    (tmp_path / "files" / "run.sh").chmod(0o644)
    little.write(tmp_path / "files", {"data/empty": None, "main.py": "", "more.py": ""})
    assert odd_files(tmp_path / "files", trees["article-00"]) == [
        "data/empty",
        "main.py",
        "more.py",
        "run.sh",
    ]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        pytest.param("100755", "100644", "run.sh at article-00-start", id="mode"),
        pytest.param("- data/empty\n", "", "data/empty at article-01-start", id="removed file"),
        pytest.param("commit ", "commit 0", "not those that", id="commit"),
    ],
)
def test_verify_finds_what_differs(clone: Path, tmp_path: Path, old: str, new: str, sentence: str) -> None:
    """A manifest that says something else is an error that names the first tag and file."""
    course = course_of(clone)
    said = course.manifest.read_text("utf-8")
    changed = said.replace(old, new, 1).replace("\ncommit ", "\ncommit x")
    course.manifest.write_text(changed, "utf-8")
    with pytest.raises(CourseError, match=sentence):
        verify(course, build(course, tmp_path / "repo"))


def test_a_text_only_part_is_an_empty_commit(clone: Path, tmp_path: Path) -> None:
    """A lesson may be only words: its commit changes nothing and is there."""
    parts = [*little.PARTS[:4], ("01 solution: nothing to write", {})]
    import_history(course_of(clone), clone, little.author_history(tmp_path / "history", parts))
    series = build(course_of(clone), tmp_path / "repo")
    assert series.git.tree("article-01") == series.git.tree("article-01-start")
    assert series.tags["article-01"] != series.tags["article-01-start"]


def test_the_last_lesson_is_the_product(clone: Path, tmp_path: Path) -> None:
    """But for lessons, benchmarks and the script of the CI; `save` carries a changed product into it."""
    series = build(course_of(clone), tmp_path / "repo")
    tree = series.git.tree("article-02")
    assert sorted(tree) == [".gitignore", "greeting.py", "main.py", "run.sh", "tests/test_greeting.py"]
    assert differences(clone, tree) == []
    little.write(clone, {"main.py": "print(1)\n", "new.sh": "#!/bin/sh\n", "scratch.txt": "not tracked"})
    little.git(clone, "add", "new.sh")
    (clone / "run.sh").unlink()
    (clone / "greeting.py").chmod(0o755)
    little.git(clone, "add", "greeting.py")
    assert differences(clone, tree) == ["new.sh", "run.sh", "greeting.py", "main.py"]
    changed = save_product(course_of(clone), clone)
    assert sorted(path.name for path in changed) == ["given.patch", "manifest.txt"]
    again = build(course_of(clone), tmp_path / "again")
    assert differences(clone, again.git.tree("article-02")) == []
    assert again.git.tree("article-02")["new.sh"][0] == "100755"
    assert series.tags["article-01"] == again.tags["article-01"]
    assert save_product(course_of(clone), clone) == []


def test_binary_files_survive(clone: Path, tmp_path: Path) -> None:
    """A product may hold a picture: its patch keeps what git needs for it."""
    (clone / "picture.png").write_bytes(bytes(range(256)))
    little.git(clone, "add", "picture.png")
    save_product(course_of(clone), clone)
    assert check_export(course_of(clone), tmp_path / "repo") == []
    series = build(course_of(clone), tmp_path / "again")
    assert series.git.show("article-02", "picture.png") == bytes(range(256))


def test_the_proof_of_the_series_finds_a_change(clone: Path) -> None:
    """A product that moved on, and a manifest with another mode, are problems; otherwise there are none."""
    assert prove_series(course_of(clone)) == []
    little.write(clone, {"main.py": "print(1)\n"})
    assert prove_series(course_of(clone)) == [
        "main.py is not in the last lesson as it is here: python -m lessons save"
    ]


def test_changed_lines_are_counted_by_file(tmp_path: Path) -> None:
    """Lines that look like headers of a diff are lines all the same, and unchanged lines do not count."""
    git = Git.create(tmp_path / "repo")
    trees = []
    for content in ("one\ntwo\nthree\n", "-- a\n++ b\ndiff --git a/x b/x\n@@ -1 +1 @@\ntwo\nthree\nno end"):
        blob = git.text("hash-object", "-w", "--stdin", data=content.encode())
        entries = "".join(f"100644 blob {blob}\t{name}\0" for name in ("f.py", "g.py"))
        trees.append(git.text("mktree", "-z", data=entries.encode()))
    assert changed_lines(diff_between(git, *trees)) == {"f.py": 6, "g.py": 6}


def test_a_test_is_known_by_its_promise() -> None:
    """The docstring's first line; the name where there is none; tests of classes too; helpers never."""
    source = b'''
class TestA:
    def test_in_class(self):
        """keeps it

        More words.
        """
def test_plain_name(): ...
async def test_later(): "waits"
def helper(): "no test"
'''
    assert behaviors(source) == {
        "TestA::test_in_class": "keeps it",
        "test_plain_name": "plain name",
        "test_later": "waits",
    }
    assert behaviors(b"def broken(") == {}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        pytest.param('title = "Greeting"\n', "", "'title' is missing", id="missing"),
        pytest.param("minutes = 5", 'minutes = "5"', "'minutes' must be a int", id="type"),
        pytest.param("minutes = 5", "minuets = 5\nminutes = 5", "'minuets' is not known", id="unknown"),
        pytest.param('id = "greet"', 'id = "hello"', "the folder says 'greet'", id="id"),
        pytest.param('id = "period"', 'id = "name"', "two tasks are called 'name'", id="twice"),
        pytest.param(
            "test_ends_with_a_period", "test_greets_by_name", "two tests are called", id="test twice"
        ),
        pytest.param("::test_ends_with_a_period", "", "is not a test", id="a file"),
        pytest.param('find = "{name}"', 'find = ""', "'find' is empty", id="empty"),
        pytest.param("goal = ", "goal == ", "is not TOML", id="toml"),
        pytest.param('goal = "The program greets."', 'goal = " "', "'goal' is empty", id="blank"),
    ],
)
def test_a_mistake_in_meta_is_one_sentence(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    """It names the file and the key."""
    assert old in little.META_00
    little.write(tmp_path, {"00-greet/meta.toml": little.META_00.replace(old, new, 1)})
    with pytest.raises(CourseError, match=rf"00-greet/meta.toml.*{sentence}"):
        read_lesson(tmp_path / "00-greet")


def test_lessons_are_numbered_without_a_gap(clone: Path) -> None:
    """A missing number, and an id that is used twice, are errors; a lesson is found by number, tag or id."""
    course = course_of(clone)
    assert [course.numbered(each).number for each in ("1", "01", "article-01", "count")] == [1, 1, 1, 1]
    (clone / "lessons" / "01-count").rename(clone / "lessons" / "03-count")
    with pytest.raises(CourseError, match="01 is missing"):
        course_of(clone)


def test_a_test_that_is_not_there_is_named(clone: Path, tmp_path: Path) -> None:
    """A task may only name tests that its tag has."""
    meta = clone / "lessons" / "01-count" / "meta.toml"
    meta.write_text(meta.read_text("utf-8").replace("counts_words", "counts_letters"), "utf-8")
    with pytest.raises(
        CourseError, match=r"article-01 has no test tests/test_counting.py::test_counts_letters"
    ):
        build(course_of(clone), tmp_path / "repo")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        pytest.param(lambda parts: parts.append(("fix", {})), "is no part of a lesson", id="subject"),
        pytest.param(lambda parts: parts.append(parts[0]), "after a later part", id="order"),
        pytest.param(lambda parts: parts.append(("02 given: it", {})), "is the product", id="product"),
        pytest.param(
            lambda parts: parts.append(("07 given: it", {})), "There is no lesson '07'", id="folder"
        ),
        pytest.param(
            lambda parts: parts.append(("01 solution: again\n\n---\n", {})), "after a later part", id="twice"
        ),
        pytest.param(
            lambda parts: parts.__setitem__(4, ("01 solution: it\n\n---\n", {})), "line '---'", id="separator"
        ),
    ],
)
def test_a_history_that_is_no_course_changes_nothing(
    clone: Path,
    tmp_path: Path,
    change: Callable[[list[tuple[str, dict[str, str | None]]]], None],
    sentence: str,
) -> None:
    """`import` says which commit is wrong, and no patch is touched."""
    parts = list(little.PARTS)
    change(parts)
    before = {path: path.read_bytes() for path in (clone / "lessons").rglob("*") if path.is_file()}
    with pytest.raises(CourseError, match=sentence):
        import_history(course_of(clone), clone, little.author_history(tmp_path / "history", parts))
    assert {path: path.read_bytes() for path in (clone / "lessons").rglob("*") if path.is_file()} == before


def test_an_edition_changes_with_any_text(clone: Path) -> None:
    """A word in a hint makes another edition; the machinery's own modules do not."""
    before = course_of(clone).edition()
    little.write(clone, {"lessons/quiz.py": "# another\n"})
    assert course_of(clone).edition() == before
    little.write(clone, {"lessons/00-greet/hints.md": "## name\n"})
    assert course_of(clone).edition() != before
