"""`bench replay`: the same rows three ways, and the ratio to batches. No time is asserted."""

import json
from pathlib import Path

from trainwreck.scenarios.bench import measure
from trainwreck.scenarios.bench.claims import replay

ROOT = Path(__file__).resolve().parents[3]
WHERE = ["this process", replay.BATCHED, replay.BY_ROW]


def test_rows_one_at_a_time_beside_batches(monkeypatch):
    monkeypatch.setattr(replay, "ROUNDS", 2)
    monkeypatch.setattr(replay, "RUNS", 3)
    seen = []
    real = replay.replay
    monkeypatch.setattr(replay, "replay", lambda *words: seen.append(real(*words)) or seen[-1])
    ticks = []
    table = measure("replay", lambda done, total, what: ticks.append((done, total)))
    assert [row[0] for row in table.rows] == WHERE
    assert all(row[1] > 0 for row in table.rows)
    assert table.rows[1][4] == 1.0
    assert {alarms.status for alarms in seen} == {"ok"}
    each = [[(one.run_id, one.rows, one.first_alarm) for one in seen[i : i + 3]] for i in range(0, len(seen), 3)]
    assert len(each) == 3 * 3  # a round that counts for nothing, and two
    assert all(one == each[0] for one in each)
    assert ticks == [(0, 2), (1, 2), (2, 2)]


def test_the_record_is_of_this_measurement():
    rows = json.loads((ROOT / "results" / "replay" / "result.json").read_text(encoding="utf-8"))["rows"]
    assert [row["where"] for row in rows] == WHERE
