"""The attention branch has no norm.

Failure: The norm in front of attention is missing in every layer; the MLP has its own. Attention is
    fed the stream as it is, and the stream grows with every layer.
Mechanism: Attention hands on a mean of its values, so without a norm its output is proportional to
    its input: x <- x + A x with |A x| ~ s |x|, and L layers multiply the stream by up to (1 + s)^L. Scores
    grow with its square, softmax saturates, and what passes is a copy of one position.
Injection: From step 0 the norm of every attention branch leaves its input as it is; its gain and shift
    still act.
Cure: The norms in their place after sixty steps.
Realism: Stands for a block that was rewritten for one branch, and for side channels without a norm.
    Weights start as He et al. would have them; with small ones and shrunken branches the fault is
    there and does no harm. A missing norm in front of the MLP alone is made up for here.
References: Reading the Curves ("verify that Pre-LN is correctly applied at every layer and that no
    residual branch is missing its norm"); Xiong et al. 2020.
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
class MissingBranchNorm(Scenario):
    """No norm in front of attention."""

    id = "missing_branch_norm"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES,)
    telling = "activation_std"
    onset = None
    cure_after = 60

    def base(self, setup: Setup) -> Setup:
        return bases.chain_four_layers(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [TableEdit(without_attention_norm)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        def stream(trace: Trace) -> np.ndarray:
            return np.asarray(np.median(trace["activation_std"][20:120], 0))

        std, usual = stream(run), stream(healthy)
        return {
            "activations grow with every layer": bool((np.diff(std) > 0).all()),
            "from the first layer to the last they grow by over four times the twin's factor": (
                std[-1] / std[0] > 4 * usual[-1] / usual[0]
            ),
            "the loss plateaus far above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.3),
        }


def without_attention_norm(tables: "Tables", setup: Setup) -> "Tables":
    """Attention reads the residual stream itself, without a norm."""
    import torch

    bare = torch.zeros(1, setup.model.layers, 2, dtype=torch.bool)
    bare[:, :, 0] = True
    return dataclasses.replace(tables, bare_NL2=bare)
