"""The warm-up is longer than the run.

Failure: The learning rate climbs from step 0 to the last step and never gets near its peak. The loss
    stands still for the first part of the run and is behind for all of it.
Mechanism: The rate at step t is peak * t / warmup. After n steps the sum of all rates, which roughly bounds
    how far Adam carries a weight, is peak * n^2 / (2 * warmup): with a warm-up ten times the run, a
    twentieth of what a constant peak gives.
Injection: `warmup_steps` is set from step 0 on, to ten times the run and more.
Cure: Shorten: a fifth of the way in, the warm-up is set to a third of the run.
Realism: A warm-up given in steps for a run of a million of them, or counted in micro-batches.
References: Reading the Curves ("either the effective learning rate is zero - warmup misconfigured, schedule
    pointing at the wrong step count"); Debugging training (warmup phase too short or too long).
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
class Warmup(Knobs):
    """Steps of warm-up."""

    warmup_steps: int = 5000


@register
class WarmupTooLong(Scenario):
    """Warm-up many times as long as the run."""

    id = "warmup_too_long"
    family = Family.SCHEDULE
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "lr"
    onset = None
    severities = {
        Severity.SUBTLE: Warmup(warmup_steps=3000),
        Severity.CLEAR: Warmup(warmup_steps=5000),
        Severity.SEVERE: Warmup(warmup_steps=12000),
    }
    cure_after = 60

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Warmup, setup: Setup) -> list[Change]:
        return [Setting("schedule.warmup_steps", knobs.warmup_steps)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        quarter = len(run) // 4
        mine, other = (shapes.smooth(t["loss"])[quarter] for t in (run, healthy))
        tiny = run["lr"][:quarter].max() < 0.1 * np.max(healthy["lr"])
        return {
            "a quarter in the loss is over a nat above a healthy run's": mine > other + 1.0,
            "the learning rate has been under a tenth of a healthy run's peak": tiny,
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.06),
        }

    def cure(self, knobs: Warmup, setup: Setup) -> list[Change]:
        return [Setting("schedule.warmup_steps", setup.steps // 3)]
