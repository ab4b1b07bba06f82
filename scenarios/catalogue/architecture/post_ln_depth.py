"""Post-LN at a depth where it no longer trains.

Failure: The norm stands after the residual sum, in a model too deep for that. The loss falls to the
    tokens' own entropy and stays.
Mechanism: Post-LN rescales the shortcut, x <- LN(x + f(x)). Where branch and shortcut have the same
    variance the norm divides by sqrt(2), and a layer has two, so the shortcut alone hands back half of
    the gradient per layer, 2^-(L-l) from the end to layer l. At step 0 the branches make up for it and
    the gradient is even over the layers. Then the last layers learn token frequencies, for which they
    need nothing from below, and within twenty steps the gradient dies out on its way to the first.
Injection: Placement Post-LN in place of pre-LN, from step 0.
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
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        early = slice(20, 120)
        layers, usual = run["layer_grad_norm"][early, 1:], healthy["layer_grad_norm"][early, 1:]
        return {
            "the early layers' share of the gradient vanishes": (
                shapes.vanishes_in_early_layers(layers, usual, factor=10)
            ),
            "the loss plateaus far above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.3),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        longer = get(setup, "schedule.warmup_steps") * 3 // 2
        return [Variant("model.placement", Placement.PRE), Setting("schedule.warmup_steps", longer)]
