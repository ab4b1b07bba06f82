"""Gradients of other ranks arrive a step late.

Failure: A rank does not wait for the exchange to finish. It averages its own gradient of this step with
    what it finds in the buffers, the others' of the step before.
Mechanism: Of a direction of curvature h, a share f of the gradient is a step old:
    x_{t+1} - x_t = m (x_t - x_{t-1}) - lr h ((1 - f) x_t + f x_{t-1}). With momentum m this swings up
    where lr h > (1 - m) / f; without delay only where lr h > 2 (1 + m). For m = 0.9 and f = 3/4 that is
    28 times sooner, and directions that were damped begin to ring.
Injection: From the onset on, each rank hears the last `ranks` of the four late, itself never.
Also seen: The loss stays above the twin's, or runs away.
Cure: Wait for the exchange, and all ranks go on from the first one's checkpoint, thirty steps later.
Realism: Stands for a missing stream synchronisation and for asynchronous data parallelism. Simplified: the
    delay is exactly one step, and the same for each rank that is late.
References: Debugging Divergent Loss During Training (distributed synchronisation, asynchronous pipelines);
    Mitliagkas et al. 2016, Asynchrony begets momentum; Yang et al. 2021, PipeMare.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.exchange import Exchange, square
from trainwreck.scenarios.spec.faults import Change, FaultKind, Process, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Late(Knobs):
    """How many ranks' gradients reach the others late."""

    ranks: int = 4

    def __post_init__(self) -> None:
        if self.ranks < 1:
            raise ValueError(f"fault.ranks: {self.ranks} is not allowed; allowed: 1 or more")


@register
class DdpStaleGradients(Scenario):
    """Other ranks' gradients of the step before."""

    id = "ddp_stale_gradients"
    family = Family.DISTRIBUTED
    kinds = (FaultKind.PROCESS,)
    sources = (citations.DIVERGENT_LOSS,)
    telling = "rank_weight_hash"
    onset = MidRun(0.2, 0.35)  # while the steep directions are still there
    knobs = Late()
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.chain_sgd_four_ranks(setup)

    def fault(self, knobs: Late, setup: Setup) -> list[Change]:
        def not_wait(exchange: Exchange) -> Exchange:
            first = exchange.ranks - knobs.ranks
            return dataclasses.replace(exchange, late=square(exchange.ranks, lambda r, q: q >= first and q != r))

        return [Process(not_wait)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        agree, norm = shapes.agreement(run["rank_weight_hash"]), run["grad_norm"]
        return {
            "the ranks disagree: their weight hashes differ at nearly every step": shapes.pinned_at(
                agree[onset + 2 :], 0.0, 0.0
            ),
            "the gradient norm comes in waves of some steps": shapes.sways(np.log(norm[onset + 10 :]), 0.25),
        }

    def cure(self, knobs: Late, setup: Setup) -> list[Change]:
        return [Undo(), StateEdit(lambda state, earlier: state)]
