"""The harness on a small data set whose every number can be worked by hand."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.alarm_file import read_alarms
from trainwreck.evaluation.baseline import label_runs
from trainwreck.evaluation.dataset import DataSet
from trainwreck.evaluation.detectors import sanity
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.measure import Scorecard
from trainwreck.evaluation.metrics.skill import gains
from trainwreck.evaluation.oracles import ORACLES, oracle_alarms
from trainwreck.evaluation.protocol import Context, Detector, Row, Verdict
from trainwreck.evaluation.replay import replay, replay_order
from trainwreck.evaluation.rescore import alarm_files, keep_alarms, rescore
from trainwreck.evaluation.scorecard import leaderboard, score
from trainwreck.evaluation.sets import as_sets
from trainwreck.evaluation.specification import HEADLINE_COST, HEADLINE_PREVALENCE, SCORING_VERSION


class AtLoss(Detector):
    """The loss is the score; names a cause above 10. Losses in these tests are step patterns."""

    name = "at_loss"
    default_threshold = 3.0

    def update(self, row: Row) -> Verdict:
        return Verdict(row["loss"], row["loss"] > 3.0, ("high_lr",) if row["loss"] > 10.0 else ())


def levels(*levels: tuple[int, float]) -> list[float]:
    """A loss of 1 for 100 steps, but from each step on at the level given."""
    values = [1.0] * 100
    for start, level in levels:
        values[start:] = [level] * (100 - start)
    return values


FAULT = {"kind": "failing", "cause": "high_lr", "family": "optimisation", "scenario": "high_lr"}


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory, make_run: Any, make_trace: Any, write_data_set: Any) -> DataSet:
    """Twenty calibration runs with peaks 1.0 (18 times), 2.0 and 4.0; four failing and four other test runs."""
    cases: list[tuple[str, list[float], dict[str, Any]]] = [
        (f"c{i}", levels(), {"split": "calibration", "seed": 50 + i}) for i in range(18)
    ]
    cases += [
        ("c18", levels((40, 2.0)), {"split": "calibration", "seed": 68}),
        ("c19", levels((90, 4.0)), {"split": "calibration", "seed": 69}),
        # s = 20, v = 40, p = 80
        ("f0", levels((50, 20.0)), FAULT | {"onset_step": 20, "visible_step": 40, "no_return_step": 80}),
        ("f1", levels((30, 3.5)), FAULT | {"onset_step": 20, "visible_step": 40, "no_return_step": 80}),
        ("f2", levels((10, 5.0)), FAULT | {"onset_step": 20, "visible_step": 40, "no_return_step": 80}),
        ("f3", levels((95, 5.0)), FAULT | {"cause": "no_warmup", "onset_step": 20, "visible_step": 40}),
        ("never", levels((50, 9.0)), FAULT | {"onset_step": 20}),
        ("h0", levels(), {}),
        ("h1", levels((60, 4.5)), {}),
        ("look", levels((70, 6.0), (75, 1.0), (96, 6.0)), {"kind": "look-alike", "scenario": "benign"}),
        ("latent", levels((50, 9.0)), FAULT | {"kind": "latent", "onset_step": 20}),
        ("cured", levels(), FAULT | {"kind": "cured", "onset_step": 20, "cure_step": 30}),
    ]
    runs, traces = [], []
    for seed, (run_id, losses, label) in enumerate(cases):
        runs.append(make_run(run_id, last_step=99, **({"seed": seed} | label)))
        traces.append(make_trace(run_id, seed=seed, steps=100, loss=losses))
    return write_data_set(tmp_path_factory.mktemp("by_hand"), runs, traces)  # type: ignore[no-any-return]


def test_every_number_by_hand(by_hand: DataSet) -> None:
    card = score(AtLoss, by_hand)
    assert card.detector == "at_loss"
    assert card.scoring_version == SCORING_VERSION
    assert card.counts == {
        "runs": 30, "measured": 10, "failing": 4, "never_visible": 1, "lost_before_visible": 0,
        "no_return_measured": 3, "healthy": 2, "look_alike": 1, "latent": 1, "cured": 1,
        "calibration_healthy": 20, "crashed": 0,
    }  # fmt: skip
    # At the default (loss > 3): f0 at 50, f1 at 30, f2 before s, f3 at 95 and so before p = T = 99.
    assert card.recall["default"].value == 0.75
    # One of 20 may be stopped at 5 %: the threshold is 2. None at 1 %: it is 4, and f1 is missed.
    assert (card.recall["0.05"].threshold, card.recall["0.05"].value) == (2.0, 0.75)
    assert (card.recall["0.01"].threshold, card.recall["0.01"].value) == (4.0, 0.5)
    assert card.headline == card.recall["0.05"]
    assert (card.recall["0.05"].stopped.events, card.recall["0.05"].stopped.exposure) == (1, 2)
    assert card.recall["0.05"].stopped_look_alike.value == 1.0
    # False alarms: h1 once, the look-alike at 70 and 96, f2 at 10; exposure 3 x 100 and 5 x 20 steps.
    assert (card.false_alarm_rate.events, card.false_alarm_rate.exposure) == (4, 400)
    assert card.false_alarm_rate.value == pytest.approx(100.0, abs=1e-12)
    assert {kind: share.value for kind, share in card.false_stop.items()} == {
        "healthy": 0.5, "look-alike": 1.0, "latent": 1.0, "cured": 0.0,
    }  # fmt: skip
    assert card.monitor_recall.value == 0.75
    # Lead: 30/40, 1 (before v), 0, 4/59. Delay from s: 30, 10, 60, 75 of 60, 60, 60, 79 steps.
    assert card.lead.value == pytest.approx((0.75 + 1.0 + 0.0 + 4 / 59) / 4, abs=1e-12)
    delay = card.delay["from_onset"]
    assert delay["restricted_mean_steps"].value == pytest.approx((30 + 10 + 60 + 75) / 4, abs=1e-12)
    assert delay["restricted_mean_share"].value == pytest.approx((0.5 + 1 / 6 + 1.0 + 75 / 79) / 4, abs=1e-12)
    # Diagnosis: f0 alone is named, and rightly: 1/3 of high_lr, none of no_warmup.
    assert card.diagnosis["cause"]["1"]["macro"].value == pytest.approx(1 / 6, abs=1e-12)
    assert card.diagnosis["cause"]["1"]["chance"] == 0.5
    assert card.diagnosis["cause"]["1"]["majority_prior"] == 0.75
    assert card.diagnosis["family"]["1"]["macro"].value == pytest.approx(1 / 4, abs=1e-12)
    assert card.recall_by_scenario == {"high_lr": 0.75}


def test_naming_a_cause_of_the_set_is_right_beside_the_strict_number(
    by_hand: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SaysWarmup(AtLoss):
        causes = ("no_warmup",)

        def update(self, row: Row) -> Verdict:
            return Verdict(row["loss"], row["loss"] > 3, ("no_warmup",))

    alone = score(SaysWarmup, by_hand).diagnosis
    strict = alone["cause"]["1"]["macro"].value
    assert alone["cause_within_set"]["1"]["macro"].value == strict
    both = as_sets([["high_lr", "no_warmup"]])
    monkeypatch.setattr("trainwreck.evaluation.measure.shipped", lambda profile: both if profile == "full" else {})
    card = score(SaysWarmup, by_hand)
    assert card.diagnosis["cause"]["1"]["macro"].value == strict
    within = card.diagnosis["cause_within_set"]["1"]
    assert within["macro"].value == pytest.approx(strict + 2 / 3 / 2, abs=1e-12)  # f0 and f1 of three high_lr runs
    assert within["chance"] == 1.0
    other = score(SaysWarmup, by_hand, profile="standard").diagnosis
    assert other["cause_within_set"]["1"]["macro"].value == other["cause"]["1"]["macro"].value
    assert "within its equivalence set" in card.text()


def test_cost_skill_by_hand(by_hand: DataSet) -> None:
    # T = 99, r = 0.99, rollback c = 4.95. Gains: 99-50-r, 99-40-r, -c, 99-95-r; losses: 0, c, c.
    r, c, pi = 0.99, 4.95, 0.1
    value = pi * (49 - r + 59 - r - c + 4 - r) / 4 - (1 - pi) * 2 * c / 3
    oracle = pi * (59 - r)
    # Best blind here: a clock at s = 20, which every failing run shares.
    blind = pi * (59 - r) - (1 - pi) * c
    card = score(AtLoss, by_hand)
    assert card.headline_skill.value == pytest.approx((value - blind) / (oracle - blind), abs=1e-12)
    assert "blind policies are tuned on the measured runs" in card.notes[0]


def test_a_run_ended_at_its_nan_saves_what_was_planned(
    tmp_path: Path, make_run: Any, make_trace: Any, write_data_set: Any
) -> None:
    # Both are caught at v = 50; one was ended at step 70 of 200, the other went on to step 199.
    label = FAULT | {"onset_step": 40, "visible_step": 50, "planned_steps": 200}
    cases = [("ended", 71), ("whole", 200)]
    runs = [make_run(name, last_step=n - 1, seed=i, **label) for i, (name, n) in enumerate(cases)]
    losses = [np.where(np.arange(n) >= 50, 9.0, 1.0) for _, n in cases]
    traces = [make_trace(n, seed=i, steps=s, loss=losses[i]) for i, (n, s) in enumerate(cases)]
    runs.append(make_run("healthy", last_step=199, seed=2))
    traces.append(make_trace("healthy", seed=2, steps=200, loss=np.ones(200)))
    one = score(AtLoss, write_data_set(tmp_path / "set", runs, traces)).records
    labels = label_runs(one)
    np.testing.assert_array_equal(labels.last, [199, 199])
    np.testing.assert_array_equal(gains(one.first[one.failing], labels, "rollback"), [199 - 50 - 1.99] * 2)


def test_what_the_notes_say(by_hand: DataSet) -> None:
    notes = score(AtLoss, by_hand).notes
    assert "the point of no return was not measured for 1 failing runs: there p = T" in notes
    assert "1 failing runs never become visible and are left out" in notes
    assert "a budget of 1% needs 300 healthy calibration runs; here are 20" in notes


def test_a_bare_alarm_over_budget_has_no_recall_there(by_hand: DataSet) -> None:
    class Bare(Detector):
        limit = 1.5

        def update(self, row: Row) -> bool:
            return bool(row["loss"] > self.limit)

    over = score(Bare, by_hand)  # two of 20 calibration runs alarm
    assert over.recall["default"].value == 0.75
    assert [over.recall[budget].value for budget in ("0.01", "0.05")] == [0.0, 0.0]
    within = score(type("Calm", (Bare,), {"limit": 3.0}), by_hand)  # one of 20
    assert [within.recall[budget].value for budget in ("0.01", "0.05")] == [0.0, 0.75]


def test_to_dict_is_json(by_hand: DataSet) -> None:
    card = score(AtLoss, by_hand)
    facts = json.loads(json.dumps(card.to_dict(), allow_nan=False))
    assert facts["recall"]["default"]["threshold"] is None
    assert facts["recall"]["0.05"]["value"] == 0.75
    assert len(facts["alarms"]) == len(by_hand)
    assert facts["alarms"][20] | {"update_us": 0, "state_bytes": 0} == {
        "run_id": "f0", "first_alarm": 50, "edges": [50], "causes": ["high_lr"], "status": "ok", "rows": 100,
        "update_us": 0, "state_bytes": 0,
    }  # fmt: skip
    assert len(card.to_dict(scores=True)["alarms"][0]["scores"]) == 100


def test_tracks(by_hand: DataSet) -> None:
    class Reads(Detector):
        def reset(self, context: Context | None) -> None:
            self.lr = 0.0 if context is None else context["lr"]

        def update(self, row: Row) -> float:
            return self.lr

    assert score(Reads, by_hand).alarms[0].scores[0] == 0.0
    assert score(Reads, by_hand, track="informed").alarms[0].scores[0] == 0.01


def test_progress(by_hand: DataSet) -> None:
    heard: list[tuple[int, int, str]] = []
    score("never", by_hand, progress=lambda *said: heard.append(said))
    order = replay_order(by_hand.runs["run_id"])
    assert heard == [(done, 30, run_id) for done, run_id in enumerate(order, start=1)]


def test_runs_are_replayed_in_an_order_that_does_not_depend_on_the_table(by_hand: DataSet) -> None:
    names = by_hand.runs["run_id"].tolist()
    assert replay_order(names[::-1]) == replay_order(names) != names


def test_a_detector_from_a_file(by_hand: DataSet, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "class Mine:\n    def reset(self, context): pass\n    def update(self, row): return row['loss'] > 3\n"
    )
    card = score(f"{file}:Mine", by_hand)
    assert card.recall["default"].value == 0.75
    assert card.detector == "mine.py:Mine"


@pytest.mark.parametrize("profile", ["full", "standard", "minimal", "filtered"])
def test_profiles_change_what_is_seen_not_what_is_true(by_hand: DataSet, profile: str) -> None:
    card = score(AtLoss, by_hand, profile=profile)
    assert card.counts == score(AtLoss, by_hand).counts
    first = {one.run_id: one.first_alarm for one in card.alarms}
    # A row every ten steps, at their start (standard, minimal) or, averaged, at their end (filtered).
    assert first["f0"] == {"full": 50, "filtered": 59}.get(profile, 50)
    assert first["f3"] == {"full": 95, "filtered": None}.get(profile)  # the average from 90 to 99 is exactly 3


def write_alarms_without(run_id: str, card: Scorecard, data: DataSet, folder: Path) -> None:
    keep_alarms(folder, data, [replace(card, alarms=tuple(one for one in card.alarms if one.run_id != run_id))])


def test_a_training_split_tunes_the_blind_and_names_unseen_causes(
    tmp_path: Path, make_run: Any, make_trace: Any, write_data_set: Any
) -> None:
    class SaysUnknown(Detector):
        def update(self, row: Row) -> Verdict:
            return Verdict(row["loss"], row["loss"] > 3.0, ("unknown",))

    label = FAULT | {"onset_step": 20, "visible_step": 40, "no_return_step": 80}
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
    assert (again.recall, again.skill, again.cost["update_us"]) == (card.recall, card.skill, card.cost["update_us"])
    write_alarms_without("h", card, data, tmp_path / "fewer")
    with pytest.raises(InputError, match="runs missing: h; allowed: each run once"):
        rescore(data, alarm_files([tmp_path / "fewer"]))
    assert not any("tuned on the measured runs" in note for note in card.notes)
    assert card.diagnosis["cause"]["1"]["macro"].value == pytest.approx(0.5, abs=1e-12)  # right for the unseen one


def only(data: DataSet, *kinds: str, drop_calibration: bool = False) -> DataSet:
    keep = data.runs["kind"].isin(kinds)
    if drop_calibration:
        keep &= data.runs["split"] != "calibration"
    return DataSet(data.path, data.manifest, data.runs[keep])


def test_without_failing_runs_what_needs_them_is_undefined(by_hand: DataSet) -> None:
    card = score(AtLoss, only(by_hand, "healthy", "look-alike"))
    facts = json.loads(json.dumps(card.to_dict(), allow_nan=False))
    assert facts["recall"]["0.05"]["value"] is None
    assert facts["lead"]["value"] is None
    assert facts["skill"]["rollback"]["0.1"]["value"] is None
    assert facts["diagnosis"]["cause"]["1"]["macro"]["value"] is None
    assert card.false_stop["healthy"].value == 0.5
    assert any("no failing run with a visible step" in note for note in card.notes)


def test_without_healthy_runs_recall_stands_and_budgets_do_not(by_hand: DataSet) -> None:
    card = score(AtLoss, only(by_hand, "failing"))
    assert card.recall["default"].value == 0.75
    assert math.isnan(card.recall["0.05"].threshold)
    assert card.recall["0.05"].value == 0.0
    assert math.isnan(card.false_stop["healthy"].value)
    assert math.isnan(card.headline_skill.value)
    assert card.false_alarm_rate.exposure == 100


def test_without_calibration_runs_no_budget_can_be_kept(by_hand: DataSet) -> None:
    card = score(AtLoss, only(by_hand, "failing", "healthy", drop_calibration=True))
    assert card.recall["0.05"].value == 0.0
    assert "a budget of 5% needs 60 healthy calibration runs; here are 0" in card.notes


@pytest.mark.parametrize("name", ORACLES)
def test_oracles_alarm_where_the_label_says(by_hand: DataSet, name: str) -> None:
    expected = {"oracle_at_onset": 20, "oracle_at_v": 40, "oracle_delayed": 45, "oracle_at_no_return": 80}
    alarms = oracle_alarms(name, by_hand.run("f0"))
    assert (alarms.first_alarm, alarms.causes) == (expected[name], ("high_lr",))
    for run_id in ("h0", "look", "latent", "cured", "never"):
        assert oracle_alarms(name, by_hand.run(run_id)).first_alarm is None
    assert oracle_alarms("oracle_at_no_return", by_hand.run("f3")).first_alarm == 99


def test_an_oracle_is_scored_by_name_and_never_sees_a_row(by_hand: DataSet) -> None:
    card = score("oracle_at_v", by_hand)
    assert card.recall["0.01"].value == card.headline_skill.value == 1.0
    assert card.cost["update_us"] == 0.0


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
def test_bad_input(by_hand: DataSet, options: dict[str, Any], complaint: str) -> None:
    chosen = {"detector": AtLoss} | options
    with pytest.raises(InputError) as caught:
        score(chosen.pop("detector"), by_hand, **chosen)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_twice_is_refused(by_hand: DataSet) -> None:
    with pytest.raises(InputError, match="'never' is named twice"):
        leaderboard(by_hand, ["never", "clock", "never"])


def test_the_same_data_gives_the_same_card(by_hand: DataSet) -> None:
    first, second = (score(AtLoss, by_hand).to_dict(scores=True) for _ in range(2))
    for facts in (first, second):
        facts["cost"]["update_us"] = 0
        for one in facts["alarms"]:
            one["update_us"] = 0
    assert first == second


def test_what_a_detector_says_of_itself_is_on_its_card(by_hand: DataSet) -> None:
    about = score("zclip", by_hand).about
    assert set(about) == {"rule", "source", "blind_spots", "signals"}
    assert about["signals"] == ("grad_norm",)


def test_the_blind_entries_stand_at_their_best(by_hand: DataSet) -> None:
    card = score("clock", by_hand)
    assert {one.first_alarm for one in card.alarms} == {20}  # where every failing run begins
    assert card.headline_skill.value == pytest.approx(0.0, abs=1e-12)
    best = {policy.name: policy.value for policy in card.baseline.blind[HEADLINE_COST, HEADLINE_PREVALENCE].policies}
    tuned = {"periodic": sanity.Periodic(int(best["periodic"])), "random": sanity.Random(best["random"])}
    for name, detector in tuned.items():
        for found in score(name, by_hand).alarms[:3]:
            expected = replay(detector, by_hand.trace(found.run_id))
            assert found.alarm.tolist() == expected.alarm.tolist()


def test_an_interval_holds_its_value(data_set: DataSet) -> None:
    card = score("loss_over_minimum", data_set)
    estimates = [card.lead, card.monitor_recall, *(worth for by_pi in card.skill.values() for worth in by_pi.values())]
    estimates += [card.delay[origin]["restricted_mean_share"] for origin in ("from_onset", "from_visible")]
    for value, low, high in estimates:
        assert low <= value <= high
    # The same share of every cause is caught here, so whichever causes are drawn the recall is that.
    assert all(low < high for value, low, high in estimates if value != card.monitor_recall.value)


def test_under_the_monitor_protocol_a_new_edge_after_the_onset_counts(by_hand: DataSet) -> None:
    class Twice(Detector):
        def update(self, row: Row) -> bool:
            return row["step"] in (5, 45)

    card = score(Twice, by_hand)
    assert card.recall["default"].value == 0.0
    assert card.monitor_recall.value == 1.0

    class TwiceThenBreaks(Twice):
        def update(self, row: Row) -> bool:
            assert row["step"] < 99
            return super().update(row)

    assert score(TwiceThenBreaks, by_hand).monitor_recall.value == 0.0


def test_a_crash_on_calibration_runs_keeps_no_budget(by_hand: DataSet) -> None:
    """It is calm where it breaks: the threshold must not come out low for that."""

    class Breaks(AtLoss):
        def update(self, row: Row) -> Verdict:
            if row["step"] == 30 and row["loss"] == 1.0:
                raise RuntimeError
            return super().update(row)

    card = score(Breaks, by_hand)
    assert math.isinf(card.recall["0.05"].threshold)
    assert card.recall["0.05"].value == 0.0
    assert card.to_dict()["recall"]["0.05"]["threshold"] is None


def test_a_crash_on_a_failing_run_is_a_miss_at_every_threshold(by_hand: DataSet) -> None:
    class Breaks(AtLoss):
        def update(self, row: Row) -> Verdict:
            if row["step"] == 99 and row["loss"] == 20.0:  # f0, long after its alarm
                raise RuntimeError
            return super().update(row)

    card = score(Breaks, by_hand)
    assert card.counts["crashed"] == 1
    assert [card.recall[point].value for point in ("default", "0.05", "0.01")] == [0.5, 0.5, 0.25]
    assert card.detected("0.05").sum() == 2


def test_unknown_is_an_answer_only_where_something_was_trained_on(by_hand: DataSet) -> None:
    class SaysUnknown(AtLoss):
        def update(self, row: Row) -> Verdict:
            return super().update(row)._replace(causes=("unknown",))

    assert score(SaysUnknown, by_hand).diagnosis["cause"]["3"]["macro"].value == 0.0


def test_the_delayed_oracle_stays_inside_the_run(by_hand: DataSet) -> None:
    run = by_hand.run("f0").copy()
    run["visible_step"] = 97
    assert oracle_alarms("oracle_delayed", run).first_alarm == 99


def test_where_the_recall_comes_from_by_hand(by_hand: DataSet) -> None:
    card = score(AtLoss, by_hand)
    failing = card.records.failing
    found = card.detected("0.05")
    for part, values in (("family", card.records.family), ("scenario", card.records.scenario)):
        for name, share in card.breakdown[part].items():
            chosen = failing & (values == name)
            assert (share.events, share.exposure) == (found[chosen].sum(), chosen.sum())
            assert share.value == pytest.approx(found[chosen].mean(), abs=1e-12)
            assert share.low <= share.value <= share.high
        assert sum(share.exposure for share in card.breakdown[part].values()) == failing.sum()
    by_instant = card.delay["from_onset"]["detected_by"]
    assert by_instant["value"][-1] == pytest.approx(card.recall["default"].value, abs=1e-12)
    assert (np.diff(by_instant["value"]) >= 0).all()
    assert (by_instant["low"] <= by_instant["value"]).all()
    curve = card.curves["alarm_delay"]
    assert len(curve["rate"]) == len(curve["delay"]) > 1
    assert curve["delay"].min() >= 0.0


def test_steps_after_a_crash_were_watched_by_nobody(by_hand: DataSet) -> None:
    class Breaks(AtLoss):
        def update(self, row: Row) -> Verdict:
            assert row["step"] < 10
            return super().update(row)

    card = score(AtLoss, by_hand)
    watched = int((card.records.negative | (card.records.kind == "failing")).sum())
    broken = score(Breaks, by_hand).false_alarm_rate
    assert (broken.events, broken.exposure) == (0, 10 * watched)
    assert card.false_alarm_rate.exposure > broken.exposure


def test_a_crash_under_the_fault_is_a_miss_on_the_curves_too(by_hand: DataSet) -> None:
    class Breaks(AtLoss):
        def update(self, row: Row) -> Verdict:
            assert row["step"] < 99
            return super().update(row)

    assert set(score(Breaks, by_hand).curves["alarm_delay"]["delay"].tolist()) == {1.0}
    assert score(AtLoss, by_hand).curves["alarm_delay"]["delay"].min() < 1.0
