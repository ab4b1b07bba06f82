"""Alarms on the page are those of the board, replayed or stored."""

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.rescore import keep_alarms
from trainwreck.evaluation.leaderboard.run import score_all
from trainwreck.evaluation.pages.gallery.choose import exhibits
from trainwreck.evaluation.pages.gallery.marks import replayed, stored

NAMES = ["loss_over_minimum", "zclip"]


@pytest.fixture(scope="module")
def on_show(shipped):
    return [one for runs in exhibits([shipped]).values() for one in runs]


@pytest.fixture(scope="module")
def cards(shipped):
    return score_all(shipped, NAMES)


@pytest.fixture(scope="module")
def marks(shipped, on_show):
    return replayed([shipped], on_show, NAMES)


def test_thresholds_and_alarms_are_the_scorecards(cards, marks, on_show):
    alarmed = 0
    for card in cards:
        at = card.at("0.05")
        assert at.threshold is not None
        likeliest = at.threshold.chances.argmax()
        assert marks.thresholds[card.detector] == at.threshold.levels[likeliest]
        first = dict(zip(card.outcomes.run_id, at.firsts[likeliest], strict=True))
        edges = {one.run_id: one.edges.tolist() for one in card.alarms}
        for one in on_show:
            run_id = one.faulty["run_id"]
            mark = next(row for row in marks.of(run_id) if row["detector"] == card.detector)
            assert mark["default"] == edges[run_id]
            crashed_or_not = first[run_id] if np.isfinite(first[run_id]) else None
            assert mark["frozen"] == crashed_or_not
            alarmed += mark["frozen"] is not None
    assert alarmed > 0


def test_stored_alarms_say_the_same(shipped, cards, marks, on_show, tmp_path):
    keep_alarms(tmp_path, shipped, cards)
    again = stored([shipped], on_show, [tmp_path])
    assert again.calibration == marks.calibration > 0
    assert dict(again.thresholds) == dict(marks.thresholds)
    for one in on_show:
        assert again.of(one.faulty["run_id"]) == marks.of(one.faulty["run_id"])


def test_of_runs_to_learn_from_nothing_need_be_stored(make_run, make_trace, write_data_set, tmp_path):
    facts = {"scenario": "high_lr", "cause": "high_lr", "family": "optimisation", "severity": "clear", "onset_step": 5}
    facts |= {"kind": "failing", "last_step": 39, "visible_step": 9}
    runs = [make_run("learn", **facts, split="train"), make_run("test", **facts, seed=1), make_run("h", last_step=39)]
    traces = [make_trace(run["run_id"], steps=40, loss=np.linspace(2.0, 90.0, 40)) for run in runs]
    data = write_data_set(tmp_path, runs, traces)
    keep_alarms(tmp_path / "kept", data, score_all(data, ["zclip"]))
    marks = stored([data], exhibits([data])["high_lr"], [tmp_path / "kept"])
    assert marks.of("learn") == []
    assert [mark["detector"] for mark in marks.of("test")] == ["zclip"]


def test_stored_alarms_of_other_telemetry_are_refused(shipped, cards, on_show, write_small_data_set, tmp_path):
    keep_alarms(tmp_path / "kept", shipped, cards)
    other = write_small_data_set(tmp_path / "other")
    shown = [one for runs in exhibits([other]).values() for one in runs]
    with pytest.raises(InputError, match="made on other telemetry"):
        stored([other], shown, [tmp_path / "kept"])


def test_a_data_set_without_stored_alarms_is_named(shipped, cards, write_small_data_set, tmp_path):
    keep_alarms(tmp_path / "kept", shipped, cards)
    other = write_small_data_set(tmp_path / "other")
    both = [shipped, other]
    shown = [one for runs in exhibits(both).values() for one in runs]
    with pytest.raises(InputError, match=r"alarms: none of loss_over_minimum, zclip on .*other"):
        stored(both, shown, [tmp_path / "kept"])


def test_calibration_runs_that_two_data_sets_share_count_once(write_small_data_set, tmp_path):
    both = [write_small_data_set(tmp_path / name) for name in ("a", "b")]
    shown = [one for runs in exhibits(both).values() for one in runs]
    assert replayed(both, shown, ["nonfinite_loss"]).calibration == 4


def test_thresholds_are_frozen_on_healthy_calibration_runs_alone(make_run, make_trace, write_data_set, tmp_path):
    runs = [make_run("f", scenario="high_lr", kind="failing", last_step=39)]
    kinds = {"h": "healthy", "l": "look-alike"}
    runs += [make_run(name, kind=kind, split="calibration", last_step=39) for name, kind in kinds.items()]
    traces = [make_trace(name, steps=40, loss=np.full(40, 2.0)) for name in ("f", *kinds)]
    data = write_data_set(tmp_path, runs, traces)
    assert replayed([data], exhibits([data])["high_lr"], ["nonfinite_loss"]).calibration == 1


def test_without_calibration_runs_nothing_is_frozen(make_run, make_trace, write_data_set, tmp_path):
    runs = [make_run("f", scenario="high_lr", kind="failing", last_step=39)]
    data = write_data_set(tmp_path, runs, [make_trace("f", steps=40, loss=np.linspace(2.0, 90.0, 40))])
    shown = exhibits([data])["high_lr"]
    (mark,) = replayed([data], shown, ["loss_over_minimum"]).of("f")
    assert mark["default"]
    assert mark["frozen"] is None


def test_a_wrong_detector_is_told_before_any_work(shipped, on_show):
    with pytest.raises(InputError, match="named twice"):
        replayed([shipped], on_show, ["zclip", "zclip"])
    with pytest.raises(InputError, match="did you mean 'zclip'"):
        replayed([shipped], on_show, ["zclop"])
