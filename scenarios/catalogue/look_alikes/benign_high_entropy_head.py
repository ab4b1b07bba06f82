"""Heads near-uniform, then near-Dirac, and right both times.

Failure: None. The source asks for little more than the previous token, so heads that spread over all of
    the past do no harm. Then the attention temperature is lowered: within one step every head looks at
    one position, its entropy falls to a third, scores reach ten times as far, and the loss stays.
Mechanism: H(softmax(beta * s)) falls from ln t towards 0 as beta grows. Entropy is a symptom only where
    the loss depends on what the head reads: d loss / d attention is near 0 here.
Injection: From the onset on, scores are multiplied by `sharpness` in every head.
Realism: Temperatures of attention by schedule or by length (log n scaling). Attention that is
    highly peaked is "sometimes correct (induction heads), sometimes a sign of a degenerate attention pattern".
References: Debugging training (attention entropy); Zhai et al. 2023, "Stabilizing transformer training
    by preventing attention entropy collapse", as the contrast.
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@dataclass(kw_only=True)
class Temperature(Knobs):
    """Factor on every attention score."""

    sharpness: float = 10.0


@register
class BenignHighEntropyHead(Scenario):
    """Attention temperature lowered where no head is needed."""

    id = "benign_high_entropy_head"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("mask_zeroed", "attention_unscaled", "attention_logit_growth")
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING,)
    telling = "attention_entropy"
    knobs = Temperature()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Temperature, setup: Setup) -> list[Change]:
        def sharpen(tables: "Tables", setup: Setup) -> "Tables":
            return dataclasses.replace(tables, scale_N=tables.scale_N * knobs.sharpness)

        return [TableEdit(sharpen)]
