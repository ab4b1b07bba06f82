"""Detectors that draw: each seed is a detector of its own, and the spread is that of their scores."""

from pathlib import Path

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.detectors.base import Detector, Row, Verdict
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.run import score, score_all
from trainwreck.evaluation.scoring.detector_seeds import Spread, spread


class AfterSeed(Detector):
    """Alarms from step 40 x seed on: the seed changes every score, and which way is known."""

    name = "after_seed"

    def __init__(self, seed: int = 7) -> None:
        self.first = 40 * seed

    def update(self, row: Row) -> Verdict:
        return Verdict(float(row["step"] >= self.first), row["step"] >= self.first)


class AfterTwo(AfterSeed):
    """As the class of the file below."""

    def __init__(self, seed: int = 7) -> None:
        self.first = 80 if seed == 0 else 200


@pytest.fixture(scope="module")
def data() -> DataSet:
    whole = load(sample())
    return DataSet(whole.path, whole.manifest, whole.runs[whole.runs["split"] == "test"])


def test_each_seed_scores_as_if_it_were_alone(data: DataSet) -> None:
    card = score_all(data, [AfterSeed], seeds=3)[0]
    alone = [score(AfterSeed(seed), data) for seed in range(3)]
    assert card.seeds["recall_default"] == [one.recall["default"].value for one in alone]
    assert card.seeds["skill"] == [one.headline_skill.value for one in alone]
    assert len(set(card.seeds["recall_default"])) > 1
    assert card.detector == "after_seed"
    assert card.recall["default"] == alone[0].recall["default"]
    assert "over 3 seeds of the detector: in-time recall at 5%" in card.text()
    assert not alone[0].seeds
    assert "seeds of the detector" not in alone[0].text()


def test_a_detector_in_a_process_of_its_own_gets_the_seed(data: DataSet, tmp_path: Path) -> None:
    file = tmp_path / "draws.py"
    file.write_text(
        "class Draws:\n"
        "    def __init__(self, seed=7):\n"
        "        self.first = 80 if seed == 0 else 200\n"
        "    def reset(self, context):\n"
        "        pass\n"
        "    def update(self, row):\n"
        "        return row['step'] >= self.first\n"
    )
    few = DataSet(data.path, data.manifest, data.runs[:20])
    isolated, here = (score_all(few, [one], seeds=2)[0] for one in (f"{file}:Draws", AfterTwo))
    np.testing.assert_equal(isolated.seeds, here.seeds)  # NaN equals NaN
    assert [stream.first_alarm for stream in isolated.alarms] == [80] * len(few)  # not 7 x 40, and not in this process


@pytest.mark.parametrize(
    ("detector", "message"),
    [
        ("zclip", r"detector zclip: its class takes no 'seed'; allowed: def __init__\(self, seed=...\)"),
        ("oracle_at_v", "detector-seeds: 'oracle_at_v' takes no seed"),
        (AfterSeed(1), "detector-seeds: after_seed is made already; allowed: classes and names"),
        ("cmd:cat", "detector cmd:cat: a command takes no 'seed'"),
    ],
)
def test_what_takes_no_seed_is_refused_before_any_work(data: DataSet, detector: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        score_all(data, [detector], seeds=2, progress=lambda *_: pytest.fail("it began"))  # type: ignore[list-item]


def test_the_failures_of_every_seed_are_told(data: DataSet) -> None:
    class BreaksAtOne(AfterSeed):
        def update(self, row: Row) -> Verdict:
            return Verdict(1 / (self.first - 40))

    card = score_all(data, [BreaksAtOne], seeds=2)[0]
    assert card.statuses == {"ok": len(data)}
    assert f"with seed 1 it failed on {len(data)} runs" in card.notes


def test_the_spread_of_one_seed_has_no_deviation() -> None:
    assert spread([0.5])[:1] + spread([0.5])[2:] == (0.5, 0.5, 0.5)
    assert spread([0.5]).sd != spread([0.5]).sd
    assert spread([1.0, 2.0, 3.0]) == Spread(2.0, 1.0, 1.0, 3.0)
