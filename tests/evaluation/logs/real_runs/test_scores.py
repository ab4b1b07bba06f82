"""Scores on real runs, against what comes out by hand."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.logs.real_runs.estimates import Clusters
from trainwreck.evaluation.logs.real_runs.runs import labelled
from trainwreck.evaluation.logs.real_runs.scores import RealScore, score_real

Labels = Callable[..., Path]


@pytest.fixture
def score(real: DataSet, labels: Labels) -> RealScore:
    return score_real(real, labelled(real, labels()), ["nonfinite_loss"])[0]


def test_shares_by_run_and_by_cluster(score: RealScore) -> None:
    assert score.counts == {
        "runs": 7, "clusters": 4, "healthy": 3, "failed": 3, "unknown": 1, "blind": 0, "alarmed_before": 1,
    }  # fmt: skip
    # Healthy: calm and wobble are one cluster, of which wobble is stopped; noisy is another.
    assert score.false_stop["run"].value == pytest.approx(1 / 3)
    assert score.false_stop["cluster"].value == pytest.approx((1 / 2 + 0) / 2)
    # Failed, each a cluster: broken is found at 300, late is alarmed at 100, before 400, silent never.
    for name, value in (("found", 1 / 3), ("early", 1 / 3), ("found_again", 2 / 3)):
        assert getattr(score, name)["run"].value == pytest.approx(value), name
        assert getattr(score, name)["cluster"].value == pytest.approx(value), name
    # 1 alarm in 3 runs of steps 0 to 590.
    assert score.false_alarms.value == pytest.approx(1e4 / (3 * 591))
    # broken: 300 - 300; silent: a miss, 590 - 200; late is left out.
    assert score.delay.value == pytest.approx((0 + 390) / 2)


def test_what_is_not_known_is_not_zero(score: RealScore) -> None:
    assert {"in-time recall", "recall at a budget of false stops", "lead", "W*"} <= set(score.not_defined)
    facts = score.to_dict()
    assert not {"lead", "skill", "recall"} & set(facts)
    assert facts["scoring_version"]


def test_the_unknown_run_changes_nothing(real: DataSet, labels: Labels, score: RealScore) -> None:
    runs = [run for run in labelled(real, labels()) if run.outcome != "unknown"]
    without = score_real(real, runs, ["nonfinite_loss"])[0]
    for name in ("false_stop", "found", "early", "delay", "false_alarms", "diagnosis"):
        assert _values(getattr(without, name)) == _values(getattr(score, name)), name


def _values(found: Any) -> Any:
    return {key: one.value for key, one in found.items()} if isinstance(found, dict) else found and found.value


def test_clusters_and_runs_are_listed(score: RealScore) -> None:
    rows = {row.pop("cluster"): row for row in map(dict, score.clusters)}
    none = {"healthy": 0, "stopped": 0, "failed": 0, "found": 0, "early": 0, "unknown": 0}
    assert rows["a"] == none | {"healthy": 2, "stopped": 1, "failed": 1, "found": 1}
    assert rows["b"] == none | {"healthy": 1, "failed": 1, "early": 1}
    assert rows["strange.csv"] == none | {"unknown": 1}
    late = next(run for run in score.runs if run["name"] == "late.csv")
    assert (late["first_alarm"], late["alarms"], late["status"]) == (100, [100, 450], "ok")


def test_diagnosis_counts_causes_that_detectors_can_name(real: DataSet, labels: Labels) -> None:
    runs = labelled(real, labels())
    blunt, playbook = score_real(real, runs, ["nonfinite_loss", "playbook"])
    assert blunt.diagnosis is not None
    assert blunt.diagnosis["1"].value == 0.0
    assert playbook.diagnosis is not None
    assert playbook.diagnosis["1"].value == 1.0  # high_lr for broken.csv
    assert "2 failed runs have a cause in other words, and no part in diagnosis" in playbook.notes
    other = score_real(real, labelled(real, labels(("high_lr", "who knows"))), ["playbook"])[0]
    assert other.diagnosis is None
    assert "diagnosis" in other.not_defined


def test_a_run_that_logs_nothing_of_what_is_read_is_left_out(real: DataSet, labels: Labels) -> None:
    score = score_real(real, labelled(real, labels()), ["zclip"])[0]
    assert (score.counts["healthy"], score.counts["failed"], score.counts["blind"]) == (0, 0, 6)
    assert all(math.isnan(one.value) for one in (*score.false_stop.values(), *score.found.values(), score.delay))
    assert score.to_dict()["found"]["run"] == {"value": None, "low": None, "high": None}
    assert "6 of 7 runs log nothing of grad_norm, and are left out" in score.notes


def test_a_crash_is_a_miss_that_shows(real: DataSet, labels: Labels, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    def reset(self, context): pass\n    def update(self, row): return row['lr'] > 1\n",
        encoding="utf-8",
    )
    score = score_real(real, labelled(real, labels()), [f"{tmp_path}/mine.py:Mine"])[0]
    assert score.found["run"].value == 0.0
    assert len(score.crashes) == 7
    assert "TypeError" in score.crashes[0]


def test_an_interval_moves_whole_clusters() -> None:
    names = [name for name in "abcdefgh" for _ in range(25)]  # 25 runs of a cluster are alike
    clusters = Clusters(names)
    values = np.array([name in "abcd" for name in names])
    share = clusters.share(values, np.ones(200, bool))["run"]
    assert share.value == 0.5
    assert share.low == pytest.approx(1 / 8, abs=1 / 8)
    assert share.high == pytest.approx(7 / 8, abs=1 / 8)  # of 8 clusters; 200 runs would have 0.43 to 0.57


def test_no_interval_has_no_width_for_want_of_variation() -> None:
    clusters = Clusters(["a", "a", "b", "c"])
    every = np.ones(4, bool)
    none = clusters.share(~every, every)["cluster"]
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(beta.ppf(0.975, 1, 3))  # Clopper and Pearson of 0 in 3
    assert clusters.share(every, every)["run"].low == pytest.approx(beta.ppf(0.025, 3, 1))
    alone = clusters.share(np.array([True, False, False, False]), np.array([True, True, False, False]))["run"]
    assert alone.value == 0.5
    assert math.isnan(alone.low)
    assert math.isnan(clusters.share(every, ~every)["run"].value)


def test_uneven_clusters_count_the_same_by_cluster() -> None:
    clusters = Clusters(["a"] * 9 + ["b", "b"])
    values = np.array([True] * 9 + [False, True])
    share = clusters.share(values, np.ones(11, bool))
    assert share["run"].value == pytest.approx(10 / 11)
    assert share["cluster"].value == pytest.approx((1 + 1 / 2) / 2)
