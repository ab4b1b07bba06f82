"""The sanity entries that know the labels, or nothing at all."""

import json

import pytest

from trainwreck.evaluation.constants import HEADLINE_COST, HEADLINE_PREVALENCE
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.sanity import blind
from trainwreck.evaluation.leaderboard.run import score
from trainwreck.evaluation.replay.oracles import ORACLES, oracle_alarms
from trainwreck.evaluation.replay.replay import replay


@pytest.mark.parametrize("name", ORACLES)
def test_oracles_alarm_where_the_label_says(by_hand: DataSet, name: str) -> None:
    expected = {"oracle_at_onset": 20, "oracle_at_v": 40, "oracle_delayed": 45, "oracle_at_no_return": 80}
    alarms = oracle_alarms(name, by_hand.run("f0"), "full")
    assert (alarms.first_alarm, alarms.causes) == (expected[name], ("high_lr",))
    for run_id in ("h0", "look", "latent", "cured", "never"):
        assert oracle_alarms(name, by_hand.run(run_id), "full").first_alarm is None
    assert oracle_alarms("oracle_at_no_return", by_hand.run("f3"), "full").first_alarm == 99


def test_an_oracle_is_scored_by_name_and_never_sees_a_row(by_hand: DataSet) -> None:
    card = score("oracle_at_v", by_hand)
    assert card.recall["default"].value == card.points["default"].skill["rollback"][0.1].value == 1.0
    assert card.recall["0.05"].value == 1.0
    assert card.recall["0.01"].value == pytest.approx(0.21, abs=1e-12)  # 20 quiet runs vouch for no more
    assert (card.area.value, card.volume.value) == (1.0, 1.0)
    assert card.cost["update_us"] == 0.0


def test_the_blind_entries_stand_at_their_best(by_hand: DataSet) -> None:
    card = score("clock", by_hand)
    assert {one.first_alarm for one in card.alarms} == {20}  # where every failing run begins
    assert card.points["default"].skill["rollback"][0.1].value == pytest.approx(0.0, abs=1e-12)
    best = {policy.name: policy.value for policy in card.baseline.blind[HEADLINE_COST, HEADLINE_PREVALENCE].policies}
    tuned = {"periodic": blind.Periodic(int(best["periodic"])), "random": blind.Random(best["random"])}
    for name, detector in tuned.items():
        for found in score(name, by_hand).alarms[:3]:
            expected = replay(detector, by_hand.trace(found.run_id))
            assert found.alarm.tolist() == expected.alarm.tolist()


def test_the_delayed_oracle_stays_inside_the_run(by_hand: DataSet) -> None:
    run = by_hand.run("f0").copy()
    run["visible_step"] = 97
    assert oracle_alarms("oracle_delayed", run, "full").first_alarm == 99


def test_what_a_profile_does_not_show_no_oracle_of_it_alarms(by_hand: DataSet) -> None:
    runs = by_hand.runs.copy()
    runs.loc["f0", "visible_profiles"] = json.dumps({"full": 40})
    runs.loc["f1", "visible_profiles"] = json.dumps({"full": 40, "minimal": 60})
    runs.loc["f3", "visible_profiles"] = json.dumps({"full": 40, "minimal": 99})
    data = DataSet(by_hand.path, by_hand.manifest, runs)
    full, minimal = (score("oracle_at_v", data, profile=profile) for profile in ("full", "minimal"))
    assert full.ceiling.value == full.points["default"].recall.value == 1.0
    alarms = {one.run_id: one.first_alarm for one in minimal.alarms}
    assert [alarms[f"f{i}"] for i in range(4)] == [None, 60, 40, 99]
    # f0 is not visible under it, f3 too late: its run is lost at 99.
    assert minimal.ceiling.value == minimal.points["default"].recall.value == 0.5
    assert minimal.points["default"].recall.of_visible.value == 1.0
    assert minimal.counts["failing"] == full.counts["failing"] == 4
    assert [one.points["default"].skill["rollback"][0.1].value for one in (full, minimal)] == pytest.approx([1.0, 1.0])
