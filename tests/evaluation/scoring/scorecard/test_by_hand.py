"""Every number of a scorecard, worked by hand on a small data set."""

from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.constants import SCORING_VERSION
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.base import Detector, Row, Verdict
from trainwreck.evaluation.leaderboard.run import score
from trainwreck.evaluation.scoring.equivalence_sets import as_sets
from trainwreck.evaluation.scoring.reference import PAIRS


def test_every_number_by_hand(by_hand: DataSet, at_loss: Any) -> None:
    card = score(at_loss, by_hand)
    assert card.detector == "at_loss"
    assert card.scoring_version == SCORING_VERSION
    assert card.counts == {
        "runs": 30, "measured": 10, "failing": 4, "never_visible": 1, "lost_before_visible": 0,
        "no_return_measured": 3, "healthy": 2, "look_alike": 1, "latent": 1, "cured": 1,
        "visible_in_time": 4, "calibration_healthy": 20, "calibration_look_alike": 0, "crashed": 0,
    }  # fmt: skip
    # At the default (loss > 3): f0 at 50, f1 at 30, f2 before s, f3 at 95 and so before p = T = 99.
    assert card.recall["default"].value == 0.75
    # Of 21 runs 1.05 may be stopped at 5 %: one that peaks over 4, the highest; of two that peak at 4 0.525 each; then
    # one is stopped, and a run that peaks between 4 and 2, as f1, has 0.05; of two at 2 it is 0.025 each.
    assert card.headline == card.recall["0.05"]
    over_2 = 0.05
    thresholds = card.headline.threshold
    assert thresholds.levels.round(9).tolist() == [4.0, 4.0, 2.0, 2.0]
    assert thresholds.chances.tolist() == pytest.approx([0.475, 0.475, 0.025, 0.025], abs=1e-12)
    assert card.recall["0.05"].value == pytest.approx((1 + over_2 + 0 + 1) / 4, abs=1e-12)
    # At 1 % it is 0.21 of a run, and so 0.21 of the runs that peak over 4.
    assert card.recall["0.01"].value == pytest.approx(0.21 * 2 / 4, abs=1e-12)
    assert card.recall["0.05"].stopped.events == pytest.approx(1.0, abs=1e-12)  # h1, which peaks at 4.5
    assert card.recall["0.05"].stopped.exposure == 2
    assert card.recall["0.05"].stopped_look_alike.value == 1.0
    assert card.recall["0.05"].stopped_mixed.value == pytest.approx(0.9 * 0.5 + 0.1, abs=1e-12)
    assert (card.ceiling.value, card.headline.of_visible.value) == (1.0, pytest.approx(card.headline.value))
    # False alarms: h1 once, the look-alike at 70 and 96, f2 at 10; exposure 3 x 100 and 5 x 20 steps.
    assert card.false_alarm_rate.value == pytest.approx(4 / 400 * 10_000, abs=1e-12)
    assert {kind: share.value for kind, share in card.false_stop.items()} == {
        "healthy": 0.5, "look-alike": 1.0, "latent": 1.0, "cured": 0.0,
    }  # fmt: skip
    assert card.monitor_recall.value == 0.75
    # Lead: 30/40, 1 (before v), 0, 4/59. Delay from s: 30, 10, 60, 75 of 60, 60, 60, 79 steps.
    own = card.points["default"]
    assert own.lead.value == pytest.approx((0.75 + 1.0 + 0.0 + 4 / 59) / 4, abs=1e-12)
    assert card.lead.value == pytest.approx((0.75 + over_2 + 0.0 + 4 / 59) / 4, abs=1e-12)
    # The look-alike, a tenth of what counts, peaks at 6: as long as no more is stopped f0 alone is found.
    assert (card.area.value, card.volume.value) == pytest.approx((1 / 4, 0.75 / 4), abs=1e-12)
    delay = own.delay["from_onset"]
    assert delay["restricted_mean_steps"].value == pytest.approx((30 + 10 + 60 + 75) / 4, abs=1e-12)
    assert delay["restricted_mean_share"].value == pytest.approx((0.5 + 1 / 6 + 1.0 + 75 / 79) / 4, abs=1e-12)
    # A miss of f1 is 60 steps.
    late = card.delay["from_onset"]["restricted_mean_steps"].value
    assert late == pytest.approx((30 + 10 * over_2 + 60 * (1 - over_2) + 60 + 75) / 4, abs=1e-12)
    # Diagnosis: f0 alone is named, and rightly: 1/3 of high_lr, none of no_warmup.
    assert own.diagnosis["cause"]["1"]["macro"].value == pytest.approx(1 / 6, abs=1e-12)
    assert card.diagnosis["cause"]["1"]["macro"].value == pytest.approx(1 / 6, abs=1e-12)
    assert card.diagnosis["cause"]["1"]["chance"] == 0.5
    assert card.diagnosis["cause"]["1"]["majority_prior"] == 0.75
    assert card.diagnosis["family"]["1"]["macro"].value == pytest.approx(1 / 4, abs=1e-12)
    assert card.recall_by_scenario == {"high_lr": pytest.approx((2 + over_2) / 4, abs=1e-12)}


def test_naming_a_cause_of_the_set_is_right_beside_the_strict_number(
    by_hand: DataSet, monkeypatch: pytest.MonkeyPatch, at_loss: Any
) -> None:
    class SaysWarmup(at_loss):
        causes = ("no_warmup",)

        def update(self, row: Row) -> Verdict:
            return Verdict(row["loss"], row["loss"] > 3, ("no_warmup",))

    alone = score(SaysWarmup, by_hand).points["default"].diagnosis
    strict = alone["cause"]["1"]["macro"].value
    assert alone["cause_within_set"]["1"]["macro"].value == strict
    both = as_sets([["high_lr", "no_warmup"]])
    monkeypatch.setattr(
        "trainwreck.evaluation.scoring.reference.shipped", lambda profile: both if profile == "full" else {}
    )
    card = score(SaysWarmup, by_hand)
    own = card.points["default"].diagnosis
    assert own["cause"]["1"]["macro"].value == strict
    within = own["cause_within_set"]["1"]
    assert within["macro"].value == pytest.approx(strict + 2 / 3 / 2, abs=1e-12)  # f0 and f1 of three high_lr runs
    assert within["chance"] == 1.0
    other = score(SaysWarmup, by_hand, profile="standard").diagnosis
    assert other["cause_within_set"]["1"]["macro"].value == other["cause"]["1"]["macro"].value
    assert "any of its equivalence set" in card.text()


def test_cost_skill_by_hand(by_hand: DataSet, at_loss: Any) -> None:
    # T = 99, r = 0.99, rollback c = 4.95. Gains: 99-50-r, 99-40-r, -c, 99-95-r; losses: 0, c, c.
    r, c, pi = 0.99, 4.95, 0.1
    value = pi * (49 - r + 59 - r - c + 4 - r) / 4 - (1 - pi) * 2 * c / 3
    oracle = pi * (59 - r)
    # Best blind here: a clock at s = 20, which every failing run shares.
    blind = pi * (59 - r) - (1 - pi) * c
    card = score(at_loss, by_hand)
    found = card.points["default"].skill["rollback"][0.1].value
    assert found == pytest.approx((value - blind) / (oracle - blind), abs=1e-12)
    assert "blind policies are tuned on the measured runs" in card.notes[0]


def test_what_the_notes_say(by_hand: DataSet, at_loss: Any) -> None:
    notes = score(at_loss, by_hand).notes
    assert "the point of no return was not measured for 1 failing runs: there p = T" in notes
    assert "1 failing run left out, never visible" in notes
    assert "a budget of 1% needs 300 calibration runs; here are 20, with which no recall is above 0.21" in notes
    assert any("1 by scenario, 4 by seed" in note for note in notes)


def test_a_bare_alarm_has_its_point_between_never_and_its_default(by_hand: DataSet) -> None:
    class Bare(Detector):
        limit = 1.5

        def update(self, row: Row) -> bool:
            return bool(row["loss"] > self.limit)

    over = score(Bare, by_hand)  # two of 20 calibration runs alarm
    assert over.recall["default"].value == 0.75
    # Of 21 runs 0.21 and 1.05 may be stopped, where three alarm with the further one.
    expected = [0.21 / 3 * 0.75, 1.05 / 3 * 0.75]
    assert [over.recall[budget].value for budget in ("0.01", "0.05")] == pytest.approx(expected, abs=1e-12)
    within = score(type("Calm", (Bare,), {"limit": 3.0}), by_hand)  # one of 20
    expected = [0.21 / 2 * 0.75, 1.05 / 2 * 0.75]
    assert [within.recall[budget].value for budget in ("0.01", "0.05")] == pytest.approx(expected, abs=1e-12)


def test_what_a_detector_says_of_itself_is_on_its_card(by_hand: DataSet) -> None:
    about = score("zclip", by_hand).about
    assert set(about) == {"rule", "source", "blind_spots", "signals"}
    assert about["signals"] == ("grad_norm",)


def test_an_interval_holds_its_value(data_set: DataSet) -> None:
    card = score("loss_over_minimum", data_set)
    estimates = [card.lead, card.monitor_recall, *(worth for by_pi in card.skill.values() for worth in by_pi.values())]
    estimates += [card.delay[origin]["restricted_mean_share"] for origin in ("from_onset", "from_visible")]
    for value, low, high in estimates:
        assert low < value < high


def test_unknown_is_an_answer_only_where_something_was_trained_on(by_hand: DataSet, at_loss: Any) -> None:
    class SaysUnknown(at_loss):
        def update(self, row: Row) -> Verdict:
            return super().update(row)._replace(causes=("unknown",))

    assert score(SaysUnknown, by_hand).diagnosis["cause"]["3"]["macro"].value == 0.0


def test_where_the_recall_comes_from_by_hand(by_hand: DataSet, at_loss: Any) -> None:
    card = score(at_loss, by_hand)
    failing = card.outcomes.failing
    found = card.detected("0.05")
    for part, values in (("family", card.outcomes.family), ("scenario", card.outcomes.scenario)):
        for name, share in card.breakdown[part].items():
            chosen = failing & (values == name)
            assert (share.events, share.exposure) == (pytest.approx(found[chosen].sum(), abs=1e-12), chosen.sum())
            assert share.value == pytest.approx(found[chosen].mean(), abs=1e-12)
            assert share.low <= share.value <= share.high or np.isnan(share.low)
        assert sum(share.exposure for share in card.breakdown[part].values()) == failing.sum()
    by_instant = card.delay["from_onset"]["detected_by"]
    assert by_instant["value"][-1] == pytest.approx(card.headline.value, abs=1e-12)
    assert (np.diff(by_instant["value"]) >= 0).all()
    assert all(low <= value for low, value in zip(by_instant["low"], by_instant["value"], strict=True))
    curve = card.curves["alarm_delay"]
    assert len(curve["rate"]) == len(curve["delay"]) > 1
    assert curve["delay"].min() >= 0.0


def test_a_run_counts_for_everything_that_no_training_run_has_of_it(by_hand: DataSet, at_loss: Any) -> None:
    runs = by_hand.runs.copy()
    card = score(at_loss, by_hand)
    assert card.breakdown["held_out"] == {}
    found = dict(zip(card.outcomes.run_id.tolist(), card.detected("0.05").tolist(), strict=True))
    what = {"f0": "cause+base", "f1": "base", "f2": "cause"}
    assert 0 < sum(found[run] for run in what) < len(what)
    for run_id, held_out in what.items():
        runs.loc[runs["run_id"] == run_id, "held_out"] = held_out
    shares = score(at_loss, DataSet(by_hand.path, by_hand.manifest, runs)).breakdown["held_out"]
    assert {name: (one.events, one.exposure) for name, one in shares.items()} == {
        "cause": (found["f0"] + found["f2"], 2),
        "base": (found["f0"] + found["f1"], 2),
    }


def test_failures_of_two_families_are_one_group(by_hand: DataSet, at_loss: Any) -> None:
    runs = by_hand.runs.copy()
    for run_id, cause, family in (("f0", "a+b", "data+schedule"), ("f3", "high_lr+a", "optimisation+data")):
        runs.loc[runs["run_id"] == run_id, ["cause", "family"]] = cause, family
    shares = score(at_loss, DataSet(by_hand.path, by_hand.manifest, runs)).breakdown["family"]
    found = {name: (round(one.events, 12), one.exposure) for name, one in shares.items()}
    assert found == {"optimisation": (0.05, 2), PAIRS: (2, 2)}  # f1 with one chance in twenty, as above
