"""Attention logits grow until attention is a choice of one.

Failure: At a high learning rate the queries and keys grow, and nothing holds them. The largest score
    climbs by a factor of ten every few dozen steps; attention becomes one-hot, the loss turns up and
    stays up. No spike, no NaN.
Mechanism: Scores are a product of two learnt maps, so a step of size lr on each raises them by about
    lr * |q| |k|: growth feeds on itself. The entropy of attention falls exponentially with the
    spectral norm of W_q W_k' (Zhai et al. 2023), and with it the gradient that could turn it back.
Injection: The learning rate times `factor`, from step 0. Twin and faulty run have neither weight decay
    nor clipping.
Signature: The largest attention logit climbs steadily, tenfold from step 50 to step 100, and passes
    1e4; entropy collapses; the loss plateaus above the twin's.
Cure: A norm on queries and keys (qk-norm), from the start and at the same high rate.
Realism: In models of up to 1.2 billion weights, runs whose largest logit went over 1e4 diverged, and
    qk-norm let them train at the highest rates.
References: Debugging training (attention entropy); Wortsman et al. 2023, "Small-scale proxies";
    Dehghani et al. 2023 (qk-norm); Zhai et al. 2023.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import bases, citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        logits = run["attention_logit_max"].max(1)
        climbs = logits[20:30].mean() * 9 < logits[45:55].mean() * 3 < logits[95:105].mean()
        grown = bool(climbs and np.median(logits[-50:]) > 1e4)
        entropy = run["attention_entropy"][-50:].mean() < 0.1 * healthy["attention_entropy"][-50:].mean()
        return grown and bool(entropy) and shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.1)

    def cure(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Variant("model.qk_norm", True)]
