"""Every rank reads the same rows.

Failure: The sampler is not re-seeded by rank. All ranks read the first rank's share, so their
    gradients are one gradient and averaging them averages nothing away. Training gets noisier and
    ends higher, as with a batch W times smaller, at the price of W devices.
Mechanism: The mean of W independent gradients has variance s^2 / W; the mean of W equal ones has s^2.
    Near a minimum SGD hovers at a height in proportion to lr s^2 / (1 - momentum).
Injection: From the onset on, each of four ranks trains on the rows of the first.
Signature: The ranks' batch hashes are equal, and the loss swings from step to step as that of one
    rank does: by sqrt(W) of what it did.
Cure: Each rank its own share again, which `set_epoch` and a seed by rank give, thirty steps later.
Realism: "Single GPU works, DDP doesn't: all GPUs see the same data". Four processes that average
    their gradients over torch.distributed. Plain SGD at a constant rate: decay would hide the noise.
References: Debugging training (all GPUs see the same data); McCandlish et al. 2018, An empirical model of
    large-batch training.
"""

import dataclasses

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import bases, citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.exchange import Exchange
from trainwreck.scenarios.spec.faults import Change, FaultKind, Process
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


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
        return bases.data_parallel(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def read_the_first(exchange: Exchange) -> Exchange:
            return dataclasses.replace(exchange, shards=(0,) * exchange.ranks)

        return [Process(read_the_first)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        alike = shapes.agreement(run["rank_batch_hash"])
        noisy = shapes.oscillates(run["loss"][onset:], healthy["loss"][onset:], factor=1.5)
        return shapes.pinned_at(alike[:onset], 0.0, 0.0) and shapes.pinned_at(alike[onset:], 1.0, 0.0) and noisy
