"""The contract of the context under any sequence of calls, and a proof that the rare paths were taken.

`MACHINE_RUNS` sets the number of runs, each with another seed: 200 of them are the acceptance of the engine.
"""

from __future__ import annotations

import os

from context_machine import FIRED, ContextMachine
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

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


def test_the_contract_holds_and_every_rule_fires() -> None:
    """Runs go on until everything that must happen has happened, at most ten more times than asked for."""
    for run in range(RUNS + 10):
        if run >= RUNS and all(FIRED[name] for name in MUST_HAPPEN):
            break
        machine = settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            derandomize=RUNS == 1 and run == 0,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        run_state_machine_as_test(ContextMachine, settings=machine)
    assert not [name for name in MUST_HAPPEN if not FIRED[name]], dict(FIRED)
