"""The warm-up is a few steps long.

Failure: The learning rate is at its peak before the optimizer knows how large the gradients are. The loss
    falls for a step or two, shoots up over where it began, and spends the rest of the run catching up.
Mechanism: After t steps Adam's second moment is a mean over t gradients. While t is small its ratio to m is
    that of one noisy gradient to itself, |m| / sqrt(v) near 1 in every weight at once: each step has
    the length lr * sqrt(parameters), whatever the gradient's.
Injection: `warmup_steps` is set from step 0 on; peak and decay stay.
Cure: Lengthen: two thirds of the healthy warm-up, from the start.
Realism: A peak fourteen times the usual one, the most that a long warm-up makes possible: with the usual peak
    this small model needs no warm-up. The logits of attention that the first steps inflate stay.
References: Debugging training (warmup phase too short); Ma and Yarats 2021, "On the adequacy of untuned
    warmup for adaptive optimization"; Wortsman et al. 2023.
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, get
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Warmup(Knobs):
    """Steps of warm-up."""

    warmup_steps: int = 3


@register
class WarmupTooShort(Scenario):
    """A few steps of warm-up before a high peak."""

    id = "warmup_too_short"
    family = Family.SCHEDULE
    kinds = (FaultKind.SETTING,)
    sources = (citations.DEBUGGING,)
    telling = "loss"
    onset = None
    knobs = Warmup()

    def base(self, setup: Setup) -> Setup:
        return bases.chain_lr_x14_longer_warmup(setup)

    def fault(self, knobs: Warmup, setup: Setup) -> list[Change]:
        return [Setting("schedule.warmup_steps", knobs.warmup_steps)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        mine, other = run["loss"], healthy["loss"]
        return {
            "within the first 15 steps the loss is over its value at step 0": mine[:15].max() > mine[0] + 0.2,
            "a healthy run's has fallen by over a nat by then": other[10:15].mean() < other[0] - 1.0,
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.05),
        }

    def cure(self, knobs: Warmup, setup: Setup) -> list[Change]:
        return [Setting("schedule.warmup_steps", get(setup, "schedule.warmup_steps") * 2 // 3)]
