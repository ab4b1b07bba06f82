"""Data sets that lack something, other splits, and what is not allowed."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.base import Detector, Row, Verdict
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.rescore import alarm_files, keep_alarms, rescore
from trainwreck.evaluation.leaderboard.run import leaderboard, score
from trainwreck.evaluation.leaderboard.stored_alarms import read_alarms
from trainwreck.evaluation.scoring.breakdown import exposure
from trainwreck.evaluation.scoring.metrics.skill import gains
from trainwreck.evaluation.scoring.reference import skill_runs
from trainwreck.evaluation.scoring.scorecard import Scorecard, plain


def test_a_run_ended_at_its_nan_saves_what_was_planned(
    tmp_path: Path, make_run: Any, make_trace: Any, write_data_set: Any, at_loss: Any, fault: dict[str, Any]
) -> None:
    # Both are caught at v = 50; one was ended at step 70 of 200, the other went on to step 199.
    label = fault | {"onset_step": 40, "visible_step": 50, "planned_steps": 200}
    cases = [("ended", 71), ("whole", 200)]
    runs = [make_run(name, last_step=n - 1, seed=i, **label) for i, (name, n) in enumerate(cases)]
    losses = [np.where(np.arange(n) >= 50, 9.0, 1.0) for _, n in cases]
    traces = [make_trace(n, seed=i, steps=s, loss=losses[i]) for i, (n, s) in enumerate(cases)]
    runs.append(make_run("healthy", last_step=199, seed=2))
    traces.append(make_trace("healthy", seed=2, steps=200, loss=np.ones(200)))
    one = score(at_loss, write_data_set(tmp_path / "set", runs, traces)).outcomes
    labels = skill_runs(one)
    np.testing.assert_array_equal(labels.last, [199, 199])
    np.testing.assert_array_equal(gains(one.first[one.failing], labels, "rollback"), [199 - 50 - 1.99] * 2)


def write_alarms_without(run_id: str, card: Scorecard, data: DataSet, folder: Path) -> None:
    keep_alarms(folder, data, [replace(card, alarms=tuple(one for one in card.alarms if one.run_id != run_id))])


def test_a_training_split_tunes_the_blind_and_names_unseen_causes(
    tmp_path: Path, make_run: Any, make_trace: Any, write_data_set: Any, fault: dict[str, Any], levels: Any
) -> None:
    class SaysUnknown(Detector):
        def update(self, row: Row) -> Verdict:
            return Verdict(row["loss"], row["loss"] > 3.0, ("unknown",))

    label = fault | {"onset_step": 20, "visible_step": 40, "no_return_step": 80}
    runs = [
        make_run("t0", last_step=99, split="train", **label), make_run("t1", last_step=99, split="train"),
        make_run("c", last_step=99, split="calibration"), make_run("h", last_step=99),
        make_run("f0", last_step=99, **label), make_run("f1", last_step=99, **(label | {"cause": "rope_wrong_offset"})),
    ]  # fmt: skip
    traces = [make_trace(run["run_id"], steps=100, loss=levels((50, 9.0))) for run in runs]
    data = write_data_set(tmp_path, runs, traces)
    card = score(SaysUnknown, data)
    assert card.counts["measured"] == 3
    assert [one.run_id for one in card.alarms] == ["c", "h", "f0", "f1"]  # nobody is asked about training runs
    (file,) = keep_alarms(tmp_path / "kept", data, [card])
    (again,) = rescore(data, [read_alarms(file)])
    assert plain(again.points) == plain(card.points)
    assert again.cost["update_us"] == card.cost["update_us"]
    write_alarms_without("h", card, data, tmp_path / "fewer")
    with pytest.raises(InputError, match="runs missing: h; allowed: each run once"):
        rescore(data, alarm_files([tmp_path / "fewer"]))
    assert not any("tuned on the measured runs" in note for note in card.notes)
    own = card.points["default"].diagnosis
    assert own["cause"]["1"]["macro"].value == pytest.approx(0.5, abs=1e-12)  # right for the unseen one


def only(data: DataSet, *kinds: str, drop_calibration: bool = False) -> DataSet:
    keep = data.runs["kind"].isin(kinds)
    if drop_calibration:
        keep &= data.runs["split"] != "calibration"
    return DataSet(data.path, data.manifest, data.runs[keep])


def test_without_failing_runs_what_needs_them_is_undefined(by_hand: DataSet, at_loss: Any) -> None:
    card = score(at_loss, only(by_hand, "healthy", "look-alike"))
    facts = json.loads(json.dumps(card.to_dict(), allow_nan=False))
    for point in facts["points"].values():
        assert point["recall"]["value"] is None
        assert point["lead"]["value"] is None
        assert point["skill"]["rollback"]["0.1"]["value"] is None
        assert point["diagnosis"]["cause"]["1"]["macro"]["value"] is None
    assert facts["free"]["recall"]["value"] is None
    assert card.false_stop["healthy"].value == 0.5
    assert any("no failing run with a visible step" in note for note in card.notes)


def test_without_healthy_runs_recall_stands_and_budgets_do_not(by_hand: DataSet, at_loss: Any) -> None:
    card = score(at_loss, only(by_hand, "failing"))
    assert card.recall["default"].value == 0.75
    assert math.isnan(card.recall["0.05"].value)
    assert math.isnan(card.area.value)
    assert math.isnan(card.false_stop["healthy"].value)
    assert math.isnan(card.points["default"].skill["rollback"][0.1].value)
    assert exposure(card.outcomes).sum() == 100


def test_without_calibration_runs_no_budget_can_be_kept(by_hand: DataSet, at_loss: Any) -> None:
    card = score(at_loss, only(by_hand, "failing", "healthy", drop_calibration=True))
    assert card.recall["default"].value == 0.75
    assert math.isnan(card.recall["0.05"].value)
    assert "a budget of 5% needs 60 calibration runs; here are 0" in card.notes


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"detector": "at_los"}, "detector: 'at_los' is not allowed"),
        ({"detector": "oracle_at_vv"}, "detector: 'oracle_at_vv' is not allowed"),
        ({"profile": "ful"}, "profile: 'ful' is not allowed; did you mean 'full'"),
        ({"track": "informd"}, "track: 'informd' is not allowed; did you mean 'informed'"),
        ({"detector": int}, "detector: 'int' has no reset"),
    ],
)
def test_bad_input(by_hand: DataSet, options: dict[str, Any], complaint: str, at_loss: Any) -> None:
    chosen = {"detector": at_loss} | options
    with pytest.raises(InputError) as caught:
        score(chosen.pop("detector"), by_hand, **chosen)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_twice_is_refused(by_hand: DataSet) -> None:
    with pytest.raises(InputError, match="'never' is named twice"):
        leaderboard(by_hand, ["never", "clock", "never"])
