"""The causal mask is gone: every position sees the tokens that it should predict.

Failure: A change to the attention code drops the causal mask. The model reads its targets off its
    inputs, the loss falls under the entropy of the source, and the model is of no use for generation.
Mechanism: With the mask, p(x_t | x_<t); without it, p(x_t | x_1 .. x_T) = 1 for all but the last
    token. No model of the language can have a loss under its entropy H; this one tends to 0 < H.
Injection: From the onset on, all positions of the same document are allowed. Other documents stay
    masked. Validation runs through the same code, so it leaks too.
Also seen: The loss is under the entropy of the source.
Cure: The causal mask, a few steps after the onset. The loss jumps up and comes back down.
Realism: Stands for refactors that lose `is_causal`, or pass a mask of the wrong polarity to a fused
    kernel. Simplified: the documents mask stays right, all layers and heads are hit alike.
References: Debugging Training Instability (label leakage); Reading the Curves (token loss by
    position); Vaswani et al. 2017, section 3.2.3.
"""

import dataclasses
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.schema import Harm
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@register
class MaskMissing(Scenario):
    """Causal mask absent: the future leaks in."""

    id = "mask_missing"
    family = Family.ATTENTION
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY, citations.READING_CURVES)
    telling = "attention_mass_future"
    harm = Harm.BELOW
    cure_after = 8

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [TableEdit(see_everything)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        future = run["attention_mass_future"]
        return {
            "attention on the future is 0 before the onset": bool((future[:onset] == 0).all()),
            "and is over 0 in every layer from the onset on": future[onset:].min() > 0.01,
            "the loss falls far under the twin's": shapes.falls_under(run["loss"], healthy["loss"], margin=0.5),
        }


def see_everything(tables: "Tables", setup: Setup) -> "Tables":
    """Every position allowed."""
    import torch

    return dataclasses.replace(tables, allowed_NTS=torch.ones_like(tables.allowed_NTS))
