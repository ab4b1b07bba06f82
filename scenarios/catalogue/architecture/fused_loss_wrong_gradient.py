"""A fused loss has the right value and a wrong gradient.

Failure: The loss is changed for a fused kernel, and what is logged goes on to the last digit. But the gradient is
    another one: here it is 0, and the loss stops falling. Nothing raises, and a check on an unmasked batch passes.
Mechanism: A fused loss makes g_i = dl_i / dw in the forward pass, for a factor of 1, and the backward pass has to
    return sum_i c_i g_i, with c_i = weight of token i / sum of weights. The kernel takes c_1 for every c_i. For a
    mean over all tokens they are equal; with a mask c_1 is that of the first token, which in a batch of prompts and
    answers is part of a prompt: c_1 = 0.
Injection: From the onset on every token's gradient has the first token's factor. Losses are computed as before.
Also seen: The weights still move for some steps, by momentum and weight decay, and the loss rises.
Cure: Every token's own factor, twenty steps later.
Realism: As reported, for `reduction="none"` and a mask on top. Where the first token counts, or weights are not 0 and
    1, the gradient is wrong without being 0. Here it sets in early in the run; in practice with the kernel.
References: linkedin/Liger-Kernel#968 (fused loss with `reduction='none'`: wrong gradients, 0 with ignored labels);
    linkedin/Liger-Kernel#1298 (one number of the upstream gradient is read); Hsu et al. 2024.
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import LossForm, Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class FusedLossWrongGradient(Scenario):
    """Right loss, one factor for all tokens' gradients."""

    id = "fused_loss_wrong_gradient"
    family = Family.ARCHITECTURE
    plans = 3
    kinds = (FaultKind.VARIANT,)
    sources = (citations.LIGER_968, citations.LIGER_1298)
    telling = "grad_norm"
    onset = MidRun(0.04, 0.12)
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return bases.chat(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Variant("loss", LossForm.FIRST_FACTOR)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        return {
            "at the onset the loss is that of the right kernel, bit for bit": (
                run["loss"][onset] == healthy["loss"][onset]
            ),
            "from there on the gradient norm is exactly 0": (
                shapes.pinned_at(run["grad_norm"][onset:], 0.0, tolerance=0.0, share=1.0)
            ),
            "though answers are scored": run["scored_tokens"][onset:].min() > 0,
            "the loss ends over a nat above the twin's": shapes.plateaus_above(
                run["loss"], healthy["loss"], margin=1.0
            ),
        }
