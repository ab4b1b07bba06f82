"""Recomputed activations have other dropout masks than the loss had.

Failure: To save memory activations are not kept, and the backward pass computes them again. The generator of random
    numbers is not put back for it, so that dropout draws other masks. The run trains, its loss falls, and it ends
    well above where it ends without recomputation, which should change no number.
Mechanism: The loss is L(f(x, m)), with masks m. The gradient is taken through f(x, m') with masks m' that no loss was
    measured with: units that were dropped learn from an error that they had no part in, units that were kept do not
    learn from theirs. It is neither the gradient of the loss nor of its mean. Without dropout m = m' and nothing is
    wrong.
Injection: From step 0 on each layer is recomputed in the backward pass, with dropout masks of another stream.
Cure: Recomputation with the masks that the forward pass had, after ten steps; it is bitwise the run that keeps its
    activations.
Realism: In OLMo-core#828 a dropout of 0.1 cost 0.3 nats at step 150. Here it is 0.3, on the branches and the
    attention probabilities of two layers; the twin recomputes them too. The embedding has dropout as well, outside the
    layers: its mask is right.
References: allenai/OLMo-core#828 (state of the generator not preserved while dropout is active);
    pytorch/pytorch#190758 (random operations recomputed with other draws); Chen et al. 2016.
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Recompute
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class RecomputeMaskDiffers(Scenario):
    """Other masks in the backward pass."""

    id = "recompute_mask_differs"
    family = Family.ARCHITECTURE
    plans = 3
    kinds = (FaultKind.VARIANT,)
    sources = (citations.OLMO_CORE_828, citations.PYTORCH_190758)
    telling = "loss"
    onset = None
    cure_after = 10

    def base(self, setup: Setup) -> Setup:
        return bases.chain_dropout_recomputed(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Variant("model.recompute", Recompute.OTHER_MASKS)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        (_, values), (_, usual) = run.evaluations, healthy.evaluations
        return {
            "the first loss is the twin's, bit for bit": run["loss"][0] == healthy["loss"][0],
            "its gradient is not": run["grad_norm"][0] != healthy["grad_norm"][0],
            "the loss ends above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.1),
            "so does the loss on held-out rows, which are evaluated without dropout": values[-1] > usual[-1] + 0.05,
        }
