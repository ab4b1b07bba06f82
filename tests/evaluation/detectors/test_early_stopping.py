"""Lightning's and Transformers' callbacks as their trainers ask them, against the rule written out."""

import math
from typing import Any

import pytest

from trainwreck.evaluation.detectors.frameworks.hf_early_stopping import HfEarlyStopping
from trainwreck.evaluation.detectors.frameworks.lightning_early_stopping import LightningEarlyStopping

pytestmark = pytest.mark.monitors

LOSSES = [3.0, 2.0, 2.0, 2.5, 1.9, 2.0, 2.1, 1.95, 2.2, math.nan, 1.0, math.inf, 1.1, 1.2, 1.3]


def alarms(detector: Any, losses: list[float]) -> list[int]:
    detector.reset(None)
    fired = []
    for i, loss in enumerate(losses):
        fired.append(detector.update({"step": 2 * i, "validation_loss": loss}).alarm)
        assert not detector.update({"step": 2 * i + 1, "validation_loss": None}).alarm
    return [i for i, alarm in enumerate(fired) if alarm]


def test_lightning_by_hand() -> None:
    # Bests at 3, 2, 1.9; then 2, 2.1, 1.95 are three without one, 2.2 a fourth; NaN; a best of 1; infinity; three more.
    assert alarms(LightningEarlyStopping(), LOSSES) == [7, 8, 9, 11, 14]


def test_lightning_counts_and_its_other_thresholds() -> None:
    detector = LightningEarlyStopping()
    detector.reset(None)
    found = [detector.update({"validation_loss": x}).score for x in (3.0, 3.0, 2.0, 2.0, 2.0, math.nan)]
    assert found == [0.0, 1.0, 0.0, 1.0, 2.0, 1e300]
    assert alarms(LightningEarlyStopping(divergence_threshold=5.0), [3.0, 6.0, 2.0]) == [1]
    assert alarms(LightningEarlyStopping(stopping_threshold=1.5), [3.0, 2.0, 1.4]) == [2]
    assert alarms(LightningEarlyStopping(min_delta=0.5), [3.0, 2.6, 2.6, 2.6, 2.4]) == [3]


def test_transformers_by_hand() -> None:
    # The first is no alarm whatever it is. NaN and infinity are no new best; the NaN spoils no later comparison.
    assert alarms(HfEarlyStopping(), LOSSES) == [2, 3, 5, 6, 7, 8, 9, 11, 12, 13, 14]
    assert alarms(HfEarlyStopping(), [math.nan, 3.0, 2.0]) == []
    assert alarms(HfEarlyStopping(patience=3), [3.0, 3.1, 3.1, 2.9, 3.0, 3.0, 3.0]) == [6]
    assert alarms(HfEarlyStopping(threshold=0.5), [3.0, 2.6, 2.0]) == [1]


def test_the_best_loss_is_kept_as_the_trainer_keeps_it() -> None:
    """The library's own method on the same losses, if it is where it was."""
    from types import SimpleNamespace

    from transformers.trainer import Trainer

    detector = HfEarlyStopping()
    detector.reset(None)
    theirs = SimpleNamespace(
        args=SimpleNamespace(metric_for_best_model="loss", greater_is_better=False, save_strategy="no"),
        state=SimpleNamespace(best_metric=None, global_step=0),
    )
    for loss in LOSSES:
        detector.update({"validation_loss": loss})
        Trainer._determine_best_metric(theirs, {"eval_loss": loss}, None)  # type: ignore[arg-type]
        assert detector.state.best_metric == theirs.state.best_metric
