"""Labels that contradict each other, what the run was made from, or the telemetry that they are of.

A score of such runs means nothing. What a label has to agree with is in the data set several times: a run's `spec`, the
steps and gaps that a label was taken from, the twin's row, the scenario's page.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.runs_table import parsed, shown
from trainwreck.evaluation.dataset.schema import FAILURES, JOINT, LOGGING, UNDER_FAULT, UNHARMED, Harm, Outcome, RunKind
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError

Row = Mapping[str, Any]
Pages = Mapping[str, Mapping[str, Any]]

LOOK_ALIKE = RunKind.LOOK_ALIKE.value
KIND_OF_ROLE = {"twin": (RunKind.HEALTHY.value,), "cured": (RunKind.CURED.value,), "faulty": (*UNDER_FAULT, LOOK_ALIKE)}


def check_telemetry(run: pd.Series, trace: Trace) -> None:
    """InputError where a run's telemetry is not that of its label: its length, its steps, how it ended.

    run: a row of the runs table. trace: what lies under its id.
    """
    last = int(run["last_step"])
    if run["kind"] == RunKind.IMPORTED.value:
        if not len(trace) or (np.diff(trace.steps) <= 0).any() or trace.steps[-1] != last:
            raise InputError(f"telemetry: {trace.run_id}: its steps do not ascend to last_step, which is {last}")
        return
    if len(trace) != last + 1:
        raise InputError(
            f"runs: {trace.run_id}: last_step {last} contradicts its telemetry, which has {len(trace)} rows; "
            f"allowed: {len(trace) - 1}"
        )
    wrong = np.flatnonzero(trace.steps != np.arange(last + 1))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(f"telemetry: {trace.run_id}: row {row} is of step {trace.steps[row]}; allowed: {row}")
    if _is_made(run) and run["outcome"] is not None:
        finite = bool(np.isfinite(trace["loss"][-1]))
        if finite == (run["outcome"] == Outcome.NON_FINITE.value):
            raise InputError(
                f"runs: {trace.run_id}: outcome {run['outcome']!r} contradicts its telemetry, whose last loss is "
                f"{'finite' if finite else 'not finite'}"
            )
        final = trace.final_loss()
        if not _same(run["final_loss"], final):
            raise InputError(
                f"runs: {trace.run_id}: final_loss {run['final_loss']} contradicts its telemetry, where it is {final}"
            )


def check_table(runs: pd.DataFrame) -> None:
    """InputError where the runs table contradicts itself over more than one column, or names what is not there."""
    twice = runs["run_id"][runs["run_id"].duplicated()]
    if len(twice):
        raise InputError(f"runs: {twice.iloc[0]}: is there twice; allowed: each run once")
    for complaint, wrong in _complaints(runs).items():
        if wrong.any():
            raise InputError(f"runs: {runs['run_id'].to_numpy()[wrong][0]}: {complaint}")


def _complaints(runs: pd.DataFrame) -> dict[str, np.ndarray]:
    """What may be wrong with a run, and which runs it is true of."""
    kind = runs["kind"].to_numpy(dtype=object)
    failing = np.isin(kind, FAILURES)
    healthy = np.isin(kind, [RunKind.HEALTHY.value, LOOK_ALIKE])
    onset, last, planned = (_numbers(runs, name) for name in ("onset_step", "last_step", "planned_steps"))
    cause, family = (runs[name].fillna("").to_numpy(dtype=object) for name in ("cause", "family"))
    wrong_log = (kind == LOOK_ALIKE) & (family == LOGGING)
    kinds = tuple(kind.value for kind in RunKind)
    return {
        f"kind is not allowed; allowed: {', '.join(kinds)}": ~np.isin(kind, kinds),
        "a failing run without a cause; allowed: the scenario that was injected": failing & (cause == ""),
        "a healthy run with a cause; allowed: none": healthy & ~wrong_log & (cause != ""),
        "a wrong log without a cause; allowed: the scenario that was injected": wrong_log & (cause == ""),
        "last_step before step 0; allowed: 0 and more": last < 0,
        "onset_step before step 0; allowed: 0 to last_step": onset < 0,
        "onset_step after last_step; allowed: 0 to last_step": failing & (onset > last),
        "planned_steps of last_step or less; allowed: more": planned <= last,
    }


def _numbers(runs: pd.DataFrame, column: str) -> np.ndarray:
    values: Any = pd.to_numeric(runs[column])
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def check_labels(runs: pd.DataFrame, pages: Pages) -> None:
    """InputError where a row of the runs table says else than what it was made from; see the module.

    pages: scenario to its page. Rows without a `spec` that names a role - imported ones - are not checked.
    """
    columns = runs.columns.tolist()
    every = [dict(zip(columns, values, strict=True)) for values in zip(*(runs[name] for name in columns), strict=True)]
    rows = {row["run_id"]: row for row in every}
    bases: dict[str, Row] = {}
    for run_id, row in rows.items():
        if not _is_made(row):
            continue
        first = bases.setdefault(row["base"], row)
        twin = rows.get(row["twin_id"] or "")
        for column, right in (
            *_of_its_spec(row, pages),
            *_of_its_clocks(row),
            *_of_its_branches(row),
            *_of_its_end(row, twin),
            *((name, first[name]) for name in ("context", "planned_steps")),
        ):
            if not _same(row[column], right):
                raise InputError(
                    f"runs: {run_id}: {column} {shown(_plain(row[column]))} contradicts what the run was made from or "
                    f"measured as; allowed: {shown(right)}"
                )


Right = Iterator[tuple[str, Any]]  # a column, and what it has to be


def _of_its_spec(row: Row, pages: Pages) -> Right:
    spec = parsed(row["spec"])
    role, faulty = spec["role"], spec["role"] != "twin"
    yield "scenario", spec["scenario"] if faulty else ""
    yield "severity", (spec["severity"] or "") if faulty else ""
    for name in ("seed", "size", "split"):
        yield name, spec[name]
    yield "held_out", spec.get("held_out", "")
    kinds = KIND_OF_ROLE.get(role, ())
    page = pages.get(row["scenario"], {}) if faulty else {}
    if page.get("kind") and role == "faulty":
        kinds = (LOOK_ALIKE,) if page["kind"] == LOOK_ALIKE else UNDER_FAULT
    yield "kind", row["kind"] if row["kind"] in kinds else " or ".join(kinds)
    if row["kind"] in FAILURES:
        yield "kind", RunKind.COMPOUND.value if JOINT in row["scenario"] else RunKind.FAILING.value
    if not faulty:
        yield from (("family", ""), ("harm", ""), ("twin_id", ""), ("tolerance", None))
    elif page and JOINT not in row["scenario"]:
        yield "family", page["family"]
    if row["kind"] in (LOOK_ALIKE, RunKind.HEALTHY.value) and row["family"] != LOGGING:
        yield "cause", ""
    elif JOINT not in row["scenario"]:
        yield "cause", row["scenario"]
    steps = [text.removeprefix("steps=") for text in spec["overrides"] if text.startswith("steps=")]
    if steps and steps[-1].isdecimal():
        yield "planned_steps", int(steps[-1])


def _of_its_clocks(row: Row) -> Right:
    causes, visible = parsed(row["causes"]), parsed(row["visible_steps"])
    profiles = parsed(row["visible_profiles"])
    names = [name for name in (row["cause"] or "").split(JOINT) if name]
    yield "causes", row["causes"] if set(causes) == set(names) else ", ".join(names)
    if causes or row["kind"] != LOOK_ALIKE:
        yield "onset_step", min(causes.values(), default=None)
    yield "visible_step", min(visible.values(), default=None)
    first: int = 0 if pd.isna(row["onset_step"]) else row["onset_step"]
    last: int = row["last_step"]
    for column, steps in (("visible_steps", visible), ("visible_profiles", profiles)):
        late = any(not first <= step <= last for step in steps.values())
        yield column, row[column] if not late else f"steps from {first:g} to {last}"
    if profiles:
        agrees = profiles.get("full") == row["visible_step"]
        yield (
            "visible_profiles",
            row["visible_profiles"] if agrees else f"visible_step under full, {row['visible_step']}",
        )
    cured = row["kind"] == RunKind.CURED.value
    if cured == bool(pd.isna(row["cure_step"])):
        yield "cure_step", "a step" if cured else None


def _of_its_branches(row: Row) -> Right:
    """The point of no return by the branches; see `scenarios.proof.no_return`, which measures them."""
    gaps = {int(step): gap for step, gap in parsed(row["no_return_branches"]).items()}
    if not gaps:
        saved_to_the_end = row["kind"] in FAILURES and row["outcome"] == Outcome.RECOVERED.value
        if saved_to_the_end or not _same(row["no_return_step"], row["onset_step"]):  # the onset: no branch was needed
            yield "no_return_step", row["last_step"] if saved_to_the_end else None
        return
    above = row["harm"] == Harm.ABOVE.value
    saved = {s: gap is not None and (gap if above else abs(gap)) <= row["tolerance"] for s, gap in gaps.items()}
    lost = min((step for step, is_saved in saved.items() if not is_saved), default=row["planned_steps"])
    yield "no_return_step", max((step for step in gaps if step < lost), default=row["onset_step"])
    yield "no_return_monotone", not any(is_saved and step > lost for step, is_saved in saved.items())


def _of_its_end(row: Row, twin: Row | None) -> Right:
    if twin is not None and row["twin_id"] != row["run_id"]:
        for name in ("base", "seed", "planned_steps"):
            yield name, twin[name]
        gap: float | None = row["final_loss"] - twin["final_loss"] if not pd.isna(row["final_loss"]) else None
        if row["outcome"] is not None:
            yield "final_gap", gap
    if row["outcome"] not in (None, Outcome.NON_FINITE.value):
        left: float = row["final_gap"]
        off = {Harm.ABOVE.value: left, Harm.BELOW.value: -left}.get(row["harm"], abs(left))
        yield "outcome", (Outcome.DAMAGED if off > row["tolerance"] else Outcome.RECOVERED).value  # of NaN: recovered
    if row["kind"] in UNHARMED and row["outcome"] is not None:
        yield "outcome", Outcome.RECOVERED.value
        held = parsed(row["signatures"]).values()
        if held:
            yield "kind", RunKind.LATENT.value if any(held) else RunKind.NOT_SHOWN.value


def _is_made(row: "Row | pd.Series") -> bool:
    return "role" in parsed(row["spec"])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _same(cell: Any, right: Any) -> bool:
    """Whether a cell is what it has to be, where a missing one is None or NaN."""
    if cell is None or cell != cell:
        return bool(right is None or right != right)
    return bool(cell == right)
