"""The seeded faults of `make mutants` fit the code: each piece that they replace stands there once."""

from __future__ import annotations

import pytest
from mutants import MUTANTS, PROJECT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_seeded_fault_has_its_place(mutant: Mutant) -> None:
    assert (PROJECT / mutant.file).read_text(encoding="utf-8").count(mutant.right) == 1
    assert mutant.wrong != mutant.right
