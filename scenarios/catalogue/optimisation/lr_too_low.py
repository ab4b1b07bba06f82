"""The learning rate is far too low.

Failure: The loss falls in the first part of the run, ever more slowly, and is flat where it should end:
    high, with everything else in good order.
Mechanism: One update of Adam moves a weight by about lr, so that in a run hardly a weight gets further than
    sum_t lr_t from where it began. Where that is less than its way to a good value, it never arrives.
Injection: The peak is `factor` times the twin's from step 0 on; warm-up and decay keep their shape.
Cure: A tenth of the way in, the rate is raised to the healthy one.
Realism: A rate copied from a larger model or from a fine-tune, or a typing error in the exponent.
References: Reading the Curves (early plateau); Debugging training (loss plateaus far above expected).
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Factor(Knobs):
    """The peak over the healthy one."""

    factor: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.factor < 1:
            raise ValueError(f"fault.factor: {self.factor} is not allowed; allowed: over 0 and under 1")


@register
class LRTooLow(Scenario):
    """Peak learning rate far too low."""

    id = "lr_too_low"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.DIVERGENT_LOSS, citations.READING_CURVES, citations.DEBUGGING)
    telling = "loss"
    onset = None
    severities = {
        Severity.SUBTLE: Factor(factor=0.03),
        Severity.CLEAR: Factor(factor=0.01),
        Severity.SEVERE: Factor(factor=0.004),
    }
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        return {
            "the last third brings under a fifth of the loss's fall": shapes.levels_off(run["loss"], 0.33, of_fall=0.2),
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.3),
        }

    def cure(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", 1 / knobs.factor)]
