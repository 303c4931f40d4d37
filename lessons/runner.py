"""Run tests in a lesson's tree and say what came of each: the one module that runs in the lessons' Python.

    python lessons/runner.py < jobs.json > results.json

A job is a tree, its tests, and files to put into the tree while it runs. Each runs in a process of its own,
forked after pytest is loaded, so that a hundred wrong solutions cost little more than one. It is started as a
script, not with `-m`: the clone's modules must not be found where the learner's are missing.
"""

from __future__ import annotations

import importlib.util
import json
import linecache
import os
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

SECONDS = 20
"""How long one test may take; a learner's loop without an end is a failure and not a wait."""
_LONGEST = 3
"""Lines that are shown of a failure's message."""

Result = dict[str, Any]
"""Of a test: outcome (passed, failed, missing), kind, text (what happened), test and code (places)."""


class Recorder:
    """A pytest plugin that notes the outcome of each test, by its name without parameters.

    Args:
        root: the tree; places are told from there.
        wanted: the tests to run.
    """

    def __init__(self, root: Path, wanted: list[str]) -> None:
        self.root = root
        self.wanted = set(wanted)
        self.collected = False
        self.results: dict[str, Result] = {}
        self.files: dict[str, Result] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep what was asked for."""
        self.collected = True
        items[:] = [item for item in items if item.nodeid.partition("[")[0] in self.wanted]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test passed when all its cases, with their set-up and tear-down, did."""
        name = report.nodeid.partition("[")[0]
        result = self.results.setdefault(name, {"outcome": "passed", "kind": ""})
        if report.outcome == "skipped" and result["outcome"] == "passed":
            result |= {
                "outcome": "failed",
                "kind": "Skipped",
                "text": "it was skipped; it is expected to run.",
            }

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        """Something failed: a test, or the import of its file."""
        error = call.excinfo.value
        if hasattr(node, "function"):
            name = node.nodeid.partition("[")[0]
            if self.results.get(name, {}).get("outcome") != "failed":
                self.results[name] = {"outcome": "failed", **self.explain(error, node.nodeid)}
        else:
            cause = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            self.files[node.nodeid] = {"outcome": "failed", **self.explain(cause, node.nodeid)}

    def explain(self, error: BaseException, node: str) -> Result:
        """What happened and what was expected, in a few lines, and where."""
        frames = self.frames(error.__traceback__)
        tests = [frame for frame in frames if frame[0].startswith("tests/")]
        tests = [
            frame for frame in tests if frame[0] == node.partition("::")[0]
        ] or tests  # not a helper's line
        code = [frame for frame in frames if not frame[0].startswith("tests/")]
        line = linecache.getline(str(self.root / tests[-1][0]), tests[-1][1]).strip() if tests else ""
        said = _said(error, line or "it", code[-1][2] if code else "")
        notes = [note for each in getattr(error, "__notes__", []) for note in str(each).splitlines()]
        place = _place(code[-1]) if code else ""
        if isinstance(error, SyntaxError):
            place = f"{self.short(error.filename or '')}:{error.lineno}"
        return {
            "kind": _kind(error),
            "text": "\n".join((*said.splitlines()[: 2 * _LONGEST], *notes[:_LONGEST])),
            "test": _place(tests[-1]) if tests else node.partition("::")[0],
            "code": place,
        }

    def frames(self, traceback: types.TracebackType | None) -> list[tuple[str, int, str]]:
        """The frames of a traceback that lie in the tree: file, line, function."""
        found = []
        while traceback is not None:
            code = traceback.tb_frame.f_code
            name = self.short(code.co_filename)
            if not Path(name).is_absolute() and "site-packages" not in name:
                found.append((name, traceback.tb_lineno, code.co_qualname))
            traceback = traceback.tb_next
        return found

    def short(self, path: str) -> str:
        """A path as seen from the tree; unchanged when it lies elsewhere."""
        try:
            return (self.root / path).relative_to(self.root).as_posix()
        except ValueError:
            return path


def _place(frame: tuple[str, int, str]) -> str:
    return f"{frame[0]}:{frame[1]}"


def _said(error: BaseException, line: str, function: str) -> str:
    """What went wrong: `line` of the test called something, `function` is where that ended."""
    said = str(error).strip()
    match error:
        case NotImplementedError():
            called = f"{function}()" if function else line
            return f"called {called}, not written yet{': ' if said else ''}{said}."
        case AssertionError():
            # pytest puts its own account after the message, from "assert" on.
            message, _, checked = f"\n{said}".partition("\nassert ")
            if message.strip():
                return "\n".join(part.strip() for part in message.strip().splitlines())
            parts = [part.strip().removeprefix("+").strip() for part in checked.splitlines()[:_LONGEST]]
            return f"checked `{line}`\ncame back as {'; '.join(parts)}; expected it to hold."
        case ModuleNotFoundError():
            return f"the tests ask for the module {error.name}, which is not there."
        case ImportError() if error.name:
            return f"the tests ask for a name that {error.name}.py does not have ({said})."
        case SyntaxError():
            return f"this is not Python yet: {error.msg}."
    if said.startswith("Timeout"):
        return f"it did not come back; expected an answer within {SECONDS} seconds."
    if _kind(error) == "Failed":  # pytest.fail, and pytest.raises that saw nothing
        return said.replace("DID NOT RAISE ", "expected an exception, and none came: ", 1)
    return f"called {line}\nwhich raised {type(error).__name__}: {said}"


def _kind(error: BaseException) -> str:
    """The class of an exception, by the first name in its ancestry that the proofs know."""
    names = [each.__name__ for each in type(error).__mro__]
    known = ("AssertionError", "NotImplementedError", "ImportError", "SyntaxError", "Failed")
    return next((name for name in names if name in known), names[0])


class NetworkBlocked(BaseException):
    """A test reached for the network. No `Exception`: a program must not take it for a failed connection."""


def _guard(event: str, arguments: tuple[Any, ...]) -> None:
    """Let nothing out: a test of a lesson talks to this machine alone."""
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = str(arguments[1][0])
    elif event == "socket.getaddrinfo":
        host = str(arguments[0])
    else:
        return
    if host not in ("", "None", "localhost", "::1") and not host.startswith("127."):
        raise NetworkBlocked(f"a test reached for {host}; expected it to stay on this machine")


def run(root: Path, tests: list[str]) -> dict[str, Result]:
    """Run tests in a tree, in this process, and return what came of each."""
    import pytest

    root = root.resolve()
    os.chdir(root)
    sys.path.insert(0, str(root))
    recorder = Recorder(root, tests)
    settings = root / "pyproject.toml"
    options = ["-o", "addopts=", "-p", "no:cacheprovider", "--rootdir=.", "--continue-on-collection-errors"]
    options += ["-c", str(settings) if settings.exists() else os.devnull]
    if importlib.util.find_spec("pytest_timeout"):
        options += ["-p", "pytest_timeout", f"--timeout={SECONDS}", "--timeout-method=signal"]
    # Whole files, of which the recorder keeps what is asked for: one name that is not there would end it all.
    files = sorted({test.partition("::")[0] for test in tests})
    if there := [name for name in files if (root / name).exists()]:
        pytest.main([*options, *there], [recorder])
    absent = {"outcome": "missing", "kind": "missing", "text": "this test is not in your files."}
    if there and not recorder.collected:
        absent = {"outcome": "failed", "kind": "died", "text": "the program ended while it was imported."}
    results = {}
    for test in tests:
        results[test] = recorder.results.get(test) or recorder.files.get(test.partition("::")[0]) or absent
    return results


def _child(job: dict[str, Any], out: Path) -> None:
    """Run one job in a forked process and write its results."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["MINI_AGENT_HOME"] = home
        sys.addaudithook(_guard)
        out.write_text(json.dumps(run(Path(job["tree"]), job["tests"])), "utf-8")


def _text(path: Path) -> str | None:
    """A file's content, None when there is none; surrogates stand for bytes that are no text."""
    return path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else None


def _put(tree: Path, files: dict[str, str | None]) -> None:
    """Write files of a tree, or remove those that are None."""
    for name, content in files.items():
        if content is None:
            (tree / name).unlink(missing_ok=True)
        else:
            (tree / name).write_bytes(content.encode("utf-8", "surrogateescape"))


def main() -> int:
    """Read jobs, run them one after another, print their results in order."""
    sys.dont_write_bytecode = True  # a file changed twice in a second would be taken for the first
    del sys.path[0]  # this folder: a lesson may have a module `state` too
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # no lesson needs those that happen to be installed
    jobs = json.load(sys.stdin)
    import pytest

    answers, printed = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(printed, 1)
    pytest.main(["--version"])  # loads what every fork needs
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        for number, job in enumerate(jobs):
            out, tree = Path(temporary) / f"{number}.json", Path(job["tree"])
            before = {name: _text(tree / name) for name in job["files"]}
            _put(tree, job["files"])
            try:
                if (child := os.fork()) == 0:
                    try:
                        _child(job, out)
                    finally:
                        os._exit(0)
                os.waitpid(child, 0)
            finally:
                _put(tree, before)
            results.append(json.loads(out.read_text("utf-8")) if out.exists() else None)
    with os.fdopen(answers, "w") as file:
        json.dump(results, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
