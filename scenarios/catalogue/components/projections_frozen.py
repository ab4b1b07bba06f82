"""Query, key and value weights get no gradient: what attention looks at is settled early.

Failure: From early on, the projections of attention stay as they are. The rest of the model trains
    around them; the pattern that only they could learn is never learnt.
Mechanism: With W(t + 1) = W(t) for the three projections the scores x' Q' K x can change through the
    stream alone, and a look-back over a fixed distance has to be built by Q and K.
Injection: From the onset on, no gradient arrives at the projections of any layer, as under
    requires_grad=False: weights and moments are left alone, weight decay too. The onset is early, as a
    model that has learnt its attention hardly notices.
Cure: The gradient arrives again, 25 steps later.
Realism: Stands for a list of frozen parameters left over from a fine-tuning recipe, and for a detached
    forward. No norm of the projections alone is on record, as that of the whole layer is.
References: Debugging training ("requires_grad=False accidentally"); Reading the Curves (plateau;
    "log the gradient norm of every parameter").
"""

import dataclasses

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Updates, projections
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, UpdateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class ProjectionsFrozen(Scenario):
    """No gradient for queries, keys and values."""

    id = "projections_frozen"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING, citations.READING_CURVES)
    telling = "attention_entropy"
    onset = MidRun(0.04, 0.08)
    cure_after = 25

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def freeze(updates: Updates, plan: Layout) -> Updates:
            import torch

            reaches = torch.ones(1, plan.size, dtype=torch.bool)
            for layer in range(setup.model.layers):
                reaches[:, projections(plan, layer, setup.model.heads).flatten()] = False
            return dataclasses.replace(updates, reaches_NP=reaches)

        return [UpdateEdit(freeze)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late, start = slice(-75, None), slice(onset, onset + 10)
        entropy, usual = run["attention_entropy"][:, -1], healthy["attention_entropy"][:, -1]
        norms = run["layer_weight_norm"][late, -2].mean() / healthy["layer_weight_norm"][late, -2].mean()
        return {
            "the last layer's attention ends less than 0.3 nats sharper than at the onset": (
                entropy[late].mean() > entropy[start].mean() - 0.3
            ),
            "while the twin's ends over half a nat sharper": entropy[late].mean() > usual[late].mean() + 0.5,
            "the last layer's weight norm ends under the twin's": norms < 0.96,
            "the loss falls": run["loss"][late].mean() < run["loss"][start].mean() - 0.3,
            "but to a level above the twin's": (
                shapes.steps_above(run["loss"], healthy["loss"], len(run) - 75, margin=0.05, last=75)
            ),
        }
