"""The measurement of opening and replaying, at a tiny setting. No time is asserted."""

import json

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.scenarios.bench import measure
from trainwreck.scenarios.bench import replay as bench


def test_opening_and_replaying(monkeypatch):
    monkeypatch.setattr(bench, "ROUNDS", 1)
    monkeypatch.setattr(bench, "RUNS", 150)
    ticks = []
    table = measure("replay", lambda *said: ticks.append(said[:2]))
    assert ticks == [(0, 1), (1, 1)]
    assert len(table.rows) == 9
    assert all(row[1] > 0 and row[2] > 0 for row in table.rows)
    rows = int((load(sample()).runs["last_step"] + 1).sum())
    assert f"{rows:,} rows of" in table.how
    assert [round(row[1] * row[2] / rows, 1) for row in table.rows[2:]] == [1.0] * 7
    assert [row[0] for row in table.limit.rows] == [bench.NOTHING, bench.ONE, bench.EVERY, bench.PEER]
    assert all(row[1] > 0 and row[2] > 0 and row[3] > 0 for row in table.limit.rows)
    json.dumps(table.to_dict(), allow_nan=False)


def test_many_runs_are_a_data_set(tmp_path):
    small = load(sample())
    bench._write_runs(tmp_path, small, 150)
    many = load(tmp_path)
    assert len(many) == many.runs.index.nunique() == 150
    assert many.runs["spec"].nunique() == 150
    assert many.runs["context"].iloc[-1] == small.runs["context"].iloc[149 % len(small)]
