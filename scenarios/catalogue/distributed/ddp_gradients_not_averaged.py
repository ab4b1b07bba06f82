"""Gradients are summed over the ranks, or not shared at all.

Failure: The reduction is a sum where the recipe means an average, so that the same learning rate makes
    steps W times too long. Or the reduction is missing: each rank trains on its own rows alone, and
    there are W models, of which the first is saved.
Mechanism: With sum_r g_r = W mean_r g_r SGD has a rate of W lr: noise, and so the loss it hovers at,
    grow as the rate does, and directions of curvature over 2 (1 + momentum) / (W lr) diverge. Adam
    divides by the gradient's own size and hides the first fault, a clip hides it as well.
Injection: From the onset on, the averaged gradient is multiplied by the number of ranks (`how=summed`),
    or each of the four ranks applies its own gradient (`how=missing`).
Cure: The average, thirty steps later; all ranks go on from the first one's checkpoint.
Realism: Stands for a reduction set to SUM, a loss divided by the wrong number, `no_sync` left on, or a
    model that was never wrapped.
References: Debugging Training Instability ("are gradients being averaged correctly?"); Goyal et al. 2017,
    section 3 (normalisation of the loss over workers); Li et al. 2020, PyTorch Distributed.
"""

import dataclasses
from dataclasses import dataclass
from enum import Enum

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.exchange import Exchange, square
from trainwreck.scenarios.spec.faults import Change, FaultKind, Process, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


class How(Enum):
    """What is done in place of the average."""

    SUMMED = "summed"
    MISSING = "missing"


@dataclass(kw_only=True)
class Reduction(Knobs):
    """What is done in place of the average."""

    how: How = How.SUMMED


@register
class DdpGradientsNotAveraged(Scenario):
    """A sum in place of the average, or neither."""

    id = "ddp_gradients_not_averaged"
    family = Family.DISTRIBUTED
    kinds = (FaultKind.PROCESS,)
    sources = (citations.INSTABILITY,)
    telling = "grad_norm"
    knobs = Reduction()
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.chain_sgd_four_ranks(setup)

    def fault(self, knobs: Reduction, setup: Setup) -> list[Change]:
        def add_up(exchange: Exchange) -> Exchange:
            return dataclasses.replace(exchange, summed=True)

        def hear_nobody(exchange: Exchange) -> Exchange:
            return dataclasses.replace(exchange, hears=square(exchange.ranks, lambda r, q: r == q))

        return [Process(add_up if knobs.how is How.SUMMED else hear_nobody)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        norm, usual = run["grad_norm"], healthy["grad_norm"]
        summed = shapes.jumps_in_one_step(norm, onset, ratio=2.5) and bool(
            np.median(norm[onset:]) > 2.5 * np.median(usual[onset:])
        )
        unshared = shapes.pinned_at(shapes.agreement(run["rank_weight_hash"])[onset + 1 :], 0.0, 0.0)
        return {
            "the gradient norm jumps within one step and stays high, or the ranks' weight hashes differ": (
                summed or unshared
            )
        }

    def cure(self, knobs: Reduction, setup: Setup) -> list[Change]:
        return [Undo(), StateEdit(lambda state, earlier: state)]
