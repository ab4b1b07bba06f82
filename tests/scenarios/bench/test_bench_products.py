"""`bench products`: runs are paired by what they are but for their products, and counted by hand."""

import json

import pandas as pd
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.scenarios.bench.claims import products

TINY = ("model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=2", "steps=20")


def runs(*rows):
    columns = ("run_id", "spec", "kind", "visible_step", "no_return_step", "planned_steps", "final_loss")
    return pd.DataFrame([dict(zip(columns, row, strict=True)) for row in rows])


def spec(seed, *overrides):
    return json.dumps({"scenario": "high_lr", "seed": seed, "overrides": list(overrides)})


BEFORE = runs(
    ("a0", spec(0), "failing", 10, 40, 100, 2.0),
    ("a1", spec(1), "failing", 10, 40, 100, float("nan")),
    ("a2", spec(2, "precision.format=fp16"), "healthy", None, None, 100, 1.0),
    ("a3", spec(3, "steps=9"), "failing", 10, None, 100, 1.0),
)
AFTER = runs(
    ("b3", spec(3, "precision.format=bf16", "steps=9"), "latent", None, None, 100, 1.0),
    ("b0", spec(0, "precision.format=bf16"), "failing", 12, 46, 100, 2.5),
    ("b1", spec(1, "precision.format=bf16"), "failing", 13, 45, 100, 3.0),
    ("a2", spec(2, "precision.format=fp16"), "healthy", None, None, 100, 1.0),
)


def test_a_table_by_hand():
    environment = {"environment": {"processor": "one"}}
    sets = [DataSet.__new__(DataSet) for _ in range(2)]
    for data, frame in zip(sets, (BEFORE, AFTER), strict=True):
        data.__dict__.update(runs=frame, manifest=environment)
    table = products.table(*sets)
    assert table.rows == (
        ("failing", 3, "2 of 3", "1 of 3", "1 of 2", "0.25, 0.5 at most"),
        ("healthy", 1, "1 of 1", "-", "-", "0, 0 at most"),
        ("all", 4, "3 of 4", "1 of 3", "1 of 2", "0, 0.5 at most"),
    )
    assert "4 runs, of which 3 have bfloat16 products" in table.how
    assert table.title.startswith("With bfloat16 products 3 of 4 runs")


def test_runs_of_another_plan_are_not_paired():
    with pytest.raises(ValueError, match="4 and 3 runs, of which 3 are of one plan"):
        products.paired(BEFORE, AFTER.head(3))


def test_both_data_sets_are_made_and_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(products, "KEPT", tmp_path)
    made = products.made
    plan = ("scenario=nan_weight_spread", "seed=0", *TINY)
    monkeypatch.setattr(products, "made", lambda words, *rest: made((*plan, *words[1:]), *rest))
    table = products.beside_float32(lambda *_: None)
    assert (tmp_path / "bf16" / "runs.parquet").is_file()
    *_, everything = table.rows
    assert everything[1] == 11
    assert "of which 11 have bfloat16 products" in table.how
