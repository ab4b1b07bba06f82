"""Rows of the log are lost, and older ones stand in their place.

Failure: None of the run's: it trains as its twin does, bitwise. From one step on one row in a few is that of two steps
    before once more, number for number, under a newer step; its own numbers are nowhere.
Mechanism: Rows are sent by several writers, buffered, or sent again after a restart. What comes late or twice is
    entered under the next free step, and what was to stand there is dropped.
Injection: In the log each `every`-th row from the onset on is replaced by that of two steps before, with all its
    signals, the learning rate and the hash of the batch among them. Losses on held-out rows are logged apart. Nothing
    that is trained is touched.
Also seen: The batch's hash says that data is replayed, at single steps and never two in a row.
Cure: Write each row with the step that it was taken at, and refuse a step twice.
Realism: A tracker that wants steps in ascending order drops what comes late, and a resumed run sends steps again.
    Here the log has as many rows as there are steps, so that no reader sees a gap; a log with gaps is what
    `--every` and the profile `logged` are about.
References: wandb/wandb#5913; wandb/wandb#9449; allenai/tango#152.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, LogEdit, Row
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Every(Knobs):
    """One row in so many is lost."""

    every: int = 5


@register
class LogRowsMissing(Scenario):
    """Older rows under newer steps, in the log alone."""

    id = "log_rows_missing"
    family = Family.LOGGING
    look_alike = True
    imitates = ("data_replayed", "unshuffled_epochs")
    kinds = (FaultKind.LOG,)
    sources = (citations.WANDB_5913,)
    telling = "lr"
    plans = 3
    severities = {Severity.SUBTLE: Every(every=10), Severity.CLEAR: Every(every=5), Severity.SEVERE: Every(every=3)}

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Every, setup: Setup) -> list[Change]:
        every = knobs.every

        def late(row: Row, before: list[Row], since: int) -> Row:
            lost = since % every == every - 1 and len(before) > 1
            return before[-2] if lost else row

        return [LogEdit(late)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        same = [run[name][2:] == run[name][:-2] for name in ("loss", "grad_norm", "token_entropy")]
        again = np.concatenate([[False, False], np.logical_and.reduce(same)])
        end, usual = run["validation_loss"][-1], healthy["validation_loss"][-1]
        return {
            "one row in twelve and more has the numbers of that two steps before": again[onset:].mean() > 1 / 12,
            "no row before the onset": not again[:onset].any(),
            "at each of them the learning rate, which falls, steps back up": (np.diff(run["lr"])[again[1:]] > 0).all(),
            "the validation loss ends as a healthy run's, within a tenth of a nat": abs(end - usual) < 0.1,
        }
