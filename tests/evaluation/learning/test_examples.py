"""Which rows the learned detector is trained on, and what it should say of them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.learned.features import NAMES, Features
from trainwreck.evaluation.learning.examples import ALARM, LEFT_OUT, QUIET, SETTLE, THINNED, examples, target
from trainwreck.evaluation.replay.profiles import PROFILES, observe
from trainwreck.evaluation.replay.replay import rows

STEPS = np.arange(100)


def said(**facts: Any) -> str:
    """The target of every step of a run, one letter each: quiet, left out, alarm."""
    run = pd.Series({"onset_step": 20, "cure_step": None, "visible_profiles": '{"full": 30}'} | facts)
    return "".join({QUIET: "q", LEFT_OUT: "-", ALARM: "a"}[int(one)] for one in target(run, "full", STEPS))


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({"kind": "healthy", "onset_step": None}, "q" * 100),
        ({"kind": "look-alike"}, "q" * 100),
        ({"kind": "latent"}, "-" * 100),
        ({"kind": "not shown"}, "-" * 100),
        ({"kind": "failing"}, "q" * 20 + "-" * 10 + "a" * 70),
        ({"kind": "compound"}, "q" * 20 + "-" * 10 + "a" * 70),
        ({"kind": "failing", "visible_profiles": '{"standard": 30}'}, "q" * 20 + "-" * 80),
        ({"kind": "cured", "cure_step": 25}, "q" * 20 + "-" * (5 + SETTLE) + "q" * (75 - SETTLE)),
        ({"kind": "cured", "cure_step": 20, "onset_step": 0}, "-" * (20 + SETTLE) + "q" * (80 - SETTLE)),
    ],
)
def test_targets(facts: dict[str, Any], wanted: str) -> None:
    assert said(**facts) == wanted


def test_rows_are_what_the_detector_reads_off(data_set: DataSet) -> None:
    runs = data_set.runs.loc[["healthy-0", "high_lr-1"]]
    ticks: list[tuple[int, int]] = []
    found = examples(data_set, runs, lambda done, total, note: ticks.append((done, total)))
    assert ticks == [(1, 2), (2, 2)]
    names = list(PROFILES)
    for i, run_id in enumerate(runs.index):
        for j, name in enumerate(names):
            features = Features()
            wanted = [features.see(row) for row in observe(rows(data_set.trace(run_id)), name)]
            here = (found.run == i) & (found.profile == j)
            kept = [k for k in range(len(wanted)) if name != "full" or (k + i) % THINNED == 0]
            np.testing.assert_array_equal(found.values[here], np.array(wanted, np.float32)[kept])
    assert found.values.shape == (len(found), len(NAMES))
    assert set(found.target[found.run == 0]) == {QUIET}
    assert found.step[(found.run == 1) & (found.profile == names.index("standard"))].tolist() == list(range(0, 120, 10))
