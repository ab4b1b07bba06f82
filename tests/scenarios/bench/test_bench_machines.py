"""`bench machines`: the settings reach what trains, and the table has the summary of each pair."""

import json
from pathlib import Path

import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.bench.claims import machines

ROOT = Path(__file__).resolve().parents[3]


def test_a_limit_reaches_the_processes(tmp_path):
    tiny = ("model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=2", "steps=20")
    plan = ("scenario=nan_weight_spread", "seed=0", *tiny)
    lines = []
    found = machines.made(plan, tmp_path / "limited", machines.WITHOUT_AVX, lines.append)
    assert found.manifest["environment"]["cpu_capability"] in ("DEFAULT", "NO AVX")
    assert found.runs["no_return_step"].notna().any()
    assert {line.split()[0] for line in lines if "% after" in line} == {"train", "points"}


def test_what_fails_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"generate nothing --out \S+: ended with 2: trainwreck: ") as error:
        machines.made(("nothing",), tmp_path / "made", {}, lambda line: None)
    assert "\n" not in str(error.value)


def test_progress_says_of_what():
    lines = []
    tell = machines.line_tick(lambda *words: lines.append(words), 1, 3, "sample here")
    tell("train: 40% after 2 s")
    assert lines == [(1, 3, "sample here"), (1, 3, "sample here, train: 40% after 2 s")]


def test_the_table_has_a_row_a_pair():
    shipped = load(sample())
    table = machines.table({(plan, name): shipped for plan, *names in machines.PAIRS for name in names})
    assert [row[:2] for row in table.rows] == [(plan, f"{a} and {b}") for plan, a, b in machines.PAIRS]
    assert {row[2:5] for row in table.rows} == {(f"{len(shipped)} of {len(shipped)}", "-", "0")}
    made_on = shipped.manifest["environment"]
    assert f"{made_on['processor']} with {made_on['cpu_capability']}" in table.how
    assert "ONEDNN_MAX_CPU_ISA=SSE41" in table.how
    json.dumps(table.to_dict(), allow_nan=False)


def test_the_committed_table_is_of_this_sample_and_these_pairs():
    rows = json.loads((ROOT / "results" / "machines" / "result.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["plan"], row["data sets"]) for row in rows] == [(p, f"{a} and {b}") for p, a, b in machines.PAIRS]
    runs = (load(sample()).runs["split"] != "train").sum()  # recorded before the sample had a train split
    assert all(row["bitwise identical"].endswith(f" of {runs}") for row in rows if row["plan"] == machines.SAMPLE)
