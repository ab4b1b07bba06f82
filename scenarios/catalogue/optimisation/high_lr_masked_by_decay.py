"""The learning rate is too high, and its decay hides it.

Failure: For most of the run the loss is noisy and too high. As the rate decays, the noise dies down, the loss
    drops, and the run ends like any good one, only above where it could have ended.
Mechanism: At a rate over the stability threshold the weights wander at a height that grows with the rate; as it
    decays to zero the run cools into whatever valley it has wandered to, with attention logits that have grown
    by orders and no longer come back.
Injection: The peak is `factor` times the twin's from step 0 on; the schedule decays to zero all the same.
Cure: The healthy rate from step 10 on, while the rate is still climbing.
Realism: Seen in published logs: a final loss that nobody questions, because nobody saw the lower one. The
    exported program has optimizer.weight_decay=0.3, not 0.2, where under some vector
    instructions the gap shrinks too little.
References: Wortsman et al. 2023 (sensitivity to the learning rate); Reading the Curves (learning rate
    schedule).
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Factor(Knobs):
    """The peak over the healthy one."""

    factor: float = 17.0

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"fault.factor: {self.factor} is not allowed; allowed: over 0")


@register
class HighLRMaskedByDecay(Scenario):
    """Learning rate too high, decayed before the run is lost."""

    id = "high_lr_masked_by_decay"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES,)
    telling = "loss"
    onset = None
    knobs = Factor()
    cure_after = 10
    program = ("optimizer.weight_decay=0.3",)

    def base(self, setup: Setup) -> Setup:
        # Twice the usual decay: weights that have grown come back far enough for the end to look well.
        return replaced(bases.chain_lr_to_zero(setup), optimizer__weight_decay=0.2)

    def fault(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        steps, loss = len(run), shapes.smooth(run["loss"], 20)
        gap = loss - shapes.smooth(healthy["loss"], 20)[:steps]
        middle, end = gap[steps // 4 : steps // 2].mean(), gap[-10:].mean()
        return {
            "over the second quarter the loss is more than 0.2 nats above a healthy run's": middle > 0.2,
            "in the last quarter it still falls by 0.1 nats": loss[3 * steps // 4] > loss[-1] + 0.1,
            "at the end the gap has shrunk to under 0.6 of that": end < 0.6 * middle,
            "and remains": end > 0.04,
        }

    def cure(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", 1 / knobs.factor)]
