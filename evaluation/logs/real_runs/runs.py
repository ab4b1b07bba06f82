"""Real runs with their labels; labels that contradict the telemetry are refused."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from trainwreck.evaluation.dataset.dataset import IMPORTED, DataSet
from trainwreck.evaluation.dataset.schema import EVALUATIONS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.imported import said_name
from trainwreck.evaluation.logs.labels import FAILED, HEALTHY, Label, read_labels
from trainwreck.evaluation.replay.profiles import nonfinite_losses

MOST_LISTED = 5  # contradictions in one message


@dataclass(frozen=True)
class RealRun:
    """A run and its label. name: what the file of labels calls it. cluster: the run's own where none is given.

    first_evidence: first step whose row can show a failure: the first row where its loss is not finite, else the
    second; one after the last step where there is none.
    """

    run_id: str
    name: str
    outcome: str
    failure_step: int | None
    cause: str | None
    cluster: str
    first_step: int
    last_step: int
    first_evidence: int
    signals: frozenset[str]  # that its log has

    @property
    def steps(self) -> int:
        """From the first to the last step of the log."""
        return self.last_step - self.first_step + 1


def labelled(dataset: DataSet, file: Path) -> list[RealRun]:
    """Every run of an imported data set with its label, in the order of the runs table.

    InputError that names each contradiction: a name that is no run or several, a run that is labelled twice
    or not at all, a failed run without a step, a step that is not in the log, a healthy run that ends non-finite.
    """
    if not dataset.imported:
        raise InputError(
            f"--labels: not allowed on {dataset.path}, whose labels come from the injection; allowed: on imported runs"
        )
    given = read_labels(file)
    names = {entry["run_id"]: said_name(Path(entry["log"]), entry["name"]) for entry in dataset.manifest[IMPORTED]}
    labels: dict[str, Label] = {}
    wrong: list[str] = []
    for name, label in given.items():
        meant = [name] if name in names else [run_id for run_id, log in names.items() if log == name]
        if len(meant) != 1:
            wrong.append(f"{label.place}: {_unmet(name, meant, names)}")
        elif meant[0] in labels:
            wrong.append(f"{label.place}: {name!r} is labelled in {labels[meant[0]].place} already; allowed: once")
        else:
            labels[meant[0]] = label
    missing = [name for run_id, name in names.items() if run_id not in labels]
    if missing and not wrong:
        wrong.append(
            f"{file}: no label for {_listed(missing)}; allowed: a row for every run, unknown where it is not known"
        )
    found = []
    for run_id, label in labels.items():
        trace = dataset.trace(run_id)
        wrong += _contradictions(label, trace)
        found.append(
            RealRun(
                run_id=run_id,
                name=names[run_id],
                outcome=label.outcome,
                failure_step=label.failure_step,
                cause=label.cause,
                cluster=label.cluster or names[run_id],
                first_step=int(trace.steps[0]),
                last_step=int(trace.steps[-1]),
                first_evidence=_first_evidence(trace),
                signals=frozenset(name for name in trace.signals if _has(trace, name)),
            )
        )
    if wrong:
        more = len(wrong) - MOST_LISTED
        raise InputError("; ".join(wrong[:MOST_LISTED]) + (f"; and {more} more" if more > 0 else ""))
    order = {run_id: i for i, run_id in enumerate(names)}
    return sorted(found, key=lambda run: order[run.run_id])


def _first_evidence(trace: Trace) -> int:
    first = int(trace.steps[0])
    if first in nonfinite_losses(trace, "full"):
        return first
    return int(trace.steps[1]) if len(trace) > 1 else first + 1


def _contradictions(label: Label, trace: Trace) -> Iterator[str]:
    """What a label says that the telemetry does not."""
    step = label.failure_step
    if label.outcome == FAILED and step is None:
        yield f"{label.place}: failed without a failure_step; allowed: the step at which it was seen, or unknown"
    if step is not None and step not in trace.steps:
        first, last = int(trace.steps[0]), int(trace.steps[-1])
        if not first <= step <= last:
            yield f"{label.place}: failure_step {step} is not in the run; allowed: {first} to {last}"
        else:
            after = int(np.searchsorted(trace.steps, step))
            yield (
                f"{label.place}: failure_step {step} is not logged; allowed: a step of the log, as "
                f"{trace.steps[after - 1]} or {trace.steps[after]}"
            )
    if label.outcome == HEALTHY:
        for name in ("loss", "validation_loss"):
            at, values = logged(trace, name)
            if len(values) and not np.isfinite(values[-1]):
                yield f"{label.place}: healthy, but the last {name} is {values[-1]} (step {at[-1]}); allowed: finite"


def _has(trace: Trace, name: str) -> bool:
    """Whether a signal was logged at any step."""
    if name in EVALUATIONS:
        return len(logged(trace, name)[0]) > 0
    return bool(trace.logged.get(name, np.ones(1, bool)).any())


def logged(trace: Trace, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of a scalar signal where it was logged."""
    if name not in trace.signals:
        return trace.steps[:0], np.zeros(0)
    present = trace.logged.get(name, np.ones(len(trace), bool))
    if name in EVALUATIONS:  # a second evaluation that gave NaN is not told apart from none
        present = trace.evaluated if name == "validation_loss" else ~np.isnan(trace[name])
    return trace.steps[present], trace[name][present]


def _unmet(name: str, meant: list[str], names: Mapping[str, str]) -> str:
    if meant:
        return f"{name!r} is several runs; allowed: one of {', '.join(meant)}"
    close = get_close_matches(name, [*names, *names.values()], n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{name!r} is no run of the data set{hint}; allowed: the name of an imported log, or a run_id"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_LISTED])
    return shown + (f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else "")
