"""A softmax without subtracting the row's maximum overflows at a logit of 89.

Failure: An attention written by hand takes exp of the scores as they are. Training is normal until a score
    nears 88.7; then exp, or a row's sum of it, is infinite in float32, and everything is NaN within one step.
    float16 holds scores that are 700 times as large.
Mechanism: p = exp(s) / sum exp(s). The largest float32 is 3.4e38 = exp(88.72); past it p = inf / inf.
    exp(s - max s) is the same p and never over 1.
Injection: From the onset on, the kernel that does not shift (`softmax_unshifted`) takes over. It starts
    early, while the logits are still small.
Cure: The maximum is subtracted again, a few steps after the onset.
Realism: Stands for hand-written attention and fused kernels in the making. Logits grow here because one
    head is trained at a high rate without decay or clipping; the shifted twin does not mind them.
References: Recognizing the symptoms of training instability (NaN from a numerical issue); Reading the
    Curves (attention overflow); Milakov and Gimelshein 2018 (safe softmax).
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain_one_head_large_logits
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario

LARGEST = 88.72  # of which exp is finite in float32


@register
class SoftmaxUnshifted(Scenario):
    """exp of scores that nothing was subtracted from."""

    id = "softmax_unshifted"
    family = Family.NUMERICS
    kinds = (FaultKind.VARIANT,)
    sources = (citations.SYMPTOMS, citations.READING_CURVES)
    telling = "attention_logit_max"
    onset = MidRun(0.02, 0.05)
    cure_after = 3

    def base(self, setup: Setup) -> Setup:
        return chain_one_head_large_logits(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Variant("model.attention", self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, logits = run["loss"], run["attention_logit_max"].max(1)
        last = (shapes.non_finite_from(loss) or len(run)) - 1  # step with a finite loss
        return {
            "after the onset the loss turns NaN or infinite for good": shapes.turns_non_finite(loss, onset + 1),
            "the step before, the largest attention logit is within 50 % of 88.7": (
                0.5 * LARGEST < logits[last] < 1.5 * LARGEST
            ),
            "the loss of that step is normal": loss[last] < healthy["loss"][max(0, last - 9) : last + 1].mean() + 0.5,
            "weights end as NaN or infinite": run["nonfinite_weights"][-1] > 0,
        }
