"""An auxiliary term explodes in the logged loss, while objective and validation improve.

Failure: None. In mid-run a z-loss is switched on, and the log shows the sum of what is minimised. The
    curve leaps to several times its level, with the gradient norm; within some tens of steps the
    model has moved its logits to where the term is near 0. The validation loss, which has no such
    term, is up by a tenth of a nat at first and then goes on falling.
Mechanism: L = -ln p(y) + c * (ln Z)^2. The softmax does not care for a constant added to all logits, so
    that ln Z can be driven to 0 at no cost to the first term, from however large a value.
Injection: From the onset on the objective has a z-loss of weight `weight`, and the logged loss is the
    objective.
Realism: Terms that are added by plan: z-loss (PaLM, 1e-4), load balance of experts, penalties of a
    later stage. Simplified: a strong weight, so that a short run shows it. Published logs have healthy
    runs whose auxiliary loss explodes while validation improves.
References: Chowdhery et al. 2022, "PaLM", section 5; Wortsman et al. 2023; Reading the Curves (loss
    spike then recovery).
"""

from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Term(Knobs):
    """Weight of the z-loss."""

    weight: float = 0.1


@register
class BenignAuxiliaryLoss(Scenario):
    """z-loss switched on, and logged."""

    id = "benign_auxiliary_loss"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("corrupt_tokens", "lr_jump")
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES,)
    telling = "loss"
    knobs = Term()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Term, setup: Setup) -> list[Change]:
        return [Setting("z_loss", knobs.weight), Setting("log_objective", True)]
