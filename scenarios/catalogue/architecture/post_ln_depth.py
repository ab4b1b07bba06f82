"""Post-LN at a depth where it no longer trains.

Failure: The norm stands after the residual sum, in a model too deep for that. No learning rate
    schedule helps: the loss falls to the tokens' own entropy and stays.
Mechanism: Post-LN rescales the shortcut at every layer, x <- LN(x + f(x)). Each norm shrinks what
    comes through the shortcut by about 1/sqrt(2), so the gradient of layer l carries 2^(-(L-l)/2).
    The end of the network learns first and cuts off the rest.
Injection: Placement Post-LN in place of pre-LN, from step 0.
Signature: The loss plateaus far above the twin; the early layers' share of the gradient vanishes.
Cure: Norms inside the residual branches again (pre-LN), with a warm-up half as long again as the
    twin's, from the start.
Realism: The documented cure is the placement. Twelve narrow layers with Xavier initialisation;
    with shrunken residual branches and small embeddings, Post-LN of this depth trains.
References: Reading the Curves (divergence, vanishing gradients); Xiong et al. 2020; Wang et al.
    2022, "DeepNet: scaling transformers to 1,000 layers".
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Placement
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Setup, get
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, Undo, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@register
class PostLNDepth(Scenario):
    """Post-LN, twelve layers deep."""

    id = "post_ln_depth"
    family = Family.ARCHITECTURE
    sizes = (Size.DEEP,)
    kinds = (FaultKind.VARIANT,)
    sources = (citations.READING_CURVES,)
    telling = "layer_grad_norm"
    onset = None

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Variant("model.placement", Placement.POST)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        return shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.3)

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        longer = get(setup, "schedule.warmup_steps") * 3 // 2
        return [Undo(), Setting("schedule.warmup_steps", longer)]
