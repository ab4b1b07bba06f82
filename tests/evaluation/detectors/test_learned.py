"""The shipped weights and other ones, as a detector."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.detectors.learned.features import NAMES
from trainwreck.evaluation.detectors.learned.learned import CLEARLY, Learned, with_weights
from trainwreck.evaluation.detectors.learned.model import CauseHead, Model, write_model
from trainwreck.evaluation.detectors.learned.trees import Forest, Trees
from trainwreck.evaluation.detectors.registry import load_detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.replay import replay

STEPS, ONSET = 120, 60
KNOWN = sorted(Learned.causes)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """One split: the loss over its least by more than 0.5 nats of its logarithm; then the cause is corrupt_tokens."""
    rise = NAMES.index("loss: over its least")
    stump = (np.array([rise, 0, 0]), np.array([0.5, 0.0, 0.0]), np.array([1, 1, 2]), np.array([2, 1, 2]))
    feature, threshold, left, right = stump
    trees = Trees(np.array([0]), feature, threshold, left, right, np.ones(3, bool), np.array([0.0, -4.0, 4.0]), 0.0, 1)
    forest = Forest(
        np.array([0]), feature, threshold, left, right, np.array([0, 0, 1, 2]), np.array([1, 0]), np.ones(2), 2
    )
    write_model(tmp_path / "mine.npz", Model(trees, CauseHead(("corrupt_tokens", "high_lr"), forest, 0.5), 1.0, {}))
    return tmp_path / "mine.npz"


def jumped(make_trace: Any) -> Any:
    loss = 2.0 * np.where(np.arange(STEPS) >= ONSET, 2.5, 1.0)
    return make_trace("r", loss=loss)


def test_other_weights_decide_and_the_score_is_averaged(weights: Path, make_trace: Any) -> None:
    alarms = replay(with_weights(weights), jumped(make_trace))
    assert alarms.status == "ok"
    assert alarms.causes == ("corrupt_tokens", "high_lr")
    assert alarms.first_alarm is not None
    assert ONSET < alarms.first_alarm <= ONSET + 15
    assert (alarms.alarm == (alarms.scores > 1.0)).all()
    assert np.unique(alarms.scores).size > 10  # graded, where the trees know two values
    assert alarms.scores.min() == -4.0
    assert alarms.scores.max() == pytest.approx(4.0, abs=1e-3)


def test_weights_in_a_file_of_ones_own(weights: Path, monkeypatch: pytest.MonkeyPatch, make_trace: Any) -> None:
    monkeypatch.chdir(weights.parent)
    Path("mine.py").write_text(
        "from trainwreck.evaluation.detectors.learned.learned import with_weights\n\nMine = with_weights('mine.npz')\n"
    )
    alarms = replay(load_detector("mine.py:Mine"), jumped(make_trace))
    assert alarms.causes == ("corrupt_tokens", "high_lr")
    with pytest.raises(InputError, match="missing"):
        with_weights("other.npz")


def test_causes_are_looked_at_again_ever_more_rarely(
    weights: Path, make_trace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def ranked(self: CauseHead, row: np.ndarray) -> tuple[str, ...]:
        calls.append(1)
        return (KNOWN[len(calls) - 1],)

    monkeypatch.setattr(CauseHead, "ranked", ranked)
    alarms = replay(with_weights(weights), jumped(make_trace))
    rows, first = int(alarms.alarm.sum()), int(alarms.alarm.argmax())
    assert rows > 40
    named, below = -math.inf, 0
    for score in alarms.scores[:first].tolist():
        if score > named + CLEARLY:
            named, below = score, below + 1
    assert 0 < below <= (alarms.scores.max() - alarms.scores.min()) / CLEARLY + 1
    assert len(calls) == below + rows.bit_length()  # at clear rises, and at the 1st, 2nd, 4th, 8th ... row of the alarm
    assert alarms.causes == (KNOWN[below],)
    assert alarms.answers[0] == (int(alarms.steps[0]), (KNOWN[0],))


@pytest.mark.parametrize("profile", ["full", "common", "standard", "minimal", "filtered"])
def test_the_shipped_weights_leave_a_healthy_curve_alone_and_see_a_nan(profile: str, make_trace: Any) -> None:
    broken = make_trace("r", loss=np.where(np.arange(STEPS) < ONSET, make_trace("r")["loss"], np.nan))
    seen = replay(Learned, broken, profile)
    assert seen.status == "ok"
    assert seen.scores[-1] > seen.scores[seen.steps < ONSET].max()


def test_the_shipped_causes_are_what_it_may_name() -> None:
    assert Learned.causes == Learned.model.head.causes
    assert len(set(Learned.causes)) == len(Learned.causes) > 50
