"""Every rank reads the same rows.

Failure: The sampler does not go by the rank. All ranks read the first rank's share, so their
    gradients are one gradient and averaging them averages nothing away. Training gets noisier and
    ends higher, as with a batch W times smaller, at the price of W devices.
Mechanism: The mean of W independent gradients has variance s^2 / W; the mean of W equal ones has s^2.
    Near a minimum SGD hovers at a height in proportion to lr s^2 / (1 - momentum).
Injection: From the onset on, each of four ranks trains on the rows of the first.
Also seen: It swings by sqrt(W) times what it did, as the loss of one rank does.
Cure: Each rank its own share again, thirty steps later. A sampler divides rows by rank; `set_epoch`
    gives them a new order.
Realism: "Single GPU works, DDP doesn't": "all GPUs see the same data". Four processes that average
    their gradients over torch.distributed. SGD with momentum at a constant rate: decay would hide
    the noise.
References: Debugging training (all GPUs see the same data); McCandlish et al. 2018, An empirical model of
    large-batch training.
"""

import dataclasses

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.exchange import Exchange
from trainwreck.scenarios.spec.faults import Change, FaultKind, Process
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class DdpSameData(Scenario):
    """All ranks train on the first rank's rows."""

    id = "ddp_same_data"
    family = Family.DISTRIBUTED
    kinds = (FaultKind.PROCESS,)
    sources = (citations.DEBUGGING,)
    telling = "rank_batch_hash"
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.chain_sgd_four_ranks(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def read_the_first(exchange: Exchange) -> Exchange:
            return dataclasses.replace(exchange, shards=(0,) * exchange.ranks)

        return [Process(read_the_first)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        alike = shapes.agreement(run["rank_batch_hash"])
        return {
            "the ranks' batch hashes differ before the onset": shapes.pinned_at(alike[:onset], 0.0, 0.0),
            "and are equal from the onset on": shapes.pinned_at(alike[onset:], 1.0, 0.0),
            "the loss swings from step to step by half as much again as the twin's": (
                shapes.oscillates(run["loss"][onset:], healthy["loss"][onset:], factor=1.5)
            ),
        }
