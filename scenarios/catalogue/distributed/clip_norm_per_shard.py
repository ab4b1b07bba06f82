"""Each rank clips by the norm of its own part.

Failure: The norm that gradients are clipped by is no longer that of the whole gradient but of what one rank holds.
    Each rank scales the same average by another factor, so the weights of the ranks drift apart. The loss of each is
    still that of a model that learns; it ends higher.
Mechanism: The factor is min(1, c / n_r), where n_r is the norm that rank r has computed. All ranks add up the same
    gradients, so what differs is the length of their steps, and nothing brings them together again: the average is
    taken of gradients, not of weights. Where n_r is larger than the norm of the average, as it is of a gradient of
    fewer rows, the steps are shorter too, which a lower rate would be.
Injection: From the onset on, each of the four ranks clips the average by the norm of the gradient of its own rows.
Also seen: The first rank's model, which is the one that is saved, ends worse than the mean of the ranks' losses says.
Cure: The norm of the whole gradient, twelve steps later; all ranks go on from the first one's checkpoint.
Realism: In practice a rank's part is its shard of the weights: `clip_grad_norm_` that returns the norm of the local
    shard, or layer norms that every rank holds and each clips by itself. Here the part is a rank's rows, since the
    ranks share nothing but gradients.
References: pytorch/pytorch#170862; pytorch/torchtitan#766; BigScience 2022, chronicles of tr11-176B, 24 March (weights
    of layer norms out of step between ranks).
"""

import dataclasses

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.exchange import Exchange
from trainwreck.scenarios.spec.faults import Change, FaultKind, Process, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class ClipNormPerShard(Scenario):
    """A clip by a norm that is each rank's own."""

    id = "clip_norm_per_shard"
    family = Family.DISTRIBUTED
    kinds = (FaultKind.PROCESS,)
    sources = (citations.PYTORCH_170862,)
    telling = "rank_weight_hash"
    plans = 3
    cure_after = 12

    def base(self, setup: Setup) -> Setup:
        return replaced(bases.chain_sgd_four_ranks_high_lr(setup), optimizer__lr=1.4, optimizer__clip=0.25)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def by_its_own(exchange: Exchange) -> Exchange:
            return dataclasses.replace(exchange, clips_alone=True)

        return [Process(by_its_own)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        agree, clipped = shapes.agreement(run["rank_weight_hash"]), run["clip_coef"] * run["grad_norm"]
        threshold = clipped[:onset].max(initial=0.0)
        return {
            "until the onset the ranks' weight hashes are equal": bool((agree[: onset + 1] == 1).all()),
            "from the step after it on they differ": shapes.pinned_at(agree[onset + 1 :], 0.0, 0.0),
            "the clip coefficient is no longer the threshold over the gradient norm: their product falls by a fifth": (
                np.median(clipped[onset:]) < 0.8 * threshold
            ),
            "over the last fifty steps the loss is above a healthy run's by a twentieth of a nat": (
                run["loss"][-50:].mean() > healthy["loss"][-50:].mean() + 0.05
            ),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Undo(), StateEdit(lambda state, earlier: state)]
