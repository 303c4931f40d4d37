"""The contract of the context under any sequence of calls, and a proof that the rare paths were taken.

`MACHINE_RUNS` sets the number of runs, each with a seed of its own and a quarter of the conversations: 200 of
them are the acceptance of the engine.
"""

from __future__ import annotations

import os

import pytest
from context_machine import FIRED, ContextMachine, KeptMachine
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

pytestmark = pytest.mark.timeout(0 if os.environ.get("MACHINE_RUNS") else 300)

RUNS = int(os.environ.get("MACHINE_RUNS", "1"))
MUST_HAPPEN = (
    "compaction",
    "step cut",
    "shortened result",
    "overflow",
    "undo",
    "undo across a compaction",
    "undo of an open turn",
    "slide",
    "summary",
    "summary refused",
    "summary resting",
    "brief ahead",
    "pin",
    "pin refused",
    "evidence",
    "usage",
    "refusal",
)


KEPT_MUST_HAPPEN = (
    "compaction",
    "fact",
    "restart",
    "restart in an open turn",
    "summary",
    "undo across a compaction",
)


@pytest.mark.parametrize(
    ("machine", "examples", "must_happen"),
    [
        pytest.param(ContextMachine, 100, MUST_HAPPEN, id="in memory"),
        pytest.param(KeptMachine, 40, KEPT_MUST_HAPPEN, id="on disk, with facts"),
    ],
)
def test_the_contract_holds_and_every_rule_fires(
    machine: type[ContextMachine], examples: int, must_happen: tuple[str, ...]
) -> None:
    """Runs go on until everything that must happen has happened, at most ten more times than asked for."""
    FIRED.clear()
    for run in range(RUNS + 10):
        if run >= RUNS and all(FIRED[name] for name in must_happen):
            break
        chosen = settings(
            max_examples=examples if RUNS == 1 else examples // 4,
            stateful_step_count=40,
            deadline=None,
            derandomize=RUNS == 1 and run == 0,
            database=None,
            phases=(Phase.generate, Phase.shrink),  # explaining a failure takes minutes here
            suppress_health_check=list(HealthCheck),
        )
        run_state_machine_as_test(machine, settings=chosen)
    assert not [name for name in must_happen if not FIRED[name]], dict(FIRED)
