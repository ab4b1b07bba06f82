"""A detector and a small data set whose every number can be worked by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.base import Detector, Row, Verdict


class AtLoss(Detector):
    """The loss is the score; names a cause above 10. Losses in these tests are step patterns."""

    name = "at_loss"
    default_threshold = 3.0

    def update(self, row: Row) -> Verdict:
        return Verdict(row["loss"], row["loss"] > 3.0, ("high_lr",) if row["loss"] > 10.0 else ())


@pytest.fixture
def at_loss() -> type[Detector]:
    """The loss is its score, over 3 it alarms, over 10 it names a cause."""
    return AtLoss


@pytest.fixture(scope="session")
def levels() -> Callable[..., list[float]]:
    """levels((start, level), ...): a loss of 1 for 100 steps, but from each step on at the level given."""

    def losses(*levels: tuple[int, float]) -> list[float]:
        values = [1.0] * 100
        for start, level in levels:
            values[start:] = [level] * (100 - start)
        return values

    return losses


@pytest.fixture(scope="session")
def fault() -> dict[str, Any]:
    """What the labels of a failing run have in common."""
    return {"kind": "failing", "cause": "high_lr", "family": "optimisation", "scenario": "high_lr"}


@pytest.fixture(scope="session")
def by_hand(
    tmp_path_factory: pytest.TempPathFactory,
    make_run: Any,
    make_trace: Any,
    write_data_set: Any,
    levels: Any,
    fault: dict[str, Any],
) -> DataSet:
    """Twenty calibration runs with peaks 1.0 (18 times), 2.0 and 4.0; four failing and four other test runs."""
    cases: list[tuple[str, list[float], dict[str, Any]]] = [
        (f"c{i}", levels(), {"split": "calibration", "seed": 50 + i}) for i in range(18)
    ]
    cases += [
        ("c18", levels((40, 2.0)), {"split": "calibration", "seed": 68}),
        ("c19", levels((90, 4.0)), {"split": "calibration", "seed": 69}),
        # s = 20, v = 40, p = 80
        ("f0", levels((50, 20.0)), fault | {"onset_step": 20, "visible_step": 40, "no_return_step": 80}),
        ("f1", levels((30, 3.5)), fault | {"onset_step": 20, "visible_step": 40, "no_return_step": 80}),
        ("f2", levels((10, 5.0)), fault | {"onset_step": 20, "visible_step": 40, "no_return_step": 80}),
        ("f3", levels((95, 5.0)), fault | {"cause": "no_warmup", "onset_step": 20, "visible_step": 40}),
        ("never", levels((50, 9.0)), fault | {"onset_step": 20}),
        ("h0", levels(), {}),
        ("h1", levels((60, 4.5)), {}),
        ("look", levels((70, 6.0), (75, 1.0), (96, 6.0)), {"kind": "look-alike", "scenario": "benign"}),
        ("latent", levels((50, 9.0)), fault | {"kind": "latent", "onset_step": 20}),
        ("cured", levels(), fault | {"kind": "cured", "onset_step": 20, "cure_step": 30}),
    ]
    runs, traces = [], []
    for seed, (run_id, losses, label) in enumerate(cases):
        runs.append(make_run(run_id, last_step=99, **({"seed": seed} | label)))
        traces.append(make_trace(run_id, seed=seed, steps=100, loss=losses))
    return write_data_set(tmp_path_factory.mktemp("by_hand"), runs, traces)  # type: ignore[no-any-return]
