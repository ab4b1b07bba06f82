"""Labels that telemetry alone decides: visible steps, outcomes, and from them a run's kind.

Cause and onset come from the injection and are never touched here.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from trainwreck.evaluation.dataset import load, write_manifest, write_runs
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import write_text
from trainwreck.evaluation.schema import FAILURES, JOINT, Outcome, RunKind
from trainwreck.evaluation.trace import Trace
from trainwreck.evaluation.visible import FEWEST, Spread, spread, visible_steps

LOSSES = ("loss", "validation_loss")


def label_runs(rows: list[dict[str, Any]], trace: Callable[[str], Trace]) -> list[dict[str, Any]]:
    """Rows of the runs table with visible steps, outcome and kind filled in, in the same order.

    rows: with the injection's facts and `final_loss`. trace: run_id to telemetry. Runs of a base with
    fewer than eight healthy runs get no visible step.
    """
    by_id = {row["run_id"]: row for row in rows}
    bases: dict[str, list[str]] = {}
    for row in rows:
        if row["kind"] == RunKind.HEALTHY.value:
            bases.setdefault(row["base"], []).append(row["run_id"])
    spreads = {base: spread([trace(i) for i in ids]) for base, ids in bases.items() if len(ids) >= FEWEST}
    return [_labelled(row, by_id, spreads.get(row["base"]), trace) for row in rows]


def _labelled(
    row: dict[str, Any], by_id: dict[str, dict[str, Any]], healthy: Spread | None, trace: Callable[[str], Trace]
) -> dict[str, Any]:
    row = dict(row)
    run = trace(row["run_id"])
    twin = trace(row["twin_id"]) if row["twin_id"] in by_id and row["twin_id"] != row["run_id"] else None
    if twin is not None:
        row["final_gap"] = _difference(row["final_loss"], by_id[row["twin_id"]]["final_loss"])
    row["outcome"] = _outcome(run, row)
    if twin is not None and healthy is not None and row["onset_step"] is not None:
        steps = visible_steps(run, twin, healthy, row["onset_step"])
        row["visible_steps"] = json.dumps(steps, sort_keys=True)
        row["visible_step"] = min(steps.values(), default=None)
        if row["kind"] in (*FAILURES, RunKind.LATENT.value):
            harmed = row["outcome"] != Outcome.RECOVERED.value or any(name in steps for name in LOSSES)
            failing = RunKind.COMPOUND if JOINT in row["scenario"] else RunKind.FAILING
            row["kind"] = (failing if harmed else RunKind.LATENT).value
    return row


def _outcome(run: Trace, row: dict[str, Any]) -> str:
    if not np.isfinite(run["loss"][-1]):
        return Outcome.NON_FINITE.value
    gap, tolerance = row["final_gap"], row["tolerance"]
    within = gap is None or tolerance is None or bool(abs(gap) <= tolerance)
    outcome = Outcome.RECOVERED if within else Outcome.DAMAGED
    return outcome.value


def _difference(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def relabel(folder: Path) -> list[dict[str, Any]]:
    """Label a data set again and write its runs table and manifest; rows as written.

    What an earlier labelling filled in is measured anew; nothing else changes. Killed between the
    two files, it leaves a data set without a manifest, which `generate` with its plan finishes.
    """
    dataset = load(folder)
    if "release" in dataset.manifest:
        raise InputError(f"{folder}: a release is never changed; allowed: the data set that it was made of")
    table = pq.read_table(folder / "runs.parquet").to_pylist()
    rows = [{**row, "visible_step": None, "visible_steps": "{}"} for row in table]
    labelled = label_runs(rows, dataset.trace)
    manifest = folder / "manifest.json"
    before = manifest.read_text(encoding="utf-8")
    manifest.unlink()
    with ExitStack() as undo:
        undo.callback(write_text, manifest, before)
        write_runs(folder, labelled)
        undo.pop_all()
    kept = {k: v for k, v in dataset.manifest.items() if k not in ("files", "format", "schema_version")}
    write_manifest(folder, kept)
    return labelled
