"""The cause head: what it names, and when it says that it does not know."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.detectors.learned.features import NAMES
from trainwreck.evaluation.learning.causes import fit_head
from trainwreck.evaluation.learning.examples import ALARM, QUIET, Examples

CAUSES = [f"cause_{i}" for i in range(12)]
SEEDS, ROWS = 6, 8
OWN = np.arange(len(NAMES)) % len(CAUSES)  # which cause moves a feature


def synthetic(spread: float) -> Examples:
    """Runs of 12 causes on 6 seeds; each cause moves features of its own by 3, under noise of `spread` a run."""
    random = np.random.default_rng(0)
    runs = pd.DataFrame(
        [{"cause": cause, "seed": seed, "kind": "failing"} for cause in CAUSES for seed in range(SEEDS)]
    )
    run = np.repeat(np.arange(len(runs)), ROWS)
    values = np.repeat(spread * random.standard_normal((len(runs), len(NAMES))), ROWS, axis=0)
    values += 0.1 * random.standard_normal(values.shape)
    values += 3.0 * ((run // SEEDS)[:, None] == OWN)
    target = np.where(np.arange(len(run)) % ROWS < 2, QUIET, ALARM).astype(np.int8)
    steps = np.tile(np.arange(ROWS), len(runs))
    return Examples(runs, values.astype(np.float32), run, np.zeros(len(run), int), steps, target)


def fitted(found: Examples) -> Any:
    alarmed = found.target == ALARM
    return fit_head(found, alarmed, (found.runs["seed"] % 3).to_numpy())


@pytest.fixture(scope="module")
def clear() -> Any:
    return fitted(synthetic(0.1))


def row(**moved: float) -> np.ndarray:
    values = np.zeros(len(NAMES))
    for cause, by in moved.items():
        values[CAUSES.index(cause) == OWN] = by
    return values


def named(head: Any, **moved: float) -> str:
    """The likeliest cause, be it likely enough or not."""
    return next(cause for cause in head.ranked(row(**moved)) if cause != "unknown")


def test_each_cause_is_named_by_its_picture(clear: Any) -> None:
    head, right = clear
    assert head.causes == tuple(sorted(CAUSES))
    assert [named(head, **{cause: 3.0}) for cause in CAUSES] == CAUSES
    assert right > 0.8


def test_a_picture_of_no_cause_is_unknown(clear: Any) -> None:
    head, _ = clear
    assert head.ranked(row())[0] == "unknown"
    assert len(head.ranked(row())) == 4


def test_what_can_not_be_told_apart_is_not_said_to_be() -> None:
    _, right = fitted(synthetic(30.0))
    assert right < 0.4


def test_no_alarm_in_a_failure_leaves_nothing_to_judge() -> None:
    found = synthetic(0.1)
    head, right = fit_head(found, np.zeros(len(found), bool), (found.runs["seed"] % 3).to_numpy())
    assert right == 0.0
    assert named(head, cause_1=3.0) == "cause_1"
