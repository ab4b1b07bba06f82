"""Which runs a release holds: all but the private ones, or those apart."""

import json
import re
from typing import Any

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import PUBLIC_SEEDS
from trainwreck.evaluation.errors import InputError

PRIVATE = "private"  # the split of the runs that a public release leaves out
CALIBRATION = "calibration"  # healthy runs, which freeze a detector's thresholds on any test
# Both are part of a path; Hugging Face takes no hyphen in the name of a split.
WORDS = {"split": re.compile(r"[a-z0-9_]+"), "kind": re.compile(r"[a-z0-9_-]+( [a-z0-9_-]+)*")}


def released_rows(dataset: DataSet, *, private: bool) -> list[dict[str, Any]]:
    """Rows of the runs table that are released, in their order.

    private: the private runs with the calibration runs, which scoring them needs, instead of all but
    the private ones and the calibration runs on seeds of their salt. InputError where nothing is left, or a twin
    stays behind.
    """
    table = dataset.rows()
    if private and not any(row["split"] == PRIVATE for row in table):
        raise InputError(f"{dataset.path}: has no run of split {PRIVATE!r}, so there is no private release of it")
    secret = any(row["split"] == PRIVATE for row in table)
    rows = [row for row in table if _wanted(row, private, secret)]
    if not rows:
        raise InputError(f"{dataset.path}: every run is private; allowed: --private, or a data set with other runs")
    kept = {row["run_id"] for row in rows}
    known = {row["run_id"] for row in table}
    for row in rows:
        if row["twin_id"] in known - kept:
            raise InputError(f"{dataset.path}: run {row['run_id']} is released, its twin {row['twin_id']} is not")
        for name, word in WORDS.items():
            if not word.fullmatch(row[name]):
                raise InputError(f"{dataset.path}: {name}: {row[name]!r} is not allowed; allowed: a word such as test")
    return rows


def scenario_names(rows: list[dict[str, Any]]) -> set[str]:
    """Catalogue entries that the rows name, healthy runs by the scenario whose base they have."""
    names = {row["scenario"] for row in rows} | {json.loads(row["spec"]).get("scenario", "") for row in rows}
    return names - {""}


def plan_of(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The plan that `generate` makes these runs of again."""
    return {"format": "trainwreck-plan", "name": name, "runs": [json.loads(row["spec"]) for row in rows]}


def _wanted(row: dict[str, Any], private: bool, secret: bool) -> bool:
    """secret: whether the data set has private runs; calibration runs on seeds of a salt stay with them."""
    if private:
        return row["split"] in (PRIVATE, CALIBRATION)
    drawn = secret and row["split"] == CALIBRATION and row["seed"] >= PUBLIC_SEEDS
    return row["split"] != PRIVATE and not drawn
