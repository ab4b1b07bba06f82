"""The shortcut is multiplied by a factor under one: every layer forgets part of what came before.

Failure: The residual path leaks. What the embedding and the first layers put into the stream reaches
    the head a fraction of its size, the deeper the less.
Mechanism: x_(l+1) = c x_l + f(x_l) makes c^(2 L) of the first contribution over L layers of two
    branches; its gradient shrinks by the same factor on the way back.
Injection: From the onset on, the shortcut of every branch is multiplied by `factor`.
Cure: The shortcut as it was, a few steps after the onset.
Realism: Stands for a factor on the shortcut that one of two code paths has, and for DeepNorm's, which
    is over one, lost at a restart. Under pre-LN the branches learn to make up for it, so most runs end
    as their twins.
References: Debugging training (residual connections, activations); Reading the Curves; Wang et al. 2022;
    He et al. 2016, "Identity mappings in deep residual networks", section 3.1 (constant scaling).
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@dataclass(kw_only=True)
class Leak(Knobs):
    """Factor on every shortcut."""

    factor: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.factor < np.inf:
            raise ValueError(f"fault.factor: {self.factor} is not allowed; allowed: 0 or more, finite")


@register
class ResidualScaled(Scenario):
    """Shortcuts that lose part of the stream."""

    id = "residual_scaled"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING, citations.READING_CURVES)
    telling = "activation_std"
    severities = {
        Severity.SUBTLE: Leak(factor=0.45),
        Severity.CLEAR: Leak(factor=0.3),
        Severity.SEVERE: Leak(factor=0.25),
    }
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Leak, setup: Setup) -> list[Change]:
        def leak(tables: "Tables", setup: Setup) -> "Tables":
            import torch

            gain = torch.full((1, setup.model.layers, 2), knobs.factor)
            return dataclasses.replace(tables, shortcut_gain_NL2=gain)

        return [TableEdit(leak)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        std = run["activation_std"]
        kept = std[onset : onset + 5].mean(0) / std[max(0, onset - 20) : onset].mean(0)
        return {
            "the stream's standard deviation after the last layer drops within one step": (
                shapes.drops_in_one_step(std[:, -1], onset, ratio=0.6)
            ),
            "after the first layer less so": kept[-1] < 0.8 * kept[0],
            "the loss steps up": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.04),
        }
