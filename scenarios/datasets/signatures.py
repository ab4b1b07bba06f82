"""Whether the runs of a data set show the signatures of their causes, each against its own twin."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from trainwreck.evaluation.dataset.diff import compare
from trainwreck.evaluation.dataset.schema import LOGGING, UNDER_FAULT, RunKind
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.spec import outside
from trainwreck.scenarios.spec.proofs import proven_here
from trainwreck.scenarios.spec.run_spec import Role, RunSpec
from trainwreck.scenarios.spec.scenario import Scenario


def with_signatures(rows: list[dict[str, Any]], trace: Callable[[str], Trace]) -> list[dict[str, Any]]:
    """Rows of the runs table with `signatures` filled in for every run under a fault that has its twin.

    trace: run_id to telemetry. Rows of runs that this version would train otherwise stay as they are. InputError
    where a signature can't be judged. Where a scenario is from outside of the catalogue, all rows have `unproven`, and
    InputError for a fault or a cure of it that did not change its run.
    """
    _check_effects(rows, trace)
    present = {row["run_id"] for row in rows}
    judged = [
        {**row, "signatures": json.dumps(signatures(spec.entry, trace(row["run_id"]), trace(row["twin_id"]), spec))}
        if (row["kind"] in UNDER_FAULT or (row["kind"] == RunKind.LOOK_ALIKE.value and row["family"] == LOGGING))
        and row["twin_id"] in present
        and (spec := _same_run(row)) is not None
        else row
        for row in rows
    ]
    return _flagged(judged)


def signatures(entry: Scenario, run: Trace, twin: Trace, spec: RunSpec) -> dict[str, bool]:
    """Each cause of a faulty run to whether its signature holds. InputError where a predicate raises."""
    try:
        with outside.blamed():
            return entry.signatures(run, twin, spec.seed, spec.setup.steps)
    except InputError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"scenario: the signature of {entry.id} can't be judged on {run.run_id} ({reason})") from None


def _check_effects(rows: list[dict[str, Any]], trace: Callable[[str], Trace]) -> None:
    """InputError where a fault or a cure from outside was in force and left every number of the run as it was."""
    present = {row["run_id"] for row in rows}
    for row in rows:
        spec = _same_run(row) if row["kind"] in (*UNDER_FAULT, RunKind.CURED.value) else None
        if spec is None or not outside.is_outside(spec.scenario):
            continue
        cured = spec.role is Role.CURED
        without = (replace(spec, role=Role.FAULTY) if cured else spec.twin).run_id
        begins = spec.cure_step if cured else spec.onset
        if without not in present or (begins or 0) > row["last_step"]:
            continue
        if compare(trace(row["run_id"]), trace(without)).identical:
            what = "cure" if cured else "fault"
            raise outside.no_change(spec.entry, what, f"run {row['run_id']} is bitwise as it is without")


def _flagged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with `unproven`: whether the scenario is from outside, and `verify` has not proven it on this machine."""
    ids = {row["scenario"] for row in rows}
    files = {row["scenario"] for row in rows if row["scenario"] and json.loads(row["spec"]).get("file")}
    others = {id for id in ids if id and outside.is_outside(id)} | files
    return [{**row, "unproven": row["scenario"] in others and not _is_proven(row)} for row in rows] if others else rows


def _is_proven(row: dict[str, Any]) -> bool:
    spec = _same_run(row)
    return spec is not None and proven_here(spec.scenario, spec.identity, outside.source_of(spec.scenario))


def _same_run(row: dict[str, Any]) -> RunSpec | None:
    """What was trained; None where the scenario has changed since, or is not here."""
    try:
        spec = RunSpec.from_json(json.loads(row["spec"]))
        return spec if spec.run_id == row["run_id"] else None
    except InputError:
        return None
