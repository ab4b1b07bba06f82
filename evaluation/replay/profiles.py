"""Observation profiles: how often rows come to a detector, and which signals they hold.

full      every signal, every step
common    loss, validation loss, gradient norm and LR, every step: what most public logs have
standard  scalars every k steps, per-layer and other list signals every 10 k steps
minimal   loss and LR, every k steps: what a progress bar shows
filtered  scalars averaged over the last k steps, a non-finite loss replaced by the running mean of
          those k: what the Transformers Trainer logs by default
trainer   what the usual trainer of the run's objective logs, every step (`trainer.py` has which and from where);
          of a run on next tokens that is `common`
logged    as a log of that run might have it: interval, signals, unit and digits, and what becomes of NaN, are
          drawn for each run from its id (`logged/config.py` has the shares); the others are the same for all

A profile is a pure function of the rows so far, so what a detector sees up to a step does not
depend on what comes after it. Rows keep every key; what a profile does not show is None.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwreck.evaluation.constants import COMMON_SIGNALS, LIST_EVERY, LOG_EVERY
from trainwreck.evaluation.dataset.schema import EVALUATIONS, step_of
from trainwreck.evaluation.dataset.trace import LISTS, SCALARS, Trace
from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.replay.rows import LoggedRow, blank, logged_at, only, rows

if TYPE_CHECKING:
    from trainwreck.evaluation.replay.logged.visible import Labels

Rows = Iterator[dict[str, Any]]
LOGGED, TRAINER = "logged", "trainer"


def observe(
    rows: Iterable[Row], profile: str, *, k: int = LOG_EVERY, run_id: str | None = None, objective: str = ""
) -> Rows:
    """The rows that a detector sees of a run under a profile.

    rows: full rows in the order of their steps. profile: one of `ALL_PROFILES`.
    k: steps between two rows, at least 1; full, common and trainer have every row. run_id: of the run, which `logged`
    draws by. objective: of the run, which says what `trainer` shows; "" is the next token.
    Raises InputError for another profile or k, or without the run_id that it takes.

    >>> rows = [{"step": step, "loss": 4.0 - step, "grad_norm": 1.0} for step in range(4)]
    >>> [(row["step"], row["loss"], row["grad_norm"]) for row in observe(rows, "filtered", k=2)]
    [(1, 3.5, 1.0), (3, 1.5, 1.0)]
    >>> [(row["step"], row["loss"], row["grad_norm"]) for row in observe(rows, "minimal", k=2)]
    [(0, 4.0, None), (2, 2.0, None)]
    """
    if profile not in ALL_PROFILES:
        raise unknown("profile", profile, ALL_PROFILES)
    if k < 1:
        raise InputError(f"k: {k} is not allowed; allowed: 1 and more")
    if profile == LOGGED:
        if run_id is None:
            raise InputError(f"profile: {LOGGED!r} is not allowed without a run; allowed: with run_id")
        from trainwreck.evaluation.replay.logged.config import config_of
        from trainwreck.evaluation.replay.logged.rows import logged_rows

        return logged_rows(rows, config_of(run_id))
    if profile == TRAINER:
        from trainwreck.evaluation.replay.trainer import signals_of

        return only(rows, signals_of(objective))
    return PROFILES[profile](rows, k)


def shown_steps(profile: str, last: int, k: int = LOG_EVERY) -> range:
    """Steps of the rows that `observe` hands out of a run of steps 0 to `last`; not of `logged`.

    >>> list(shown_steps("filtered", 5, k=2)), list(shown_steps("minimal", 5, k=2))
    ([1, 3, 5], [0, 2, 4])
    """
    first, every = {"full": (0, 1), "common": (0, 1), TRAINER: (0, 1), "filtered": (k - 1, k)}.get(profile, (0, k))
    return range(first, last + 1, every)


def steps_allowed(run_id: str, profile: str, last: int, k: int = LOG_EVERY) -> tuple[Sequence[int], bool]:
    """Steps that may have rows under a profile in a run of steps 0 to `last`, and whether it has one at each.

    Under `logged` labels do not say where a log with evaluations in rows of their own has them, nor where one ended.
    """
    if profile == LOGGED:
        from trainwreck.evaluation.replay.logged.visible import possible_rows

        return possible_rows(run_id, last)
    return shown_steps(profile, last, k), True


def visible_step(run: "Labels", profile: str) -> int | None:
    """The first step at which a profile shows the failure of a run; None where it does not.

    run: a row of the runs table, which may have its cells as JSON has them. Where it has no steps by profile, as in an
    older table, that of all signals is taken.
    """
    if profile == LOGGED:
        from trainwreck.evaluation.replay.logged.visible import visible_in_log

        return visible_in_log(run)
    if profile == TRAINER:
        from trainwreck.evaluation.replay.trainer import visible_to_trainer

        return visible_to_trainer(run)
    by_profile = json.loads(run["visible_profiles"] or "{}")
    return step_of(by_profile.get(profile) if by_profile else run["visible_step"])


def nonfinite_losses(trace: Trace, profile: str) -> frozenset[int]:
    """Steps of the rows that show a loss that is not finite; `filtered` shows none."""
    loss = trace.signals.get("loss")
    if loss is None or profile == "filtered":
        return frozenset()
    if profile == LOGGED:
        if np.isfinite(loss).all():
            return frozenset()
        shown = ((row["step"], row["loss"]) for row in observe(rows(trace), LOGGED, run_id=trace.run_id))
        return frozenset(step for step, value in shown if value is not None and not math.isfinite(value))
    known = logged_at(trace, "loss")
    return frozenset(trace.steps[~np.isfinite(loss) & (True if known is None else known)].tolist())


def _full(rows: Iterable[Row], k: int) -> Rows:
    # A row of a replay was made for this detector alone, and copying it would fill it.
    return (row if isinstance(row, LoggedRow) else dict(row) for row in rows)


def _common(rows: Iterable[Row], k: int) -> Rows:
    return only(rows, COMMON_SIGNALS)


def _standard(rows: Iterable[Row], k: int) -> Rows:
    evaluations: dict[str, Any] = dict.fromkeys(EVALUATIONS)
    for row in rows:
        # An evaluation is logged when it happens; it must not be lost between two sampled steps.
        latest = {name: row.get(name) for name in EVALUATIONS}
        evaluations |= {name: value for name, value in latest.items() if value is not None}
        if row["step"] % k:
            continue
        lists = row["step"] % (LIST_EVERY * k) == 0
        if isinstance(row, LoggedRow) and not lists:
            seen = row.blank() | {name: row[name] for name in SCALARS}
        else:
            seen = dict(row) if lists else dict(row) | dict.fromkeys(LISTS)
        yield seen | evaluations
        evaluations = dict.fromkeys(EVALUATIONS)


def _minimal(rows: Iterable[Row], k: int) -> Rows:
    return only((row for row in rows if row["step"] % k == 0), ("loss", "lr"))


def _filtered(rows: Iterable[Row], k: int) -> Rows:
    window: list[Row] = []
    loss = _FilteredMean()
    for row in rows:
        window.append(row)
        if row.get("loss") is not None:
            loss.push(row["loss"])
        if (row["step"] + 1) % k:
            continue
        seen = blank(row)
        for name in SCALARS:
            values = [one[name] for one in window if one.get(name) is not None]
            seen[name] = sum(values) / len(values) if values else None
        yield seen | {"loss": loss.mean}
        window, loss = [], _FilteredMean()


class _FilteredMean:
    """The loss between two logs as the Trainer adds it up under its `logging_nan_inf_filter`.

    A non-finite loss adds total / (1 + steps so far) in its stead: 0 where none came before it, so
    that k steps of NaN are logged as a loss of 0. The 1 is the Trainer's; it makes the stand-in a
    little less than the mean.
    """

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def push(self, loss: float) -> None:
        self.total += loss if math.isfinite(loss) else self.total / (1 + self.count)
        self.count += 1

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


PROFILES: dict[str, Callable[[Iterable[Row], int], Rows]] = {
    "full": _full,
    "common": _common,
    "standard": _standard,
    "minimal": _minimal,
    "filtered": _filtered,
}
"""The profiles that show every run in the same way."""
ALL_PROFILES = (*PROFILES, LOGGED, TRAINER)
