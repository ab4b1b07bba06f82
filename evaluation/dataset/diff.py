"""Telemetry against telemetry, compared bitwise: where it differs, from which step on and by how many nats.

Two machines rarely agree bitwise; `summarise` says what of two data sets of one plan agrees all the same.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.short_forms import AsText

LABELS = ("kind", "cause", "onset_step", "visible_step", "visible_steps", "no_return_step")
VISIBLE_WITHIN = 2  # steps between two first visible steps that count as the same
NO_RETURN_WITHIN = 0.05  # of the run, between two points of no return that count as the same
FINAL_WITHIN = 0.05  # nats, between two last validation losses that count as the same, where a run has no tolerance
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, repr=False)
class Comparison(AsText):
    """identical, or the first step and signal that differ and by how much (in the signal's unit).

    difference is None where it is no number: one of the two is NaN or infinite. loss_difference: the largest
    of the training loss at any step that both have, in nats; final_difference: of the last validation loss, in
    nats, the second's less the first's; each is None where it is no number. labels: columns of the runs table
    that differ, where data sets are compared. not_measured: those that one of the two alone has, since `label` was run
    on it alone.
    """

    run_id: str
    identical: bool
    rows: int
    step: int | None = None
    signal: str = ""
    difference: float | None = None
    changed: tuple[str, ...] = ()  # parts of the environment that are not as they were
    loss_difference: float | None = None
    final_difference: float | None = None
    labels: tuple[str, ...] = ()
    not_measured: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)

    def __repr__(self) -> str:
        return self.text()

    def text(self) -> str:
        """One to three lines for a person."""
        if self.identical:
            return f"{self.run_id}: {self.rows} rows, bitwise identical" + self._labels()
        by = f" by {self.difference:.3g}" if self.difference is not None else ", finite in one of the two"
        lines = [f"{self.run_id}: differs from step {self.step} on, first in {self.signal}{by}" + self._labels()]
        lines.append(
            f"training loss apart by at most {_nats(self.loss_difference)}, "
            f"last validation loss by {_nats(self.final_difference, '+')}"
        )
        return "\n".join(lines + ([f"not as it was: {', '.join(self.changed)}"] if self.changed else []))

    def _labels(self) -> str:
        missing = f"; not measured in one of the two: {', '.join(self.not_measured)}" if self.not_measured else ""
        return (f"; labels that differ: {', '.join(self.labels)}" if self.labels else "") + missing


@dataclass(frozen=True, repr=False)
class Summary(AsText):
    """What two data sets of one plan agree in.

    runs: that both have; identical: of these, bitwise. first_steps: lowest, median and highest first step at which the
    others differ, None without any. loss_difference, final_difference: the largest of any run in its training loss at
    one step and in its last validation loss, nats, where both are numbers. kinds: runs of another kind. visible: of
    `visible_runs`, which have a first visible step in at least one of the two, those in which it is further apart than
    VISIBLE_WITHIN steps or is there in one alone. no_return: likewise of the point of no return, at NO_RETURN_WITHIN of
    the run, among `no_return_runs`. Runs of which one of the two data sets alone has the point, since it was measured
    there alone, are not among them, but counted: no_return_missing. beyond: runs whose last validation losses are
    further apart than the run's tolerance (FINAL_WITHIN without one), or are a number in one alone.
    """

    runs: int
    identical: int
    first_steps: tuple[int, float, int] | None
    loss_difference: float
    final_difference: float
    kinds: int
    visible: int
    visible_runs: int
    no_return: int
    no_return_runs: int
    no_return_missing: int = 0
    beyond: int = 0

    @property
    def agrees(self) -> bool:
        """Whether the two are the same within tolerance, as far as both were measured."""
        return not (self.kinds or self.visible or self.no_return or self.beyond)

    @property
    def verdict(self) -> str:
        """One line: bitwise, losses, labels, and what was not measured."""
        apart = (("kind", self.kinds), ("visible step", self.visible), ("point of no return", self.no_return))
        differ = ", ".join(f"{name} in {count}" for name, count in apart if count)
        losses = f"losses within {max(self.loss_difference, self.final_difference):.2g} nats"
        if self.beyond:
            losses += f", beyond tolerance in {self.beyond}"
        missing = self.no_return_missing
        lacking = f"; point of no return not measured on one side in {missing}" if missing else ""
        end = "the same within tolerance" if self.agrees else "not the same within tolerance"
        labels = f"labels differ: {differ}" if differ else "labels equal"
        return f"{self.identical} of {self.runs} bitwise; {losses}; {labels}{lacking}: {end}"

    def __repr__(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self) | {"agrees": self.agrees, "verdict": self.verdict}

    def text(self) -> str:
        """One line for a person where all is identical, else up to six, of which the last is the verdict."""
        lines = [f"{self.identical} of {self.runs} runs are bitwise identical"]
        if self.first_steps is None and self.agrees and not self.no_return_missing:
            return lines[0]
        if self.first_steps is not None:
            low, middle, high = self.first_steps
            lines.append(f"the others differ from step {middle:g} on (median; {low} to {high})")
            lines.append(
                f"training loss apart by at most {_nats(self.loss_difference)}, "
                f"last validation loss by {_nats(self.final_difference)}"
            )
        lines.append(
            f"labels that differ: kind in {self.kinds} of {self.runs} runs, first visible step by more than "
            f"{VISIBLE_WITHIN} steps in {self.visible} of {self.visible_runs} that have one,"
        )
        lines.append(
            f"point of no return by more than {NO_RETURN_WITHIN:.0%} of the run in {self.no_return} of "
            f"{self.no_return_runs} that have one"
        )
        lines.append(self.verdict)
        return "\n".join(lines)


class Differences(AsText, list[Comparison]):
    """The comparison of each run that two data sets have; `summary` has what they agree in."""

    def __init__(self, found: Sequence[Comparison], summary: Summary) -> None:
        super().__init__(found)
        self.summary = summary

    def __repr__(self) -> str:
        return self.summary.text()


def compare(old: Trace, new: Trace, changed: tuple[str, ...] = ()) -> Comparison:
    """The first difference between two traces, if there is one."""
    length = min(len(old), len(new))
    first: tuple[int, str] | None = None
    for signal in SIGNALS:
        a, b = (_values(trace, signal.name, length) for trace in (old, new))
        bad = np.flatnonzero(~_same(a, b).all(1)) if a.shape == b.shape else np.arange(min(length, 1))
        if len(bad) and (first is None or bad[0] < first[0]):
            first = int(bad[0]), signal.name
    if first is None and len(old) == len(new):
        return Comparison(old.run_id, True, length)
    losses = _largest(old["loss"][:length], new["loss"][:length]), _number(new.final_loss() - old.final_loss())
    if first is None:
        return Comparison(old.run_id, False, length, length, "length", float(len(new) - len(old)), changed, *losses)
    step, name = first
    a, b = (_values(trace, name, length)[step].astype(np.float64) for trace in (old, new))
    gap = np.abs(b - a)[~_same(a, b)] if a.shape == b.shape else np.array([np.nan])
    difference = float(gap.max()) if np.isfinite(gap).all() else None
    return Comparison(old.run_id, False, length, step, name, difference, changed, *losses)


def changed_environment(there: dict[str, Any], here: dict[str, Any]) -> tuple[str, ...]:
    """Parts of an environment that are not the same in another."""
    return tuple(sorted(key for key in {*there, *here} if here.get(key) != there.get(key)))


def common_runs(one: DataSet, other: DataSet) -> list[str]:
    """Runs of both, in the first one's order. InputError where there is none."""
    here = set(other.runs["run_id"])
    common = [run_id for run_id in one.runs["run_id"] if run_id in here]
    if not common:
        raise InputError(f"data sets: {one.path} and {other.path} have no run in common; nothing to compare")
    return common


def compare_data_sets(one: DataSet, other: DataSet) -> Iterator[Comparison]:
    """Every run that both have, telemetry and labels, in the first one's order."""
    changed = changed_environment(one.manifest.get("environment", {}), other.manifest.get("environment", {}))
    for run_id in common_runs(one, other):
        found = compare(one.trace(run_id), other.trace(run_id), changed)
        mine, yours = one.run(run_id), other.run(run_id)
        differ = [name for name in LABELS if _label(mine[name]) != _label(yours[name])]
        missing = ("no_return_step",) if _lacks_no_return(mine, yours) else ()
        labels = tuple(name for name in differ if name not in missing)
        yield replace(found, labels=labels, not_measured=tuple(name for name in differ if name in missing))


def summarise(one: DataSet, other: DataSet, found: Sequence[Comparison]) -> Summary:
    """What the runs of `compare_data_sets` agree in."""
    steps = sorted(int(c.step) for c in found if c.step is not None)
    pairs = [(one.run(c.run_id), other.run(c.run_id)) for c in found]
    visible = [(_label(a["visible_step"]), _label(b["visible_step"]), VISIBLE_WITHIN) for a, b in pairs]
    both = [(a, b) for a, b in pairs if not _lacks_no_return(a, b)]
    points = [
        (_label(a["no_return_step"]), _label(b["no_return_step"]), NO_RETURN_WITHIN * (a["last_step"] + 1))
        for a, b in both
    ]
    (visible_apart, visible_runs), (points_apart, points_runs) = _apart(visible), _apart(points)
    return Summary(
        runs=len(found),
        identical=sum(c.identical for c in found),
        first_steps=(steps[0], float(np.median(steps)), steps[-1]) if steps else None,
        loss_difference=max((abs(c.loss_difference) for c in found if c.loss_difference is not None), default=0.0),
        final_difference=max((abs(c.final_difference) for c in found if c.final_difference is not None), default=0.0),
        kinds=sum(a["kind"] != b["kind"] for a, b in pairs),
        visible=visible_apart,
        visible_runs=visible_runs,
        no_return=points_apart,
        no_return_runs=points_runs,
        no_return_missing=len(pairs) - len(both),
        beyond=sum(_is_beyond(c, a, b) for c, (a, b) in zip(found, pairs, strict=True)),
    )


def _lacks_no_return(one: Any, other: Any) -> bool:
    """Whether a run's point of no return was measured in one of two data sets alone, by its rows."""
    measured = [
        _label(row["no_return_step"]) is not None or bool(_label(row.get("no_return_branches") or "{}"))
        for row in (one, other)
    ]
    return measured[0] != measured[1]


def _is_beyond(found: Comparison, one: Any, other: Any) -> bool:
    """Whether a run's last validation losses are further apart than counts as the same."""
    if found.identical:
        return False
    if found.final_difference is None:
        return (_label(one.get("final_loss")) is None) != (_label(other.get("final_loss")) is None)
    return bool(abs(found.final_difference) > (_label(one.get("tolerance")) or FINAL_WITHIN))


def _apart(steps: Sequence[tuple[Any, Any, float]]) -> tuple[int, int]:
    """How many pairs of steps are further apart than allowed or have one step alone, and how many have any."""
    having = [(a, b, allowed) for a, b, allowed in steps if a is not None or b is not None]
    return sum(a is None or b is None or bool(abs(a - b) > allowed) for a, b, allowed in having), len(having)


def _values(trace: Trace, name: str, length: int) -> np.ndarray:
    """A signal's first rows, [length, K]; without columns where the trace does not have it."""
    if name not in trace.signals:
        return np.zeros((length, 0), np.float32)
    return np.asarray(trace[name][:length]).reshape(length, -1)


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))


def _largest(a: np.ndarray, b: np.ndarray) -> float | None:
    a, b = a.astype(np.float64), b.astype(np.float64)
    gap = np.abs(a - b)[~_same(a, b)]
    return _number(gap.max(initial=0.0))


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _nats(value: float | None, sign: str = "") -> str:
    return "no number of nats" if value is None else f"{value:{sign}.3g} nats"


def _label(value: Any) -> Any:
    """A cell as it can be compared: dictionaries by their content, missing values as None."""
    if isinstance(value, str):
        return json.loads(value) if value.startswith("{") else value
    return None if value is None or value != value else value
