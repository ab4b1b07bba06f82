"""Scoring against TSB-AD's metrics, at a tiny setting, with a stand-in for these. No time is asserted."""

import json
import sys
import types

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.dataset.schema import FAILURES
from trainwreck.evaluation.leaderboard.run import score
from trainwreck.scenarios.bench import measure, record
from trainwreck.scenarios.bench import score as bench
from trainwreck.scenarios.bench.score import PEER

OWN = 6


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(bench, "ROUNDS", 1)
    monkeypatch.setattr(bench, "COPIES", 2)


@pytest.fixture
def peer(monkeypatch):
    """Notes the series that it gets."""
    series = []
    module = types.ModuleType(bench.METRICS)
    module.get_metrics = lambda scores, labels: series.append((scores, labels))
    monkeypatch.setitem(sys.modules, "TSB_AD", types.ModuleType("TSB_AD"))
    monkeypatch.setitem(sys.modules, "TSB_AD.evaluation", types.ModuleType("TSB_AD.evaluation"))
    monkeypatch.setitem(sys.modules, bench.METRICS, module)
    return series


@pytest.mark.usefixtures("tiny")
def test_few_runs_many_runs_their_parts_and_the_peer(peer, tmp_path):
    table = measure("score", lambda *message: None)
    assert len(table.rows) == OWN + 1
    few, many = table.rows[:2]
    assert (many[1], many[2]) == (2 * few[1], 2 * few[2])
    assert [row[2] for row in table.rows[2:OWN]] == [many[2]] * (OWN - 2)
    name, runs, rows, ms, _, ratio = table.rows[-1]
    assert (name, ratio) == (PEER, 1.0)
    assert ms >= 0
    assert len(peer) == 2 * runs  # a round that counts for nothing, and one that counts
    assert sum(len(scores) for scores, _ in peer[:runs]) == rows
    assert all(set(labels.tolist()) == {0, 1} and np.isfinite(scores).all() for scores, labels in peer)
    assert "left out" not in table.how
    assert table.limit.rows[0][2] == 1.0
    (goal,) = table.goals
    assert (goal.what, goal.peer, goal.asked) == (many[0], PEER, 200)
    assert goal.measured == many[-1]
    json.dumps(table.to_dict(), allow_nan=False)
    record.save_picture(table, tmp_path / "score.png")
    assert (tmp_path / "score.png").stat().st_size < 100_000


@pytest.mark.usefixtures("tiny")
def test_without_the_peer_its_row_is_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "TSB_AD", None)  # importing it raises ModuleNotFoundError
    table = measure("score", lambda *message: None)
    assert len(table.rows) == OWN
    assert PEER not in " ".join(table.columns)
    assert "TSB-AD is left out: it is not installed; `pip install --no-deps TSB-AD`" in table.how
    assert table.goals == ()


def test_copies_are_scored_as_the_runs_are(tmp_path):
    small = load(sample())
    many = bench.copied(tmp_path, small, 3)
    assert len(many) == 3 * len(small)
    assert many.runs.groupby(["base", "seed"]).ngroups == 3 * small.runs.groupby(["base", "seed"]).ngroups
    assert set(many.runs["twin_id"]) <= {*many.runs["run_id"], *(bench._id(i, 0) for i in small.runs["twin_id"]), ""}
    one, three = score("zclip", small), score("zclip", many)
    assert three.recall["default"].value == one.recall["default"].value
    assert three.counts["failing"] == 3 * one.counts["failing"]
    stored = {alarms.run_id: alarms for alarms in three.alarms}
    for alarms in one.alarms:
        assert np.array_equal(stored[f"{alarms.run_id}-2"].scores, alarms.scores)


def test_labels_are_1_from_the_onset_on():
    small = load(sample())
    alarms = score("zclip", small).alarms
    found = bench.labelled(small, alarms)
    runs = small.runs[small.runs["split"] == "test"]
    onsets = runs["onset_step"][runs["kind"].isin(FAILURES) & (runs["onset_step"] > 0)]
    assert [len(labels) - labels.sum() for _, labels in found] == onsets.tolist()
    assert len(found) > 10
