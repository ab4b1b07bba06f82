"""A detector that breaks: a miss, no budget kept, and nothing watched from there on."""

import math
from typing import Any

import pytest

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.base import Row, Verdict
from trainwreck.evaluation.leaderboard.run import score
from trainwreck.evaluation.scoring.breakdown import exposure


def test_a_crash_on_calibration_runs_keeps_no_budget(by_hand: DataSet, at_loss: Any) -> None:
    """It is calm where it breaks: the threshold must not come out low for that."""

    class Breaks(at_loss):
        def update(self, row: Row) -> Verdict:
            if row["step"] == 30 and row["loss"] == 1.0:
                raise RuntimeError
            return super().update(row)

    card = score(Breaks, by_hand)
    assert card.recall["0.05"].threshold.levels.tolist() == [math.inf]
    assert card.recall["0.05"].value == 0.0
    assert card.to_dict()["points"]["0.05"]["recall"]["threshold"] == [{"level": "inf", "chance": 1.0}]


def test_a_crash_on_a_failing_run_is_a_miss_at_every_threshold(by_hand: DataSet, at_loss: Any) -> None:
    class Breaks(at_loss):
        def update(self, row: Row) -> Verdict:
            if row["step"] == 99 and row["loss"] == 20.0:  # f0, long after its alarm
                raise RuntimeError
            return super().update(row)

    card = score(Breaks, by_hand)
    assert card.counts["crashed"] == 1
    found = [card.recall[point].value for point in ("default", "0.05", "0.01")]
    assert found == pytest.approx([0.5, 1.05 / 4, 0.21 / 4], abs=1e-12)  # f3, and f1 with the chances of `test_by_hand`
    assert card.detected("0.05").sum() == pytest.approx(1.05, abs=1e-12)


def test_steps_after_a_crash_were_watched_by_nobody(by_hand: DataSet, at_loss: Any) -> None:
    class Breaks(at_loss):
        def update(self, row: Row) -> Verdict:
            assert row["step"] < 10
            return super().update(row)

    card = score(at_loss, by_hand)
    watched = int((card.outcomes.negative | (card.outcomes.kind == "failing")).sum())
    broken = score(Breaks, by_hand)
    assert broken.false_alarm_rate.value == 0.0
    assert exposure(broken.outcomes).sum() == 10 * watched < exposure(card.outcomes).sum()


def test_a_crash_under_the_fault_is_a_miss_on_the_curves_too(by_hand: DataSet, at_loss: Any) -> None:
    class Breaks(at_loss):
        def update(self, row: Row) -> Verdict:
            assert row["step"] < 99
            return super().update(row)

    assert set(score(Breaks, by_hand).curves["alarm_delay"]["delay"].tolist()) == {1.0}
    assert score(at_loss, by_hand).curves["alarm_delay"]["delay"].min() < 1.0
