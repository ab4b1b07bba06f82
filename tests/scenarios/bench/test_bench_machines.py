"""`bench machines`: the settings reach what trains, and the table has the summary of each pair."""

import json
from pathlib import Path

import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.bench.claims import machines

ROOT = Path(__file__).resolve().parents[3]


def test_a_limit_reaches_the_processes(tmp_path, monkeypatch):
    plan = "scenario=nan_weight_spread", "seed=0", "steps=20"
    monkeypatch.setattr(machines, "PLAN", plan)
    found = machines.made(tmp_path / "limited", machines.WITHOUT_AVX)
    assert found.manifest["environment"]["cpu_capability"] in ("DEFAULT", "NO AVX")


def test_what_fails_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(machines, "PLAN", ("nothing",))
    with pytest.raises(InputError, match="ended with 2"):
        machines.made(tmp_path / "made", {})


def test_the_table_has_a_row_a_pair():
    shipped = load(sample())
    table = machines.table(dict.fromkeys((machines.SHIPPED, *machines.MADE), shipped))
    assert [row[0] for row in table.rows] == [" and ".join(pair) for pair in machines.PAIRS]
    assert {row[1:4] for row in table.rows} == {("68 of 68", "-", "0")}
    assert "AMD EPYC with AVX512" in table.how
    assert "ONEDNN_MAX_CPU_ISA=SSE41" in table.how
    json.dumps(table.to_dict(), allow_nan=False)


def test_the_committed_table_is_of_this_sample_and_these_pairs():
    rows = json.loads((ROOT / "results" / "machines" / "result.json").read_text(encoding="utf-8"))["rows"]
    assert [row["data sets"] for row in rows] == [" and ".join(pair) for pair in machines.PAIRS]
    assert all(row["bitwise identical"].endswith(f" of {len(load(sample()))}") for row in rows)
