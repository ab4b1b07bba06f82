"""What is shown to a detector, in which order, and what is kept of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.base import Context, Detector, Row
from trainwreck.evaluation.leaderboard.run import score
from trainwreck.evaluation.replay.replay import replay_order


def test_to_dict_is_json(by_hand: DataSet, at_loss: Any) -> None:
    card = score(at_loss, by_hand)
    facts = json.loads(json.dumps(card.to_dict(), allow_nan=False))
    assert facts["points"]["default"]["recall"]["threshold"] is None
    assert facts["points"]["default"]["recall"]["value"] == 0.75
    assert sum(one["chance"] for one in facts["points"]["0.05"]["recall"]["threshold"]) == pytest.approx(1.0)
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
    reports: list[tuple[int, int, str]] = []
    score("never", by_hand, progress=lambda *report: reports.append(report))
    assert [report[:2] for report in reports] == [(done, 30) for done in range(1, 31)]
    assert sorted(run_id for _, _, run_id in reports) == sorted(by_hand.runs["run_id"])


def test_runs_are_replayed_in_an_order_that_does_not_depend_on_the_table(by_hand: DataSet) -> None:
    names = by_hand.runs["run_id"].tolist()
    assert replay_order(names[::-1]) == replay_order(names) != names


def test_the_order_is_drawn_for_each_replay_and_changes_no_number(by_hand: DataSet) -> None:
    def shown() -> tuple[list[str], dict[str, Any]]:
        order: list[str] = []
        facts = score("any_zscore", by_hand, progress=lambda *report: order.append(report[2])).to_dict(scores=True)
        for each in (facts["cost"], *facts["alarms"]):
            each["update_us"] = 0
        return order, facts

    (first, one), (second, other) = shown(), shown()
    assert sorted(first) == sorted(second) == sorted(by_hand.runs["run_id"])
    assert first != second
    assert one == other


def test_one_that_counts_its_runs_is_no_wiser(by_hand: DataSet, tmp_path: Path) -> None:
    """It alarms at the n-th reset if the n-th run of the order that the names alone give fails."""
    fails = [by_hand.runs.loc[run_id, "kind"] == "failing" for run_id in replay_order(by_hand.runs["run_id"])]
    file = tmp_path / "counts.py"
    file.write_text(
        f"FAILS, RESETS = {fails!r}, []\n"
        "class Counts:\n    def reset(self, context): RESETS.append(0)\n"
        "    def update(self, row): return row['step'] == 50 and FAILS[len(RESETS) - 1]\n"
    )
    card = score(f"{file}:Counts", by_hand)
    alarmed = {alarms.run_id for alarms in card.alarms if alarms.first_alarm is not None}
    assert alarmed != set(by_hand.runs["run_id"][by_hand.runs["kind"] == "failing"])  # by chance once in 10^6 and more


def test_a_detector_from_a_file(by_hand: DataSet, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "class Mine:\n    def reset(self, context): pass\n    def update(self, row): return row['loss'] > 3\n"
    )
    card = score(f"{file}:Mine", by_hand)
    assert card.recall["default"].value == 0.75
    assert card.detector == "mine.py:Mine"


@pytest.mark.parametrize("profile", ["full", "common", "standard", "minimal", "filtered"])
def test_profiles_change_what_is_seen_not_what_is_true(by_hand: DataSet, profile: str, at_loss: Any) -> None:
    card = score(at_loss, by_hand, profile=profile)
    assert card.counts == score(at_loss, by_hand).counts
    first = {one.run_id: one.first_alarm for one in card.alarms}
    # A row every ten steps, at their start (standard, minimal) or, averaged, at their end (filtered).
    assert first["f0"] == {"full": 50, "filtered": 59}.get(profile, 50)
    assert first["f3"] == {"full": 95, "common": 95, "filtered": None}.get(profile)  # the average of 90 to 99 is 3


def test_the_same_data_gives_the_same_card(by_hand: DataSet, at_loss: Any) -> None:
    first, second = (score(at_loss, by_hand).to_dict(scores=True) for _ in range(2))
    for facts in (first, second):
        facts["cost"]["update_us"] = 0
        for one in facts["alarms"]:
            one["update_us"] = 0
    assert first == second


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
