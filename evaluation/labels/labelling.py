"""Labels: visible steps, outcomes and from them a run's kind, by telemetry alone; points of no return as found.

Cause and onset come from the injection and are never touched here. Points of no return are found by
training (`scenarios/proof/no_return.py`), which leaves a file a run; here they go into the runs table.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from trainwreck.evaluation.constants import CALIBRATION
from trainwreck.evaluation.dataset.dataset import DataSet, load, read_runs, write_manifest, write_runs
from trainwreck.evaluation.dataset.schema import FAILURES, JOINT, UNDER_FAULT, Harm, Outcome, RunKind
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json, write_text
from trainwreck.evaluation.labels.kinds import is_harmed, kind_of, moved, outcome_of, signature_held
from trainwreck.evaluation.labels.visible import Spread, by_profile, by_signal, departures, spreads
from trainwreck.evaluation.replay.unlabelled import refuse_imported

MOST = 16  # healthy runs of a base that the visible steps rest on; all pairs of them are compared

# Rows of the runs table with `signatures` measured again where that can be done; traces by run_id.
Signatures = Callable[[list[dict[str, Any]], Callable[[str], Trace]], list[dict[str, Any]]]


def label_runs(
    rows: list[dict[str, Any]], trace: Callable[[str], Trace], points: Mapping[str, dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Rows of the runs table with visible steps, outcome, kind and point of no return filled in, in the same order.

    rows: with the injection's facts, `final_loss` and `signatures`. trace: run_id to telemetry. points: run_id to
    what was found by branching. Runs of a base with fewer than eight healthy runs get no visible step.
    """
    by_id = {row["run_id"]: row for row in rows}
    levels = spreads({base: [trace(i) for i in ids[:MOST]] for base, ids in healthy_of(rows).items()})
    labelled = [_labelled(row, by_id, levels.get(row["base"]), trace) for row in rows]
    return [_with_no_return(row, (points or {}).get(row["run_id"])) for row in labelled]


def healthy_of(rows: Iterable[Mapping[Any, Any]]) -> dict[str, list[str]]:
    """Healthy runs by base, those for calibration first; the order of the rows does not matter."""
    bases: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: (row["split"] != CALIBRATION, row["run_id"])):
        if row["kind"] == RunKind.HEALTHY.value:
            bases.setdefault(row["base"], []).append(row["run_id"])
    return bases


def _with_no_return(row: dict[str, Any], point: dict[str, Any] | None) -> dict[str, Any]:
    """A failing run that ended well without a cure can be saved to the end; for others p is what was found."""
    step, branches, monotone = None, "{}", None
    if row["kind"] in FAILURES and row["outcome"] == Outcome.RECOVERED.value:
        step = row["last_step"]
    elif row["kind"] in FAILURES and point is not None:
        step, monotone = point["no_return_step"], point["monotone"]
        branches = json.dumps(point["branches"])
    return {**row, "no_return_step": step, "no_return_branches": branches, "no_return_monotone": monotone}


def _labelled(
    row: dict[str, Any], by_id: dict[str, dict[str, Any]], healthy: Spread | None, trace: Callable[[str], Trace]
) -> dict[str, Any]:
    row = dict(row)
    run = trace(row["run_id"])
    twin = trace(row["twin_id"]) if row["twin_id"] in by_id and row["twin_id"] != row["run_id"] else None
    if twin is not None:
        row["final_gap"] = _difference(row["final_loss"], by_id[row["twin_id"]]["final_loss"])
    side = Harm(row.get("harm") or Harm.EITHER.value)
    row["outcome"] = outcome_of(run, row["final_gap"], row["tolerance"], side)
    held = signature_held(row)
    off: bool | None = None
    if twin is not None and healthy is not None and row["onset_step"] is not None:
        found = departures(run, twin, healthy, row["onset_step"])
        steps = by_signal(found)
        row["visible_steps"] = json.dumps(steps, sort_keys=True)
        row["visible_profiles"] = json.dumps(by_profile(found, row["last_step"]), sort_keys=True)
        row["visible_step"] = min(steps.values(), default=None)
        off = moved(found, side, held)
    if row["kind"] in UNDER_FAULT and twin is not None and (off is not None or held is not None):
        harmed = is_harmed(row["outcome"], off)
        row["kind"] = kind_of(harmed, held, compound=JOINT in row["scenario"]).value
    return row


def _difference(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def point_file(folder: Path, run_id: str) -> Path:
    """Where the point of no return of a run is kept."""
    return folder / "no_return" / f"{run_id}.json"


def points_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Points of no return found so far, by run_id. InputError that names a file that is not one."""
    found = {}
    for file in sorted((folder / "no_return").glob("*.json")):
        content = read_json(file)
        if not isinstance(content, dict) or not content.keys() >= {"run_id", "no_return_step", "monotone", "branches"}:
            raise InputError(f"{file}: damaged, not a point of no return")
        found[content["run_id"]] = content
    return found


def refuse_change(dataset: DataSet) -> None:
    """InputError where labels are not to be made again: imported runs have none, and a release stays as it is."""
    refuse_imported(dataset, "labelled")
    if "release" in dataset.manifest:
        raise InputError(f"{dataset.path}: a release is never changed; allowed: the data set that it was made of")


def relabel(folder: Path, signatures: Signatures | None = None) -> list[dict[str, Any]]:
    """Label a data set again and write its runs table and manifest; rows as written.

    What an earlier labelling filled in is measured again, the signatures by `signatures` or else not at all; nothing
    else changes. Killed between the two files, it leaves a data set without a manifest, which `generate` with its
    plan finishes.
    """
    dataset = load(folder)
    refuse_change(dataset)
    table = read_runs(folder).to_pylist()
    rows = [{**row, "visible_step": None, "visible_steps": "{}", "visible_profiles": "{}"} for row in table]
    if signatures is not None:
        rows = signatures(rows, dataset.trace)
    labelled = label_runs(rows, dataset.trace, points_of(folder))
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
