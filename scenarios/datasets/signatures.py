"""Whether the runs of a data set show the signatures of their causes, each against its own twin."""

import json
from collections.abc import Callable
from typing import Any

from trainwreck.evaluation.dataset.schema import UNDER_FAULT
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.spec.run_spec import RunSpec
from trainwreck.scenarios.spec.scenario import Scenario


def with_signatures(rows: list[dict[str, Any]], trace: Callable[[str], Trace]) -> list[dict[str, Any]]:
    """Rows of the runs table with `signatures` filled in for every run under a fault that has its twin.

    trace: run_id to telemetry. Rows of runs that this version would train otherwise stay as they are. InputError
    where a signature can't be judged.
    """
    present = {row["run_id"] for row in rows}
    return [
        {**row, "signatures": json.dumps(signatures(spec.entry, trace(row["run_id"]), trace(row["twin_id"]), spec))}
        if row["kind"] in UNDER_FAULT and row["twin_id"] in present and (spec := _same_run(row)) is not None
        else row
        for row in rows
    ]


def signatures(entry: Scenario, run: Trace, twin: Trace, spec: RunSpec) -> dict[str, bool]:
    """Each cause of a faulty run to whether its signature holds. InputError where a predicate raises."""
    try:
        return entry.signatures(run, twin, spec.seed, spec.setup.steps)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"scenario: the signature of {entry.id} can't be judged on {run.run_id} ({reason})") from None


def _same_run(row: dict[str, Any]) -> RunSpec | None:
    """What was trained; None where the scenario has changed since, or is not here."""
    try:
        spec = RunSpec.from_json(json.loads(row["spec"]))
        return spec if spec.run_id == row["run_id"] else None
    except InputError:
        return None
