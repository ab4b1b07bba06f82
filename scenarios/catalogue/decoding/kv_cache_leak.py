"""A part of the cache that generation reads is another row's.

Failure: What is generated depends on what else is generated at the same time. Alone, every text is right; beside
    others it mixes with theirs.
Mechanism: Rows share the memory of their caches in blocks. Where a row's table names a block that another row writes,
    its attention finds that row's keys and values at these positions, and copies from them.
Injection: From the onset on, the first `slots` positions that a row reads are those of the row after it.
Also seen: Training, and the held-out loss on given tokens, are bitwise the twin's.
Cure: Every row reads its own.
Realism: Only generation is wrong. In a server it takes many requests at a time, and shows in some of them alone; here
    it is in every row.
References: tenstorrent/tt-xla#3899 (text leaks between sessions); vllm-project/vllm#39146 (blocks of other requests).
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario, Severity

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@dataclass(kw_only=True)
class Slots(Knobs):
    """Positions that are read of another row."""

    slots: int

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"fault.slots: {self.slots} is not allowed; allowed: 1 or more")


@register
class KvCacheLeak(Scenario):
    """A cache with a block of another row."""

    id = "kv_cache_leak"
    family = Family.DECODING
    plans = 3
    kinds = (FaultKind.TENSOR,)
    sources = (citations.TT_XLA_3899, citations.VLLM_39146)
    telling = "neighbour_gap"
    severities = {
        Severity.SUBTLE: Slots(slots=1),
        Severity.CLEAR: Slots(slots=2),
        Severity.SEVERE: Slots(slots=4),
    }
    onset = MidRun(0.6, 0.75)
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.refrain(setup)

    def fault(self, knobs: Slots, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.DECODING)

        def leak(tables: "Tables", setup: Setup) -> "Tables":
            import torch

            place = torch.arange(setup.model.context).unsqueeze(0)
            return dataclasses.replace(tables, cache_rows_NS=(place < knobs.slots).long())

        return [TableEdit(leak)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        return {
            "the loss on given tokens stays within 0.1 nats of a healthy run's from the onset on": (
                np.nanmax(abs(run["forced_loss"] - healthy["forced_loss"])[onset:]) < 0.1
            ),
            "beside other rows generated tokens have other chances at every evaluation": (
                np.nanmin(run["neighbour_gap"][onset:]) > 0.05
            ),
            "as they have in one pass without a cache": np.nanmin(run["cache_gap"][onset:]) > 0.05,
            "in a healthy run rows do not matter to each other": np.nanmax(healthy["neighbour_gap"]) < 0.01,
            "the loss on its own tokens is over that on given ones by 0.1 nats and more": (
                np.nanmin((run["validation_loss"] - run["forced_loss"])[onset:]) > 0.1
            ),
        }
