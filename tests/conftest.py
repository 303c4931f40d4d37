"""What holds for every test: no network, no settings and no files of the person who runs it.

`LIVE=1` opens the network and gives tests marked `live` the settings of the person. The others stay sealed.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import hypothesis
import pytest

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS.parent), str(TESTS)]  # the modules under test, and what tests share

import network_guard  # noqa: E402 (found by the line above)

network_guard.install()

LIVE = os.environ.get("LIVE") == "1"
OURS = ("OPENAI_", "CONTEXT_", "AGENT_", "MINI_AGENT_", "SYSTEM_PROMPT")
THEIRS = ("TIKTOKEN_CACHE_DIR", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES")

# Neither has a deadline: how long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("dev", max_examples=40, deadline=None)
hypothesis.settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,  # the same commit gives the same verdict
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],  # a busy machine is no defect
)
default_profile = "ci" if os.environ.get("CI") else "dev"
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or default_profile)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "live: talks to the endpoint that the person has set; needs LIVE=1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not LIVE:
        for item in items:
            if item.get_closest_marker("live"):
                item.add_marker(pytest.mark.skip(reason="costs money: runs with LIVE=1"))


@pytest.fixture(autouse=True)
def sealed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty home for the program, and an environment and a .env that say nothing."""
    if not request.node.get_closest_marker("live"):
        for name in list(os.environ):
            if name.startswith(OURS) or name in THEIRS or name.lower().endswith("_proxy"):
                monkeypatch.delenv(name)
        monkeypatch.setenv("MINI_AGENT_ENV_FILE", os.devnull)
    monkeypatch.setenv("MINI_AGENT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(TESTS / "children"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A little clone of a course, to be copied and not changed."""
    import little_course

    return little_course.make_clone(tmp_path_factory.mktemp("course"))


@pytest.fixture
def clone(template: Path, tmp_path: Path) -> Path:
    """A little clone of one's own, all committed."""
    shutil.copytree(template, tmp_path / "clone", symlinks=True)
    return tmp_path / "clone"
