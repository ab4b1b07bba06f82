"""L2 inside Adam, on every parameter.

Failure: The decay is added to the gradient and not to the update, and to all parameters: norm gains, biases
    and embeddings too. Adam takes it for a gradient like any other; where the true one is weaker, the
    weight goes to zero at full speed.
Mechanism: Adam's step is lr * m / sqrt(v). With g + decay * w in place of g, a weight for which
    decay * |w| exceeds |g| moves towards zero by lr a step however small the decay, and the true
    gradient is a ripple on it. A gain of 1 has the largest pull of all.
Injection: From step 0 on the decay is coupled, has strength `weight_decay`, and reaches every parameter.
Cure: Decoupled decay on the matrices alone, a tenth of the way in.
Realism: `torch.optim.Adam(weight_decay=...)` for `AdamW`, with one group for all parameters, and the
    coefficient that AdamW had.
References: Debugging Divergent Loss ("moment estimates can misbehave if weight decay or beta terms are
    misapplied"); Loshchilov and Hutter 2019, "Decoupled weight decay regularization".
"""

import dataclasses
from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Updates
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, UpdateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Decay(Knobs):
    """Strength of the coupled decay."""

    weight_decay: float = 0.1


@register
class WeightDecayOnAll(Scenario):
    """Coupled decay of every parameter under Adam."""

    id = "weight_decay_on_all"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING, FaultKind.TENSOR)
    sources = (citations.DIVERGENT_LOSS,)
    telling = "layer_weight_norm"
    onset = None
    severities = {
        Severity.SUBTLE: Decay(weight_decay=0.03),
        Severity.CLEAR: Decay(weight_decay=0.1),
        Severity.SEVERE: Decay(weight_decay=0.3),
    }
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Decay, setup: Setup) -> list[Change]:
        def reach_all(updates: Updates, plan: Layout) -> Updates:
            import torch

            return dataclasses.replace(updates, decays_NP=torch.ones(1, plan.size))

        return [
            Setting("optimizer.coupled", True),
            Setting("optimizer.weight_decay", knobs.weight_decay),
            UpdateEdit(reach_all),
        ]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        norms = run["layer_weight_norm"][:, :-1]  # without the head
        shrunk = (norms[-20:].mean(0) < 0.6 * norms[0]).all()
        return {
            "the weight norms of the embedding and of every layer end under 0.6 of where they began": shrunk,
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.06),
        }
