"""Weight decay dominates the gradient.

Failure: Every step takes back more of the weights than the gradient can hold. The matrices shrink to where
    the two balance, far too small, and the loss stalls above what the model can do.
Mechanism: Decoupled decay takes lr * decay of a weight each step while Adam adds about lr, so that no decayed
    weight gets past about 1 / decay whatever the data asks: 0.03 for the usual decay times three hundred.
Injection: `weight_decay` is `factor` times the twin's from step 0 on.
Cure: A fifth of the way in, the decay is divided by the factor.
Realism: A coefficient of SGD (5e-4, coupled) carried over with the wrong exponent, or one that is no
    longer multiplied by the learning rate. Simplified: the norms' gains are not decayed and stay.
References: Debugging training ("weight decay too high, model collapsing to zero"); Loshchilov and Hutter
    2019.
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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        mine, other = (t["layer_weight_norm"][:, 1:-1] for t in (run, healthy))  # without embedding and head
        shrunk = (mine[-20:].mean(0) < 0.85 * mine[0]).all()
        return {
            "the weight norm of every layer ends under 0.85 of where it began": shrunk,
            "a healthy run's grows": (other[-20:].mean(0) > other[0]).all(),
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.06),
        }

    def cure(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.weight_decay", 1 / knobs.factor)]
