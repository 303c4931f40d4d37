"""Write the parts of README.md that are made from the code: `python docs/readme.py`, or `--check` to compare.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`. So the README cannot disagree with the
program: a test runs the check.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
PROJECT = DOCS.parent
README = PROJECT / "README.md"
sys.path.insert(0, str(PROJECT))

_PART = re.compile(r"(<!-- generated: (?P<name>.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(headers: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def settings() -> str:
    """Every setting, from the table that parses them."""
    from config import VARIABLES

    rows = [
        [
            f"`{each.name}`" + (f"<br>`{each.option}`" if each.option else ""),
            each.help,
            each.allowed,
            "its text is in `config.py`" if len(each.default_text) > 60 else each.default_text or "unset",
        ]
        for each in VARIABLES
    ]
    return table(["variable, option", "what it is", "allowed", "default"], rows)


def commands() -> str:
    """Every slash command, from its docstring."""
    from terminal.commands import GROUPS, all_commands

    known = sorted(all_commands().values(), key=lambda each: each.name)
    rows = [[f"`{each.usage}`", each.help[0]] for group in GROUPS for each in known if each.group == group]
    return table(["command", "what it does"], rows)


def troubles() -> str:
    """Every sentence about a failed request, with what to do, from the table that raises them."""
    from failures import TROUBLES

    rows = [[blanks(each.sentence), blanks(each.hint)] for each in TROUBLES.values()]
    return table(["What it says", "What to do"], rows)


def blanks(text: str) -> str:
    """Show the places of a sentence that are filled in, and leave out those that may stay empty."""
    return re.sub(r"\{\w+\}", "…", re.sub(r" \(\{status\}\)|\{at\}", "", text))


def files() -> str:
    """Every module with the first sentence of its docstring."""
    rows = []
    for path in sorted([*PROJECT.glob("*.py"), *PROJECT.glob("*/__init__.py")]):
        if path.parent.name in {"tests", "benchmarks", "docs", "lessons"}:
            continue
        name = path.name if path.parent == PROJECT else f"{path.parent.name}/"
        rows.append([f"`{name}`", first_sentence(path)])
    return table(["file", "the one thing it knows"], rows)


def first_sentence(path: Path) -> str:
    """Return the first line of a module's docstring."""
    found = re.match(r'\s*"""(.+?)(?:"""|\n\s*\n)', path.read_text(encoding="utf-8"), re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def part(name: str) -> str:
    """Return the text of a generated part."""
    kind, _, argument = name.partition(" ")
    if kind == "file":
        return f"```python\n{(PROJECT / argument).read_text(encoding='utf-8').rstrip()}\n```\n"
    if kind == "screen":
        return (
            f"```text\n{(DOCS / 'screens' / f'{argument}.txt').read_text(encoding='utf-8').rstrip()}\n```\n"
        )
    if kind == "include":
        return (PROJECT / argument).read_text(encoding="utf-8").strip() + "\n"
    return {"settings": settings, "commands": commands, "troubles": troubles, "files": files}[name]()


def written(text: str) -> str:
    """Return the README with every generated part made anew."""
    return _PART.sub(lambda found: f"{found[1]}{part(found['name'])}{found[3]}", text)


def stale(text: str) -> Iterator[str]:
    """Yield the names of the parts that do not agree with the code."""
    for old, new in zip(_PART.finditer(text), _PART.finditer(written(text)), strict=True):
        if old[0] != new[0]:
            yield old["name"]


def main(arguments: list[str]) -> int:
    """Write the README, or with `--check` name what is stale and return 1."""
    text = README.read_text(encoding="utf-8")
    if "--check" not in arguments:
        README.write_text(written(text), encoding="utf-8")
        return 0
    names = list(stale(text))
    for name in names:
        print(f"README.md: {name} is not what the code says; run python docs/readme.py")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
