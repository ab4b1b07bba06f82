"""A planned restart of the learning rate: a bump in the loss that belongs there.

Failure: None. In mid-run the rate jumps back over its peak and decays again (warm restarts). The loss
    steps up, the gradient norm moves, and both come down to where the twin ends.
Mechanism: SGDR: lr(t) = lr_max * (1 + cos(pi * t / T)) / 2 within a cycle, and t = 0 again at its end.
Injection: At the onset the rate jumps to twice the peak and falls, by a cosine over half of a run's
    steps, towards where the twin's ends.
Realism: Cyclic schedules, and stages of training that re-warm.
References: Loshchilov and Hutter 2017, "SGDR: stochastic gradient descent with warm restarts";
    Reading the Curves (learning rate schedule issues).
"""

import math

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, Curve, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


@register
class BenignWarmRestart(Scenario):
    """Learning rate back to twice its peak, then down again."""

    id = "benign_warm_restart"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("schedule_restarted", "lr_jump")
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES,)
    telling = "lr"
    onset = MidRun(0.4, 0.55)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def restart(rate: float, since: int, setup: Setup) -> float:
            cycle = setup.steps // 2
            peak, end = 2 * setup.optimizer.lr, setup.optimizer.lr * setup.schedule.final_fraction
            share = min(1.0, since / (cycle - 1))
            return end + (peak - end) * 0.5 * (1 + math.cos(math.pi * share))

        return [Curve(restart)]
