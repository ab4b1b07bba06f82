"""Attention scores are not divided by sqrt(d).

Failure: The factor 1 / sqrt(head width) is missing. In float32 nothing overflows, and the loss falls;
    but attention is sharp before it has learnt what to look at, and stays where it fell.
Mechanism: For queries and keys of unit features q k' has variance d, so scores are sqrt(d) times too
    large. Softmax saturates, p is near 0 or 1, and its gradient p (1 - p) vanishes: the first choice
    is never revised.
Injection: From step 0 the factor on q k' is 1.
Cure: The scale back after eight steps.
Realism: Stands for a kernel call without its scale argument, or a scale folded into weights that were
    initialised again. Queries and keys can learn to be smaller, so a small initialisation hides the fault.
References: Reading the Curves ("the scores are computed without proper scaling"); Vaswani et al. 2017,
    section 3.2.1; Zhai et al. 2023 (entropy collapse).
"""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@register
class AttentionUnscaled(Scenario):
    """No 1/sqrt(d), in full precision."""

    id = "attention_unscaled"
    family = Family.ATTENTION
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES,)
    telling = "attention_entropy"
    onset = None
    cure_after = 8
    tolerance = 0.14  # 16 healthy runs of this base end 0.139 nats apart

    def base(self, setup: Setup) -> Setup:
        return bases.full_narrow(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [TableEdit(unscale)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        entropy, usual = run["attention_entropy"].mean(1), healthy["attention_entropy"].mean(1)
        early, late = slice(20, 120), slice(-50, None)
        return {
            "the entropy of attention is far under the twin's early on": (
                np.median(entropy[early]) < 0.6 * np.median(usual[early])
            ),
            "and at the end": np.median(entropy[late]) < 0.6 * np.median(usual[late]),
            "the loss plateaus above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.05),
        }


def unscale(tables: "Tables", setup: Setup) -> "Tables":
    """1 in place of 1/sqrt(d)."""
    import torch

    return dataclasses.replace(tables, scale_N=torch.ones_like(tables.scale_N))
