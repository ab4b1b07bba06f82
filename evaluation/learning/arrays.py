"""A data set as arrays, for whoever trains a model on it: one row a step that an observation profile shows.

    run                  y = 0 under "onset"           y = 1 under "onset"
    healthy, look-alike  all rows
    failing, compound    before the onset              from the onset on
    cured                before it, and from the       in between; of two causes from the
                         step of the cure on           later onset on, left out between onsets
    latent               before the onset              from the onset on
    not shown            before the onset              left out from the onset on

Of a cured run of two causes the first may be cured before the second begins (`evaluation/labels/in_force.py`).

Under "visible" the target is what `learned` is trained on (`examples.target`): 1 from the step on at which the profile
shows the failure, 0 where a run is well, and rows for which neither is right are left out: between onset and visible
step, of runs that were not harmed all, of cured runs from the onset to 30 steps after the cure.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from trainwreck.evaluation.constants import COMMON_SIGNALS, LOG_EVERY
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import FAILURES, SIGNALS, Axis, RunKind
from trainwreck.evaluation.dataset.trace import SCALARS, Trace
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.labels.in_force import NEVER, NO, UNKNOWN, YES, in_force
from trainwreck.evaluation.learning.examples import LEFT_OUT, target
from trainwreck.evaluation.replay.profiles import LOGGED, TRAINER, observe, visible_step
from trainwreck.evaluation.replay.rows import rows
from trainwreck.evaluation.replay.trainer import every_signal
from trainwreck.evaluation.replay.unlabelled import refuse_imported
from trainwreck.evaluation.short_forms import AsText

ONSET, VISIBLE = "onset", "visible"
SHOWN = 12  # names of columns in a short form
KINDS = (RunKind.HEALTHY.value, RunKind.LOOK_ALIKE.value, *FAILURES)  # what is asked for by default
WIDE = {signal.name for signal in SIGNALS if signal.axis is not Axis.SCALAR}


# What a row is, besides y: where its step lies in the run, by the run's label.
PHASES = ("no fault", "before onset", "under fault", "visible", "cured", "not known")


@dataclass(frozen=True, repr=False)
class Arrays(AsText):
    """Rows of many runs, by run and then by step; `X, y, groups = arrays` takes it apart.

    X: [N, F] float32; NaN where the run logged nothing there, or NaN. y: [N] int8. groups: [N] int32, one number a twin
    set: a run, its twin and its cure share their data and much of their curves, so that a split for cross-validation
    that parts them leaks. columns: the F names; of a signal with several numbers a step `name[0]`, `name[1]`, ..., and
    in a window `name@-1` for the row before, and so on. runs: the M runs, as in the runs table. run: [N] int32,
    position in `runs`. step: [N] int32. phase: [N] int8, position in `PHASES`; visible is so to the profile.
    """

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    columns: tuple[str, ...]
    runs: pd.DataFrame
    run: np.ndarray
    step: np.ndarray
    phase: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.X, self.y, self.groups))

    def __repr__(self) -> str:
        rows, features = self.X.shape
        counted = np.bincount(self.phase, minlength=len(PHASES))
        phases = ", ".join(f"{count} {name}" for name, count in zip(PHASES, counted, strict=True) if count)
        some = ", ".join(self.columns[:SHOWN]) + (", ..." if features > SHOWN else "")
        return (
            f"{rows} rows of {len(self.runs)} runs in {len(np.unique(self.groups))} twin sets; y is 1 in "
            f"{int(self.y.sum())}\n  {phases}\n  {features} columns: {some}"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a step: run_id, step, the columns of X, y, phase, group; kind, cause, severity, split of the run."""
        facts = {name: pd.Categorical(self.runs[name]) for name in ("run_id", "kind", "cause", "severity", "split")}
        spread = {name: pd.Categorical.from_codes(c.codes[self.run], dtype=c.dtype) for name, c in facts.items()}
        frame = pd.DataFrame(self.X, columns=list(self.columns))
        frame.insert(0, "step", self.step)
        frame.insert(0, "run_id", pd.Series(spread.pop("run_id")))
        phase = pd.Categorical.from_codes(self.phase, categories=pd.Index(PHASES))
        return frame.assign(y=self.y, phase=phase, group=self.groups, **spread)


def arrays(
    dataset: DataSet,
    split: str | Sequence[str] | None = None,
    profile: str = "full",
    *,
    label: str = ONSET,
    signals: Sequence[str] | None = None,
    kinds: Sequence[str] = KINDS,
    k: int = LOG_EVERY,
    window: int = 1,
) -> Arrays:
    """The rows that a profile shows of some runs of a data set, with a target each.

    split: one or several of the data set's; all by default. profile: full, common, standard, minimal or filtered, with
    k steps between two rows of the thinned ones. label: "onset" or "visible", see the module. kinds: of runs; cured and
    latent ones only where they are asked for. window: rows of a run, the latest last, that make a row of X.

    signals: names of the schema; by default those with one number a step that the profile shows and some of these rows
    have, so that no column is all NaN: for the same columns of another split give it the first one's `columns`. What
    was not logged at a step is NaN there, and so is the tail of a signal with a number a layer or head in a run that
    has fewer. InputError for a name that is not there, for imported runs, and where no row is left.
    """
    refuse_imported(dataset, "made rows with labels of")
    if label not in (ONSET, VISIBLE):
        raise unknown("label", label, (ONSET, VISIBLE))
    chosen = _chosen(dataset, split, kinds)
    shown = _shown(profile, k)
    for name in signals or ():
        if name not in shown:
            raise unknown("signals", name, shown)
    names = tuple(signals) if signals is not None else tuple(name for name in shown if name in SCALARS)
    if len(set(names)) < len(names) or not names:
        raise InputError(f"signals: {', '.join(names) or 'none'} is not allowed; allowed: one or more, each once")
    group_of = dataset.runs.groupby(["base", "seed"], dropna=False).ngroup()
    blocks: list[dict[str, np.ndarray]] = []
    steps, targets, phases = [], [], []
    if window < 1:
        raise InputError(f"window: {window} is not allowed; allowed: 1 and more")
    for run_id, facts in chosen.iterrows():
        at, block = _rows(dataset.trace(str(run_id)), profile, names, k)
        wanted = _target(facts, label, profile, at)
        kept = wanted != LEFT_OUT
        blocks.append({name: _windows(values, window)[kept] for name, values in block.items()})
        phases.append(_phase(facts, profile, at)[kept])
        steps.append(at[kept])
        targets.append(wanted[kept])
    lengths = [len(part) for part in steps]
    run = np.repeat(np.arange(len(chosen), dtype=np.int32), lengths)
    if not run.size:
        raise InputError(f"label: {label!r} leaves no row of the runs asked for; allowed: others, or {ONSET!r}")
    if signals is None:
        names = tuple(name for name in names if any(not np.isnan(block[name]).all() for block in blocks))
    columns, table = _joined(blocks, names, lengths, window)
    return Arrays(
        X=table,
        y=np.concatenate(targets).astype(np.int8),
        groups=group_of.loc[chosen.index].to_numpy(np.int32)[run],
        columns=columns,
        runs=chosen,
        run=run,
        step=np.concatenate(steps).astype(np.int32),
        phase=np.concatenate(phases),
    )


def _chosen(dataset: DataSet, split: str | Sequence[str] | None, kinds: Sequence[str]) -> pd.DataFrame:
    """The runs asked for, as in the runs table."""
    known = sorted(set(dataset.runs["split"]))
    splits = known if split is None else [split] if isinstance(split, str) else list(split)
    for name in splits:
        if name not in known:
            raise unknown("split", name, known)
    every = [kind.value for kind in RunKind if kind is not RunKind.IMPORTED]
    for kind in kinds:
        if kind not in every:
            raise unknown("kinds", kind, every)
    chosen = dataset.runs[dataset.runs["split"].isin(splits) & dataset.runs["kind"].isin(list(kinds))]
    if chosen.empty:
        raise InputError(f"kinds: no {', '.join(kinds) or 'run'} in split {', '.join(splits)}; allowed: some run")
    return chosen


def _shown(profile: str, k: int) -> list[str]:
    """Signals that a profile shows at some row. Raises InputError for another profile or k."""
    names = [signal.name for signal in SIGNALS]
    if profile == LOGGED:  # which signals, is drawn for each run
        return [name for name in names if name in COMMON_SIGNALS]
    if profile == TRAINER:  # by the run's objective
        return [name for name in names if name in every_signal()]
    probe = ({"step": step} | dict.fromkeys(names, 0.0) for step in itertools.count())
    seen = next(observe(probe, profile, k=k))  # its first row shows all that any shows
    return [name for name in names if seen.get(name) is not None]


def _rows(trace: Trace, profile: str, names: Sequence[str], k: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Steps of the rows that a profile shows, [R], and of each signal [R] or [R, K] float32."""
    steps: list[int] = []
    columns: dict[str, list[object]] = {name: [] for name in names}
    for row in observe(rows(trace), profile, k=k, run_id=trace.run_id, objective=trace.objective):
        steps.append(row["step"])
        for name, column in columns.items():
            column.append(row[name])
    found = {name: _wide(column) if name in WIDE else _narrow(column) for name, column in columns.items()}
    return np.array(steps, dtype=np.int64), found


def _narrow(column: list[object]) -> np.ndarray:
    return np.array(column, dtype=np.float32)  # None is NaN


def _wide(column: list[object]) -> np.ndarray:
    """Lists side by side, [R, K]; NaN where a row has none."""
    lists = [value if isinstance(value, list) else [] for value in column]
    made = np.full((len(lists), max(map(len, lists), default=0)), np.nan, np.float32)
    for row, values in zip(made, lists, strict=True):
        row[: len(values)] = values
    return made


def _target(run: pd.Series, label: str, profile: str, steps: np.ndarray) -> np.ndarray:
    """0, 1, or LEFT_OUT at each step. [R]"""
    if label == VISIBLE:
        return target(run, profile, steps)
    found = in_force(run, steps)
    return np.where(found == UNKNOWN, LEFT_OUT, found).astype(np.int8)


def _phase(run: pd.Series, profile: str, steps: np.ndarray) -> np.ndarray:
    """Position in `PHASES` of each step, int8 [R]."""
    force = in_force(run, steps)
    named = np.where(force == UNKNOWN, "not known", np.where(force == YES, "under fault", "no fault")).astype(object)
    if run["kind"] not in NEVER and not pd.isna(run["onset_step"]):
        named[steps < run["onset_step"]] = "before onset"
        named[(force == NO) & (steps >= run["onset_step"])] = "cured"
        visible = visible_step(run, profile)
        if visible is not None:
            named[(force == YES) & (steps >= visible)] = "visible"
    return np.array([PHASES.index(name) for name in named], np.int8)


def _windows(values: np.ndarray, window: int) -> np.ndarray:
    """Each row after the `window` - 1 before it, [R, window, K]; NaN where the run had not begun. values: [R(, K)]."""
    table = values.reshape(len(values), -1)
    before = np.full((window - 1, table.shape[1]), np.nan, np.float32)
    padded = np.concatenate([before, table])
    return np.stack([padded[i : i + len(table)] for i in range(window)], axis=1)


def _joined(
    blocks: Sequence[dict[str, np.ndarray]], names: Sequence[str], lengths: Sequence[int], window: int
) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the columns, and all runs below each other; each run's own arrays are let go as they are taken over."""
    widths = {name: max(block[name].shape[2] for block in blocks) if name in WIDE else 1 for name in names}
    columns = [
        f"{name}[{i}]" if name in WIDE else name for name, width in widths.items() for i in range(width)
    ]  # fmt: skip
    table = np.full((sum(lengths), window, len(columns)), np.nan, np.float32)
    last = np.cumsum(lengths)
    for end, length, block in zip(last, lengths, blocks, strict=True):
        first = 0
        for name, width in widths.items():
            values = block.pop(name)
            table[end - length : end, :, first : first + values.shape[2]] = values
            first += width
    past = [f"{name}@-{lag}" for lag in range(window - 1, 0, -1) for name in columns]
    return (*past, *columns), table.reshape(len(table), -1)
