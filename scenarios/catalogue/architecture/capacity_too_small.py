"""A model too small for its data.

Failure: The stream is a quarter as wide as it should be. The loss falls, slows down and settles above
    what the data allows, and nothing else is wrong.
Mechanism: Logits are W x + b with x of width d, so their matrix over all contexts has rank d + 1 at
    most (Yang et al. 2018): a softmax over more classes than that can't follow every context, and each
    head is left with d / heads features to tell positions and tokens apart.
Injection: Width 16 and an MLP no wider than the stream, from step 0; heads and layers are the twin's.
Cure: The twin's width and MLP, from the start.
Realism: The opposite of overfitting, and told from it by the validation curve.
References: Debugging training ("plateaus far above expected. Model capacity insufficient"; "increase
    capacity"); Reading the Curves (loss plateau); Yang et al. 2018, "Breaking the softmax bottleneck".
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class CapacityTooSmall(Scenario):
    """Width 16."""

    id = "capacity_too_small"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.VARIANT,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "loss"
    onset = None

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Variant("model.width", 16), Variant("model.mlp_ratio", 1)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, validation = run["loss"], run["validation_loss"]
        return {
            "the loss plateaus above the twin's": shapes.plateaus_above(loss, healthy["loss"], margin=0.1),
            "the training loss ends within a tenth of a nat of the validation loss": (
                not shapes.above_validation(loss, validation, margin=0.1)
                and shapes.above_validation(loss, validation, margin=-0.1)
            ),
            "the final validation loss is above the twin's by more than the tolerance": (
                run.final_loss() > healthy.final_loss() + self.tolerance
            ),
        }
