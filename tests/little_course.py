"""A course of three lessons, made anew for each test: the machinery is tested without the real lessons.

Lesson 00 greets, lesson 01 counts, and the third is the product of the little clone that it lies in.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import lessons
from lessons.editing import import_history
from lessons.git import clean_environment
from lessons.lesson import Course

MACHINERY = Path(lessons.__file__).parent

GREETING = 'def greet(name: str) -> str:\n    """Greet somebody."""\n    return f"Hello, {name}."\n'
MAIN = """import greeting

while True:
    try:
        name = input("you> ")
    except EOFError:
        break
    print(greeting.greet(name))
"""
COUNTING = MAIN.replace("import greeting\n", "import counting\nimport greeting\n").replace(
    "    print(greeting.greet(name))\n",
    '    print(greeting.greet(name))\n    print(f"names: {counting.count(name)}")\n',
)
TEST_GREETING = '''import greeting


def test_greets_by_name():
    """greets by name"""
    said = greeting.greet("Ada")
    assert "Ada" in said, f"called greet('Ada'); it came back as {said!r}.\\nexpected the name in it."


def test_ends_with_a_period():
    """ends with a period"""
    said = greeting.greet("Ada")
    assert said.endswith("."), f"called greet('Ada'); it came back as {said!r}.\\nexpected a period there."
'''
TEST_COUNTING = '''import pytest


@pytest.mark.parametrize("name, words", [("Ada", 1), ("Ada Lovelace", 2)])
def test_counts_words(name, words):
    """counts the words of a name"""
    import counting

    found = counting.count(name)
    assert found == words, f"called count({name!r}); it came back as {found}.\\nexpected {words}."
'''

PARTS: list[tuple[str, dict[str, str | None]]] = [
    (
        "00 given: a loop",
        {
            "main.py": MAIN,
            ".gitignore": "__pycache__/\n.venv\n.env\n*.log\n",
            "data/odd.txt": "trailing blank \n\ttab and no end of line, \r inside",
            "data/empty": "",
            "run.sh": "#!/bin/sh\n",
        },
    ),
    (
        "00 start: greet",
        {
            "greeting.py": GREETING.replace(
                '    return f"Hello, {name}."\n', "    raise NotImplementedError\n"
            ),
            "tests/test_greeting.py": TEST_GREETING,
        },
    ),
    ("00 solution: greet", {"greeting.py": GREETING}),
    (
        "01 start: count\n\nA body of the message.\n\nWith two paragraphs.",
        {
            "counting.py": "def count(name: str) -> int:\n    raise NotImplementedError\n",
            "tests/test_counting.py": TEST_COUNTING,
            "data/empty": None,
        },
    ),
    (
        "01 solution: count",
        {"counting.py": "def count(name: str) -> int:\n    return len(name.split())\n", "main.py": COUNTING},
    ),
]

META_00 = """id = "greet"
title = "Greeting"
minutes = 5
goal = "The program greets."
product_files = ["greeting.py"]
[[tasks]]
id = "name"
title = "Greet by name"
tests = ["tests/test_greeting.py::test_greets_by_name"]
[[tasks]]
id = "period"
title = "End with a period"
tests = ["tests/test_greeting.py::test_ends_with_a_period"]
[[wrong]]
test = "tests/test_greeting.py::test_greets_by_name"
file = "greeting.py"
find = "{name}"
replace = "you"
[[wrong]]
test = "tests/test_greeting.py::test_ends_with_a_period"
file = "greeting.py"
find = '.")'
replace = '")'
"""
META_00 = META_00.replace("""find = '.")'\nreplace = '")'""", """find = '}."'\nreplace = '}"'""")
META_01 = """id = "count"
title = "Counting"
minutes = 5
goal = "The program counts words."
product_files = ["counting.py", "main.py"]
[[tasks]]
id = "count"
title = "Count"
tests = ["tests/test_counting.py::test_counts_words"]
[[wrong]]
test = "tests/test_counting.py::test_counts_words"
file = "counting.py"
find = "len(name.split())"
replace = "1"
"""
META_02 = """id = "product"
title = "The product"
minutes = 5
goal = "The whole program."
product = true
[[tasks]]
id = "runs"
title = "It runs"
tests = ["tests/test_greeting.py::test_polite"]
[[superseded]]
test = "tests/test_greeting.py::test_ends_with_a_period"
reason = "The product shouts."
[[superseded]]
test = "tests/test_counting.py"
reason = "The product does not count."
[transcript]
prompt = "> "
"""
README = """# Greeting

## Goal

## Why

## Walk-through

```python title=greeting.py
return f"Hello, {name}."
```

## Run it

```sh
python -c "import greeting"
./course check
```

```console
$ printf 'Ada\\n' | python main.py
you> Hello, Ada.
...
```

## Break it

## What you see

```text title=transcript.txt
you> Ada
Hello, Ada.
```

## Recap
"""
CHECKED = """
```console at=article-00-start
$ ./course check
article-00  Greeting                                    0 of 2
  FAIL  greets by name
        called greet(), not written yet.                  greeting.py:3  tests/test_greeting.py:6
  ...   ends with a period                               (waiting for the one above)
  hint: ./course hint    lesson: ./course read
```
"""
QUIZ = "".join(
    f"""[[questions]]
ask = "Question {number}?"
[[questions.choices]]
text = "Yes"
right = true
why = "It is so."
[[questions.choices]]
text = "No"
why = "It is not so."
"""
    for number in range(3)
)
PRODUCT = {
    "main.py": """import sys

import greeting

for line in sys.stdin:
    print(greeting.greet(line.strip()), flush=True)
""",
    ".gitignore": "__pycache__/\n.venv\n",
    "greeting.py": 'def greet(name: str) -> str:\n    """Greet somebody."""\n    return f"Hello, {name}!"\n',
    "tests/test_greeting.py": TEST_GREETING
    + "\n\ndef test_polite():\n    assert greeting.greet('Ada').startswith('H'), 'expected an H'\n",
    "run.sh": "#!/bin/sh\nexec python main.py\n",
    "benchmarks/bench.py": "print(1)\n",
}


def write(root: Path, files: dict[str, str | None]) -> None:
    """Write files, or remove those that are None; `*.sh` can be run."""
    for name, content in files.items():
        path = root / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
        if name.endswith(".sh"):
            path.chmod(0o755)


def git(root: Path, *arguments: str) -> str:
    """Run git in a folder, as somebody with no configuration would."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=root,
        env=clean_environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(root: Path, message: str) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "-m", message)


def author_history(root: Path, parts: list[tuple[str, dict[str, str | None]]] = PARTS) -> Path:
    """A history with a commit for each part, as an author would make it."""
    root.mkdir(parents=True)
    git(root, "init", "--quiet")
    for message, files in parts:
        write(root, files)
        commit(root, message)
    return root


def hints(*tasks: str) -> str:
    return "".join(
        f"## {task}\n### 1\nOne.\n### 2\nTwo.\n### 3\n```python\n## no heading\n```\n" for task in tasks
    )


def make_clone(root: Path) -> Path:
    """A clone with the machinery, three lessons and a product."""
    clone = root / "clone"
    folder = clone / "lessons"
    folder.mkdir(parents=True)
    for path in MACHINERY.glob("*.py"):
        shutil.copy(path, folder)
    lesson_files = {
        "00-greet": {
            "meta.toml": META_00,
            "README.md": README,
            "hints.md": hints("name", "period"),
            "transcript.txt": "$ python main.py\nyou> Ada\nHello, Ada.\nyou> Bob\nHello, Bob.\nyou>\n",
        },
        "01-count": {
            "meta.toml": META_01,
            "README.md": README.replace("...\n```", "names: 1\n...\n```").replace(
                "Hello, Ada.\n```\n\n## Recap", "Hello, Ada.\nnames: 1\n```\n\n## Recap"
            ),
            "hints.md": hints("count"),
            "transcript.txt": "$ python main.py\nyou> Ada\nHello, Ada.\nnames: 1\nyou>\n",
        },
        "02-product": {
            "meta.toml": META_02,
            "README.md": README.replace('"Hello, {name}."', '"Hello, {name}!"')
            .replace("you> Hello, Ada.", "Hello, Ada!")
            .replace("you> Ada\nHello, Ada.", "> Ada\nHello, Ada!"),
            "hints.md": "",
            "transcript.txt": "$ python main.py\n> Ada\nHello, Ada!\n> Bob\nHello, Bob!\n",
        },
    }
    for name, files in lesson_files.items():
        write(folder / name, {**files, "quiz.toml": QUIZ})
    write(clone, dict(PRODUCT))
    git(clone, "init", "--quiet")
    commit(clone, "the product")
    import_history(Course(folder), clone, author_history(root / "history"))
    commit(clone, "the course")
    return clone


def run(
    where: Path, *command: str, data: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command as a learner would, and return what it said."""
    return subprocess.run(
        command,
        cwd=where,
        input=data,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | (env or {}),
    )
