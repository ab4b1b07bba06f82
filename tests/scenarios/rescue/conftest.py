"""A game of two runs of the shipped sample, with three choices at each of two decision points."""

import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.scenarios.rescue.game import branches
from trainwreck.scenarios.rescue.outcomes import cases

BLOCK = 20
SCENARIO = "gradients_not_cleared"
CHOICES = ("stop", "roll_back_and_skip=50", "restore=updates")


@pytest.fixture(scope="session")
def shipped():
    return load("sample")


@pytest.fixture(scope="session")
def game(shipped):
    """Courses of a run whose gradients are not cleared, and of its healthy twin."""
    every = cases(shipped, ["test"], "common", BLOCK)
    found = {case.kind: case for case in every if case.spec.scenario == SCENARIO and case.spec.seed == 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(branches, "SHARES", (0.4, 0.7))
        return branches.courses([found["failing"], found["healthy"]], "common", BLOCK, choices=CHOICES)
