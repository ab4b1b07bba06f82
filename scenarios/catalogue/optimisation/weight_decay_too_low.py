"""No weight decay at a high learning rate: weights and attention logits grow without bound.

Failure: The loss looks right and the weights do not: their norms climb at every step, and the logits of
    attention with them, towards where a softmax saturates. Nothing has happened yet.
Mechanism: Adam's steps of size lr in random directions add up to a norm of lr * sqrt(t) for each weight. Decay
    takes lr * decay of it back at each step, so that it settles near sqrt(lr / (2 * decay)); without it, the
    norm grows for ever and logits, products of two weights, as its square.
Injection: `weight_decay` is 0 from step 0 on; 0.3 in the twin.
Cure: Decay, a tenth of the way in.
Realism: A group of parameters that the decay does not reach. In a run as short as this one the loss is hardly
    touched: the weights show the fault, the loss not yet.
References: Debugging training ("growing without bound: weight decay too low, or a runaway feedback loop
    (e.g. softmax saturation pushing logits to infinity)"); Wortsman et al. 2023.
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class WeightDecayTooLow(Scenario):
    """No decay at a high learning rate."""

    id = "weight_decay_too_low"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.DEBUGGING,)
    telling = "layer_weight_norm"
    onset = None
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return replaced(bases.chain_lr_x14_longer_warmup(setup), optimizer__weight_decay=0.3)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Setting("optimizer.weight_decay", 0.0)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        mine, other = (t["layer_weight_norm"][-20:, 1:-1].mean(0) for t in (run, healthy))  # of the layers
        logits, usual = (t["attention_logit_max"][-100:].max() for t in (run, healthy))
        return {
            "the weight norm of every layer ends at over twice a healthy run's": (mine > 2 * other).all(),
            "the largest attention logit is over 3 times a healthy run's": logits > 3 * usual,
        }
