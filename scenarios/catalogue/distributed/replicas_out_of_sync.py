"""Parameters that every rank holds get another gradient on each rank.

Failure: The gradients of all norms are left out of the exchange. Each rank applies its own to its copy of the gains
    and biases, and the copies drift apart, while every other weight is shared and stays near the others'. No loss
    jumps and no norm warns; the loss falls more slowly.
Mechanism: A copy is moved by the noise of the gradient of its own rows, which is sqrt(W) times that of the average,
    and what the copies have in common is all that the shared weights can fit. A checkpoint keeps one of them.
Injection: From the onset on, the gains and biases of norms get the gradient of the rank's own rows.
Cure: Gradients of all parameters are averaged, and all ranks go on from the first one's checkpoint, thirty steps
    later.
Realism: In practice the ranks are those of tensor and sequence parallelism, where a norm sees a part of the positions
    and its gradient has to be added up by an exchange of its own, which is forgotten. Here they are data-parallel, so
    the part is rows.
References: NVIDIA/Megatron-LM#1446; EleutherAI/gpt-neox#1257 (poor convergence until norms were synchronised);
    NVIDIA/TransformerEngine#435; Korthikanti et al. 2022, "Reducing activation recomputation in large transformer
    models", section 4.2.2.
"""

import dataclasses

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.exchange import Exchange
from trainwreck.scenarios.spec.faults import Change, FaultKind, Process, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

NORMS = ("norm.gain", "norm.bias")  # endings of the names of their parameters


@register
class ReplicasOutOfSync(Scenario):
    """Norms that are each rank's own."""

    id = "replicas_out_of_sync"
    family = Family.DISTRIBUTED
    kinds = (FaultKind.PROCESS,)
    sources = (citations.MEGATRON_1446,)
    telling = "rank_weight_hash"
    plans = 3
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.chain_sgd_four_ranks_high_lr(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def leave_norms_out(exchange: Exchange) -> Exchange:
            return dataclasses.replace(exchange, unshared=NORMS)

        return [Process(leave_norms_out)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        n = min(len(run), len(healthy))
        agree, gap = shapes.agreement(run["rank_weight_hash"]), run["loss"][:n] - healthy["loss"][:n]
        return {
            "until the onset the ranks' weight hashes are equal": bool((agree[: onset + 1] == 1).all()),
            "from the step after it on they differ": shapes.pinned_at(agree[onset + 1 :], 0.0, 0.0),
            "the gradient norm does not jump": not shapes.jumps_in_one_step(run["grad_norm"], onset, ratio=1.7),
            "in the first ten steps the loss is less above a healthy run's than at the end": (
                gap[onset : onset + 10].mean() < gap[-40:].mean()
            ),
            "where it is above it by a twentieth of a nat": gap[-40:].mean() > 0.05,
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Undo(), StateEdit(lambda state, earlier: state)]
