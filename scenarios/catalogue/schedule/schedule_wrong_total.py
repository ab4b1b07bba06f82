"""The scheduler is stepped once per micro-batch: the schedule is over long before the run.

Failure: The learning rate warms up, peaks and reaches zero several times too fast. From there on nothing is
    learnt, though the gradients are alive and there was progress left to make.
Mechanism: A schedule for n steps that is stepped k times an update ends at step n / k:
    lr(t) = schedule(k * t), and 0 for every later t.
Injection: The scheduler is stepped `calls` times in each step, from step 0 on.
Cure: The right count: two fifths of the way in, the schedule goes on from where it should be.
Realism: The usual slip of gradient accumulation, and of launchers that step a scheduler once per process.
References: Reading the Curves (schedule pointing at the wrong step count); Debugging training ("schedule
    misaligned with total steps (e.g. cosine decays to zero before training is done)").
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Calls(Knobs):
    """How often the scheduler is stepped in each step."""

    calls: int = 8


@register
class ScheduleWrongTotal(Scenario):
    """Scheduler stepped once per micro-batch."""

    id = "schedule_wrong_total"
    family = Family.SCHEDULE
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "lr"
    onset = None
    severities = {
        Severity.SUBTLE: Calls(calls=6),
        Severity.CLEAR: Calls(calls=8),
        Severity.SEVERE: Calls(calls=12),
    }
    cure_after = 120

    def base(self, setup: Setup) -> Setup:
        return bases.chain_lr_to_zero(setup)

    def fault(self, knobs: Calls, setup: Setup) -> list[Change]:
        return [Setting("schedule.calls", knobs.calls)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        half = len(run) // 2
        held_out = run["validation_loss"][half:][run.evaluated[half:]]
        return {
            "the learning rate is 0 for over half of the run": (run["lr"] == 0).mean() > 0.5,
            "the update ratio is 0 over the second half": run["layer_update_ratio"][half:].max() == 0,
            "the gradient norm is not": np.median(run["grad_norm"][half:]) > 0.1,
            "the held-out loss stands still there": np.allclose(held_out, held_out[-1:], rtol=0, atol=1e-3),
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.06),
        }
