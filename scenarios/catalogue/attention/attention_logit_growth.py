"""Attention logits grow until attention is a choice of one.

Failure: At a high learning rate the queries and keys grow, and nothing holds them. The largest score
    climbs from a few units to about 1e4 in sixty steps, then more slowly; attention becomes one-hot, the
    loss turns up and stays up. No spike, no NaN.
Mechanism: Scores are a product of two learnt maps, d(q'k) = dq'k + q'dk: the larger queries and keys
    are, the more a step of the same size changes the scores, and growth feeds on itself. The lowest
    entropy that attention can have falls exponentially with the spectral norm of W_q W_k' (Zhai et
    al. 2023), and with entropy goes the gradient that could turn it back.
Injection: The learning rate times `factor`, from step 0. Twin and faulty run have neither weight decay
    nor clipping.
Cure: A norm on queries and keys (qk-norm), from the start and at the same high rate: an RMSNorm on
    each head, where Dehghani et al. 2023 have a LayerNorm.
Realism: In models of up to 1.2 billion weights, runs whose largest logit went over 1e4 diverged, and
    with qk-norm they trained to a low loss at high rates.
References: Debugging training (attention entropy); Wortsman et al. 2023, "Small-scale proxies";
    Dehghani et al. 2023 (qk-norm); Zhai et al. 2023.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Factor(Knobs):
    """How many times the twin's learning rate."""

    factor: float = 5.0


@register
class AttentionLogitGrowth(Scenario):
    """Queries and keys grow without bound."""

    id = "attention_logit_growth"
    family = Family.ATTENTION
    kinds = (FaultKind.SETTING,)
    sources = (citations.DEBUGGING,)
    telling = "attention_logit_max"
    onset = None
    knobs = Factor()

    def base(self, setup: Setup) -> Setup:
        return bases.chain_lr_x4_no_decay_no_clip(setup)

    def fault(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        logits = run["attention_logit_max"].max(1)
        early, middle, later = (shapes.smooth(logits[:until])[-1] for until in (30, 55, 105))
        entropy, usual = run["attention_entropy"][-50:].mean(), healthy["attention_entropy"][-50:].mean()
        return {
            "the largest attention logit triples from step 25 to step 50, and again to step 100": (
                early * 9 < middle * 3 < later
            ),
            "in the end it is over 1e4": np.median(logits[-50:]) > 1e4,
            "the entropy of attention collapses to under a tenth of the twin's": entropy < 0.1 * usual,
            "the loss plateaus above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.1),
        }

    def cure(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Variant("model.qk_norm", True)]
