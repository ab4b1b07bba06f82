"""results/wild: the parts that are made are whole, and its page counts what is in them."""

from pathlib import Path

import pandas as pd

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.schema import FAILURES, UNDER_FAULT
from trainwreck.scenarios.datasets.wild import outcomes

RECORD = Path(__file__).resolve().parents[4] / "results" / "wild"


def test_the_parts_are_whole_and_the_page_counts_them():
    data = load(RECORD / "data")  # checks every sum
    page = " ".join((RECORD / "README.md").read_text("utf-8").split())
    assert f"{len(data.runs)} runs on {data.runs['base'].nunique()} setups" in page
    counted = outcomes.families(outcomes.table(data.runs)).loc["all"]
    ends = [int(counted[what]) for what in outcomes.HARMED]
    assert (
        "Of {} runs under a fault {} are harmed: {} end non-finite, {} are stuck, {} neither".format(
            int(counted["runs"]), sum(ends), *ends
        )
        in page
    )


def test_the_runs_of_coverage_are_whole_and_the_page_counts_them():
    runs = load(RECORD / "coverage").runs
    faulty = runs[runs["kind"].isin(UNDER_FAULT)]
    page = " ".join((RECORD / "README.md").read_text("utf-8").split())
    assert (
        f"{len(runs)} runs on {runs['base'].nunique()} setups, {len(faulty)} of them under faults of "
        f"{faulty['scenario'].nunique()} scenarios" in page
    )
    assert f"{int(faulty['kind'].isin(FAILURES).sum())} of these runs are harmed" in page


def test_the_board_is_of_their_failing_test_runs():
    runs = pd.read_parquet(RECORD / "data" / "runs.parquet").set_index("run_id")
    # A failure that no signal shows is nobody's to find.
    failing = runs[(runs["split"] == "test") & (runs["kind"] == "failing") & runs["visible_step"].notna()]
    found = pd.read_parquet(RECORD / "board" / "detections.parquet")
    assert set(found["run_id"]) == set(failing.index)
    thresholds = pd.read_parquet(RECORD / "board" / "thresholds.parquet")
    chances = thresholds.groupby(["detector", "point"])["chance"].sum()
    assert ((chances - 1).abs() < 1e-9).all()
    assert set(found["detector"]) == set(thresholds["detector"])
