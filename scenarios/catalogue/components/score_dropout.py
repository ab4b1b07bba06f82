"""Dropout hits the scores before the softmax, in place of the probabilities after it.

Failure: One line stands in the wrong place. Where a score should decide, it is zeroed at random; a key
    that nobody should look at gets attention, and one that is wanted is lost.
Mechanism: softmax(m * s / (1 - p)) with m in {0, 1}: a dropped score is e**0 = 1 beside the e**s of the
    others, so a wanted key (large s) all but vanishes and an unwanted one (s far under 0) wins. The
    rest is sharpened by 1 / (1 - p). After the softmax the same draw would cost a share of p.
Injection: From the onset on, attention applies the dropout of the base to its scores. Evaluation, which
    drops nothing, computes as ever.
Signature: The entropy of attention jumps and becomes noisy where it was low; the training loss steps up
    and stays above.
Cure: Dropout after the softmax, a few steps after the onset.
Realism: Stands for attention rewritten by hand. Dropping keys before the softmax can be done right (as
    DropKey: -inf in place of 0). The base has dropout 0.1 everywhere.
References: Debugging training (attention entropy, dropout); Debugging Training Instability (attention
    bugs); Li et al. 2023 (DropKey); Srivastava et al. 2014.
"""

from trainwreck.evaluation import shapes
from trainwreck.evaluation.trace import Trace
from trainwreck.scenarios import bases, documents
from trainwreck.scenarios.faults import Change, FaultKind, Variant
from trainwreck.scenarios.registry import register
from trainwreck.scenarios.settings import Setup
from trainwreck.scenarios.spec import Family, Knobs, Scenario


@register
class ScoreDropout(Scenario):
    """Dropout before the softmax."""

    id = "score_dropout"
    family = Family.COMPONENTS
    kinds = (FaultKind.VARIANT,)
    sources = (documents.DEBUGGING, documents.INSTABILITY)
    telling = "attention_entropy"
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo_dropout(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Variant("model.attention", "score_dropout")]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        entropy = run["attention_entropy"]
        sharpest = int(entropy[onset - 20 : onset].mean(0).argmin())
        jumps = shapes.jumps_in_one_step(entropy[:, sharpest], onset, ratio=1.3)
        last = len(run) - 50
        return jumps and shapes.steps_above(run["loss"], healthy["loss"], last, margin=0.05, last=50)

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Variant("model.attention", "reference")]
