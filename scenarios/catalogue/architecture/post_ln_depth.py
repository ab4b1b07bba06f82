"""Post-LN at a depth where it no longer trains.

Failure: The norm stands after the residual sum, in a model too deep for that. The loss stays at the
    tokens' own entropy.
Mechanism: Post-LN rescales the shortcut, x <- LN(x + f(x)), by 1/sqrt(2) where branch and shortcut have
    the same variance, and a layer has two norms: the shortcut alone hands 2^-(L-l) of the gradient back
    to layer l. At step 0 the branches make up for it. Then the last layers learn token frequencies, which
    need nothing from below, and within twenty steps the gradient dies out on its way to the first.
Injection: Placement Post-LN in place of pre-LN, from step 0.
Cure: From the start, norms inside the residual branches (pre-LN) and a warm-up 1.5 times as long.
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
        vanishes = shapes.vanishes_in_early_layers(layers, usual, factor=10)
        return {
            "the early layers' share of the gradient vanishes": vanishes,
            "the loss plateaus far above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.3),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        longer = get(setup, "schedule.warmup_steps") * 3 // 2
        return [Undo(), Setting("schedule.warmup_steps", longer)]
