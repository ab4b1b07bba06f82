"""The board of real runs, against what comes out by hand, and at chance where there is nothing to find."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.stored_alarms import StoredAlarms, reduced
from trainwreck.evaluation.logs.real_runs.board import LENIENT, STRICT, Labels, RealBoard, board_of, real_board
from trainwreck.evaluation.logs.real_runs.board_files import write_real_board
from trainwreck.evaluation.logs.real_runs.replays import Replays
from trainwreck.evaluation.logs.real_runs.runs import RealRun, labelled
from trainwreck.evaluation.replay.alarms import Alarms

SCORES = ("nonfinite_loss", "always", "never")


def run(cluster: str, step: int | None = None, *, first: int = 0, last: int = 100, evidence: int = 10) -> RealRun:
    """A run; failed where it has a step."""
    name = f"{cluster}-{step}-{last}"
    outcome = "healthy" if step is None else "failed"
    return RealRun(name, name, outcome, step, None, cluster, first, last, evidence, frozenset({"loss"}))


def verdicts(*pairs: tuple[int, float], alarm: float = math.inf, crashed: bool = False) -> StoredAlarms:
    steps, scores = zip(*pairs, strict=True)
    first, status = None if math.isinf(alarm) else int(alarm), "crashed" if crashed else "ok"
    no = np.zeros(len(pairs), bool)
    return reduced(
        Alarms("r", np.array(steps), np.array(scores, float), no, np.zeros(0, int), first, (), status, 1.0, 0)
    )


def board(runs: Sequence[RealRun], **said: Sequence[StoredAlarms]) -> RealBoard:
    return board_of(runs, Replays(said, {name: {} for name in said}))


def row(found: RealBoard, name: str) -> Mapping[str, Any]:
    return next(one for one in found.rows if one["detector"] == name)


@pytest.mark.parametrize(
    ("of", "strict", "lenient"),
    [
        (run("a", 40), (40, 70), (20, 100)),
        (run("a", 40, first=30), (40, 70), (35, 100)),
        (run("a", 0), (10, 50), (10, 100)),  # not in the first row
        (run("a", 0, evidence=0), (0, 50), (0, 100)),  # whose loss is not finite
        (run("a", 100), (100, 100), (50, 100)),  # the log ends at the crash
        (run("a", 10), (10, 55), (10, 100)),
    ],
)
def test_in_time_by_hand(of: RealRun, strict: tuple[int, int], lenient: tuple[int, int]) -> None:
    labels = Labels([of, run("b")])
    for window, (low, high) in ((STRICT, strict), (LENIENT, lenient)):
        for alarm in (low, high):
            assert labels.in_time(np.array([[alarm, alarm]]), window).tolist() == [[True, False]]
        for alarm in (low - 1, high + 1, math.inf):
            assert not labels.in_time(np.array([[alarm, alarm]]), window).any()


RUNS = (
    run("a"), run("b"), run("c"), run("d", 40), run("d", 60, last=120), run("c", 40, last=90), run("e", 0),
)  # fmt: skip
QUIET = verdicts((0, 0.0))


def test_recall_and_shares_stopped_by_hand() -> None:
    found = board(
        RUNS,
        mine=[
            verdicts((0, 0), (20, 1), alarm=20),
            verdicts((0, 0), (20, 2)),
            verdicts((0, 0), (20, 3)),
            verdicts((0, 0), (40, 3.5), alarm=40),  # cluster d, judged by three clusters: 0.2
            verdicts((0, 0), (50, 3.5), alarm=50),  # too early for the strict window, not for the lenient one
            verdicts((0, 0), (40, 3.5)),  # cluster c, judged by two: 0.15
            verdicts((0, 3.5), (10, 3.6), alarm=0),  # of cluster e; over every threshold in the first row
        ],
    )
    mine = row(found, "mine")
    values = {
        "recall_0.05": (0.1 + 0.15 + 0.0) / 3, "recall_by_run_0.05": (0.2 + 0.15) / 4,
        "recall_lenient_0.05": (0.2 + 0.15 + 0.0) / 3, "recall_lenient_by_run_0.05": (0.2 + 0.2 + 0.15) / 4,
        "recall_0.01": (0.02 + 0.03) / 3, "stopped_0.05": 0.15 / 3, "stopped_0.01": 0.01,
        "recall_default": (0.5 + 0 + 0) / 3, "recall_by_run_default": 1 / 4, "recall_lenient_default": 1 / 3,
        "stopped_default": 1 / 3, "area": (0.5 + 1 + 0) / 3, "area_lenient_by_run": 3 / 4,
    }  # fmt: skip
    for name, value in values.items():
        assert mine[name] == pytest.approx(value, abs=1e-12), name
        assert mine[f"{name}_low"] <= value <= mine[f"{name}_high"], name
    assert found.counts == {"failed": 4, "healthy": 3, "clusters_failed": 3, "clusters_healthy": 3}
    assert "3 clusters have healthy runs: with so few no recall at 5% is above 0.20" in found.notes


def test_nothing_is_credited_that_says_the_same_of_every_run() -> None:
    found = board(RUNS, always=[verdicts((0, 1.0), alarm=0)] * 7, never=[QUIET] * 7)
    for name, stopped in (("always", 1.0), ("never", 0.0)):
        one = row(found, name)
        assert one["stopped_default"] == stopped
        for key in one:
            if key.startswith(("recall", "area")) and not key.endswith(("_low", "_high")):
                assert one[key] == 0.0, key
        assert one["stopped_0.05"] == one["stopped_0.01"] == 0.0
        assert one["rank"] == 1


def test_an_alarm_from_the_second_row_on_in_every_run_is_at_chance() -> None:
    late = verdicts((0, 0), (10, 1), alarm=10)
    one = row(board(RUNS, late=[late] * 7), "late")
    # At the default it stops all, and finds the run that failed from the start; at 5 % it stops one run in twenty.
    assert (one["stopped_default"], one["recall_default"]) == (1.0, pytest.approx(1 / 3))
    assert one["stopped_0.05"] == pytest.approx(0.05, abs=1e-12)
    assert one["recall_0.05"] == pytest.approx(0.05 / 3, abs=1e-12)


def test_infinity_outranks_every_finite_score() -> None:
    of = [verdicts((0, 0), (20, 1e300))] * 3 + [verdicts((0, 0), (40, math.inf))] + [QUIET] * 3
    one = row(board(RUNS, mine=of), "mine")
    assert one["recall_by_run_0.05"] == pytest.approx(0.2 / 4, abs=1e-12)
    assert one["area_by_run"] == pytest.approx(1 / 4, abs=1e-12)


def test_a_failure_of_the_detector_is_a_miss_and_spends_the_budget() -> None:
    hit = verdicts((0, 0), (40, 9), alarm=40)
    fine = board(RUNS, mine=[QUIET] * 3 + [hit] * 4)
    failed = board(
        RUNS, mine=[verdicts((0, 0), crashed=True), QUIET, QUIET, *[hit] * 3, verdicts((0, 9), crashed=True)]
    )
    assert row(fine, "mine")["recall_by_run_0.05"] > 0 == row(failed, "mine")["recall_by_run_0.05"]
    assert (row(fine, "mine")["recall_by_run_default"], row(failed, "mine")["recall_by_run_default"]) == (0.75, 0.5)
    assert row(failed, "mine")["crashed"] == 2


def test_scores_that_know_nothing_are_at_chance() -> None:
    """Thirty entries whose scores do not depend on the outcome: recall at 5 % is 5 %, and the intervals hold it."""
    random = np.random.default_rng(3)
    runs = [run(f"h{i}") for i in range(30)] + [run(f"f{i}", 0) for i in range(12)]
    entries = {
        f"entry{i}": [verdicts((0, 0), (10 * int(random.integers(1, 6)), x)) for x in random.uniform(1, 2, 42)]
        for i in range(30)
    }
    found = board(runs, **entries)
    recall = np.array([one["recall_0.05"] for one in found.rows])
    assert abs(recall.mean() - 0.05) < 4 * recall.std() / math.sqrt(len(recall))
    held = [one["recall_0.05_low"] <= 0.05 <= one["recall_0.05_high"] for one in found.rows]
    assert np.mean(held) >= 0.9
    assert {one["rank"] for one in found.rows} == {1}
    for one in found.rows:
        assert one["stopped_0.05"] == pytest.approx(0.05, abs=1e-12)


def test_one_that_finds_all_is_ahead_of_one_that_finds_nothing() -> None:
    runs = [run(f"h{i}") for i in range(25)] + [run(f"f{i}", 40) for i in range(12)]
    hit = verdicts((0, 0), (40, 1), alarm=40)
    found = board(runs, blind=[QUIET] * 37, sharp=[QUIET] * 25 + [hit] * 12)
    assert [(one["detector"], one["rank"], one["recall_0.05"]) for one in found.rows] == [
        ("sharp", 1, 1.0), ("blind", 2, 0.0)
    ]  # fmt: skip
    assert found.rows[0]["recall_0.05_low"] == pytest.approx(0.025 ** (1 / 12))  # exact, of 12 clusters


def test_healthy_runs_in_one_cluster_set_no_threshold() -> None:
    found = board([run("a"), run("b", 40), run("a", 40)], mine=[QUIET, verdicts((0, 0), (40, 1), alarm=40), QUIET])
    assert math.isnan(found.rows[0]["recall_0.05"])
    assert found.rows[0]["recall_default"] == 0.5
    assert any(note.startswith("healthy runs in one cluster alone") for note in found.notes)
    assert found.to_dict()["rows"][0]["recall_0.05"] is None


def test_the_board_of_imported_runs(real: DataSet, labels: Callable[..., Path], tmp_path: Path) -> None:
    found = real_board(real, labels(), SCORES)
    one = row(found, "nonfinite_loss")
    # broken is found at its step, late is alarmed at 100 of 400, before half of it; wobble, healthy, is stopped.
    assert (one["recall_by_run_default"], one["recall_lenient_by_run_default"]) == pytest.approx((1 / 3, 1 / 3))
    assert (one["stopped_default"], one["stopped_by_run_default"]) == pytest.approx((1 / 4, 1 / 3))
    assert found.to_frame()["rank"].tolist() == [1, 1, 1]
    assert "nonfinite_loss" in repr(found)
    files = write_real_board(tmp_path / "out", real, labels(), found, "trainwreck leaderboard")
    assert sorted((tmp_path / "out").iterdir()) == sorted(files)
    table = pd.read_parquet(tmp_path / "out" / "leaderboard.parquet")
    assert table["recall_by_run_default"].tolist() == found.to_frame()["recall_by_run_default"].tolist()
    assert set(table["profile"]) == {"log"}
    assert pd.read_csv(tmp_path / "out" / "leaderboard.csv").columns.tolist() == table.columns.tolist()
    content = json.loads((tmp_path / "out" / "leaderboard.json").read_text(encoding="utf-8"))
    assert content["rows"] == found.to_dict()["rows"]
    assert content["made"]["labels_sha256"] == table["labels_sha256"][0]
    detections = pd.read_parquet(tmp_path / "out" / "detections.parquet")
    assert detections.groupby("detector").size().to_dict() == dict.fromkeys(SCORES, 3)
    for name, group in detections.groupby("detector"):
        mean = float(np.average(group["found_default"], weights=group["weight"]))
        assert mean == pytest.approx(row(found, str(name))["recall_default"], abs=1e-12)


def test_two_processes_say_what_one_does(real: DataSet, labels: Callable[..., Path]) -> None:
    rows = [real_board(real, labels(), SCORES, workers=workers).to_dict()["rows"] for workers in (1, 2)]
    for one in (*rows[0], *rows[1]):
        del one["update_us"]
    assert rows[0] == rows[1]


def test_the_first_row_is_evidence_where_its_loss_is_not_finite(real: DataSet, labels: Callable[..., Path]) -> None:
    assert {one.first_evidence for one in labelled(real, labels())} == {10}


def test_what_is_refused(real: DataSet, labels: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match="detectors: none is not allowed"):
        real_board(real, labels(), [])
    with pytest.raises(InputError, match="'never' is named twice"):
        real_board(real, labels(), ["never", "never"])
    healthy = [(f"{name}.csv,healthy", f"{name}.csv,unknown") for name in ("calm", "wobble", "noisy")]
    with pytest.raises(InputError, match="has no healthy run; allowed: failed and healthy ones"):
        real_board(real, labels(*healthy), SCORES)
