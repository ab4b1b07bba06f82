"""The log shows the gradient norm of one shard, and clipping uses the whole.

Failure: None of the run's: it trains as its twin does, bitwise. From one step on the gradient norm in the log is lower,
    always by the same factor, and nothing else has changed: neither the layers' own norms nor what clipping does.
Mechanism: The gradient is spread over n ranks, each of which has an n-th of every matrix. The norm of all is the root
    of the sum of the shards' squares; where that sum is not taken for the log, a rank's own part is shown, smaller by
    the root of n.
Injection: In the log the gradient norm is divided by the root of `shards` from the onset on. Nothing that is trained
    is touched, and clipping uses the norm of the whole gradient, as before.
Cure: Add the squares up over the ranks before the norm is logged; earlier rows are corrected by the root of n.
Realism: With sharded tensors the clipped norm is a partial result until somebody asks for it: clipping was right all
    along, and curves of four ranks were too low by a factor of 2. There each rank's part differs by what it holds; here
    all shards are alike, so that the factor is exact.
References: radixark/miles_diffusion#35; EleutherAI/gpt-neox#297; pytorch/torchtitan#766.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, LogEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Shards(Knobs):
    """Ranks that the gradient is spread over."""

    shards: int = 4


@register
class LogNormOfOneShard(Scenario):
    """A rank's own part of the norm, in the log alone."""

    id = "log_norm_of_one_shard"
    family = Family.LOGGING
    look_alike = True
    imitates = ("projections_frozen", "frozen_parameters")
    kinds = (FaultKind.LOG,)
    sources = (citations.MILES_35,)
    telling = "grad_norm"
    plans = 3
    severities = {
        Severity.SUBTLE: Shards(shards=2),
        Severity.CLEAR: Shards(shards=4),
        Severity.SEVERE: Shards(shards=16),
    }

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Shards, setup: Setup) -> list[Change]:
        root = knobs.shards**0.5
        return [LogEdit(lambda row, before, since: {**row, "grad_norm": row["grad_norm"] / root})]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        whole = np.sqrt((run["layer_grad_norm"] ** 2).sum(1))
        share = run["grad_norm"] / whole
        level = [np.median(whole[part]) for part in (slice(max(0, onset - 20), onset), slice(onset, onset + 20))]
        return {
            "before the onset the norm is that of the layers' norms together, within 0.1 %": (
                abs(share[:onset] - 1) < 1e-3
            ).all(),
            "from then on it is at most three quarters of it": (share[onset:] < 0.75).all(),
            "by the same factor in every row, within 0.1 %": np.ptp(share[onset:]) < 1e-3 * share[onset],
            "the layers' norms stay as they were, within a third": abs(np.log(level[1] / level[0])) < 0.3,
        }
