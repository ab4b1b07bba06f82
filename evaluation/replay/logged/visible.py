"""When a log shows a failure, from a run's labels alone: data sets made before the profile have them too.

A signal that is logged shows the failure in the first row with that signal at or after the signal's own first
visible step (`visible_steps`), and the log from the first of these rows on. That is the rule where the signal is
logged as it is. A deviation that has passed before the next row is not in the log, and what a running average, a
mean or rounding hides for a while, or altogether, the rule does not know: v is then too early, and the ceiling too
high. A row whose loss is blank or 0 for NaN counts as any other. A log that ends before the first loss that is not
finite has no row from there on: that step is known where the run was ended for it, `TAIL` steps later.
"""

import json
from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

from trainwreck.evaluation.dataset.schema import Outcome, step_of
from trainwreck.evaluation.replay.logged.config import BEFORE, LAST, LoggingConfig, config_of

if TYPE_CHECKING:
    import pandas as pd

Labels: TypeAlias = "Mapping[Any, Any] | pd.Series"
"""A row of the runs table."""
TAIL = 20  # steps that the lab trains on after a loss that stays not finite: the default of its setting `tail`


def visible_in_log(run: Labels, config: LoggingConfig | None = None) -> int | None:
    """The first step at which the log of a run shows its failure; None where it does not.

    Without steps by signal `visible_step` is taken for the loss's.
    """
    config = config or config_of(run["run_id"])
    steps = json.loads(run["visible_steps"] or "{}")
    first = step_of(run["visible_step"])
    if not steps and first is not None:
        steps = {"loss": first}
    last, planned = int(run["last_step"]), step_of(run["planned_steps"])
    ended = run["outcome"] == Outcome.NON_FINITE.value and planned is not None and last + 1 < planned
    if ended and config.not_finite == BEFORE:
        last -= TAIL + 1
    rows = (_row_at(config, name, step, last) for name, step in steps.items() if name in config.signals)
    return min((row for row in rows if row is not None), default=None)


def possible_rows(run_id: str, last: int) -> tuple[Sequence[int], bool]:
    """Steps that a log of steps 0 to `last` may have rows at, and whether it has one at each, whatever was logged."""
    config = config_of(run_id)
    if config.own_rows and "validation_loss" in config.signals:
        return range(last + 1), False
    return [step for step in range(last + 1) if config.due(step)], config.not_finite not in (LAST, BEFORE)


def _row_at(config: LoggingConfig, name: str, first: int, last: int) -> int | None:
    """The first row with a signal at or after a step."""
    if name == "validation_loss":
        first = ceil(first / config.evaluated) * config.evaluated
        if config.own_rows:
            return first if first <= last else None
    return next((step for step in range(first, last + 1) if config.due(step)), None)
