"""Adam's epsilon is many orders too large.

Failure: Epsilon outweighs the root of the second moment. Adam becomes SGD with momentum and a tiny learning
    rate: the gradients are healthy, the learning rate reads as it should, and the weights hardly move.
Mechanism: The update is lr * m / (sqrt(v) + eps). Where eps is far over sqrt(v), the size of a gradient
    element (here 1e-3 to 1e-2), this is (lr / eps) * m.
Injection: `eps` is set from step 0 on.
Cure: A fifth of the way in, epsilon is set to 1e-8; the moments were right all along.
Realism: An epsilon given for another optimizer, or inside the root in one implementation and outside in
    another. Gradients shrink with the model's size, so that an epsilon that was right can become wrong
    (Wortsman et al. 2023).
References: Debugging Training Instability (optimizer settings); Wortsman et al. 2023, "Small-scale proxies
    for large-scale transformer training instabilities"; OLMo 2 (2025), section on epsilon.
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
class Epsilon(Knobs):
    """What is added to the root of the second moment."""

    eps: float = 0.3


@register
class AdamEpsWrong(Scenario):
    """Epsilon far over the gradients."""

    id = "adam_eps_wrong"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.INSTABILITY,)
    telling = "layer_update_ratio"
    onset = None
    severities = {
        Severity.SUBTLE: Epsilon(eps=0.1),
        Severity.CLEAR: Epsilon(eps=0.3),
        Severity.SEVERE: Epsilon(eps=1.0),
    }
    cure_after = 60

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Epsilon, setup: Setup) -> list[Change]:
        return [Setting("optimizer.eps", knobs.eps)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        mine, other = (np.median(t["layer_update_ratio"], 0).mean() for t in (run, healthy))
        return {
            "the update ratio is under 0.3 of a healthy run's": mine < 0.3 * other,
            "the learning rate is a healthy run's": np.array_equal(run["lr"], healthy["lr"][: len(run)]),
            "40 steps in the loss is late": shapes.steps_above(run["loss"], healthy["loss"], 0, 0.3, first=40, last=60),
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.06),
        }
