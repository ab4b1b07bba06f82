"""Weight decay dominates the gradient.

Failure: Every step takes back more of the weights than the gradient can hold. The matrices shrink to where
    the two balance, far too small, and the loss stalls above what the model can do.
Mechanism: Decoupled decay takes lr * decay of a weight each step while Adam adds about lr, so that weights
    settle near 1 / decay whatever the data asks: 0.1 for the usual decay times a hundred.
Injection: `weight_decay` is `factor` times the twin's from step 0 on.
Signature: The weight norms of the layers fall under where they began, where a healthy run's grow, and the
    loss stalls above.
Cure: A fifth of the way in, the decay is divided by the factor.
Realism: A coefficient of SGD (5e-4, coupled) carried over with the wrong exponent, or one scaled by the
    learning rate twice. Simplified: the norms' gains are not decayed and stay.
References: Debugging training ("weight decay too high, model collapsing to zero"); Loshchilov and Hutter
    2019.
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import bases, citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Factor(Knobs):
    """The decay over the healthy one."""

    factor: float = 300.0

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"fault.factor: {self.factor} is not allowed; allowed: over 0")


@register
class WeightDecayTooHigh(Scenario):
    """Weight decay that outweighs the gradient."""

    id = "weight_decay_too_high"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.DEBUGGING,)
    telling = "layer_weight_norm"
    onset = None
    severities = {
        Severity.SUBTLE: Factor(factor=150.0),
        Severity.CLEAR: Factor(factor=300.0),
        Severity.SEVERE: Factor(factor=1000.0),
    }
    cure_after = 60

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.weight_decay", knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        norms = run["layer_weight_norm"][:, 1:-1]  # of the layers, without embedding and head
        shrunk = bool((norms[-20:].mean(0) < 0.85 * norms[0]).all())
        return shrunk and shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.06)

    def cure(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.weight_decay", 1 / knobs.factor)]
