"""The graph is cut before the loss: nothing learns.

Failure: A `detach()` meant for the log, or a no_grad block around the forward pass, stands in the way
    of the backward pass. The loop runs on at full speed, and no weight moves any more.
Mechanism: Without a path from the loss to a weight its gradient is None, not 0, and optimizers skip
    such a weight altogether: no step, no momentum, no weight decay. dw = 0 exactly.
Injection: From the onset on no gradient arrives anywhere; weights and moments are left alone.
Cure: The graph whole again, twenty steps later.
Realism: Stands for a change of the training code at a resume. A framework raises an error where no
    leaf at all needs a gradient; in practice something else (an adapter, an auxiliary head) keeps
    it silent, and here nothing raises.
References: Debugging training ("Loss exactly constant": "Detached gradient").
"""

import dataclasses

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Updates
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, UpdateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class LossDetached(Scenario):
    """No gradient reaches any weight."""

    id = "loss_detached"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING,)
    telling = "grad_norm"
    onset = MidRun(0.04, 0.12)
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [UpdateEdit(cut)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        steps, values = run.evaluations
        frozen, loss = values[steps >= onset], run["loss"][onset:]
        middle = len(loss) // 2
        return {
            "the gradient norm is exactly 0 from the onset on": (
                shapes.pinned_at(run["grad_norm"][onset:], 0.0, tolerance=0.0, share=1.0)
            ),
            "the validation loss is exactly constant": bool((frozen == frozen[:1]).all()),
            "the training loss goes up and down about one level": (
                loss.std() > 0.02 and abs(loss[:middle].mean() - loss[middle:].mean()) < 0.05
            ),
        }


def cut(updates: Updates, plan: Layout) -> Updates:
    """No gradient arrives anywhere."""
    import torch

    return dataclasses.replace(updates, reaches_NP=torch.zeros(1, plan.size, dtype=torch.bool))
