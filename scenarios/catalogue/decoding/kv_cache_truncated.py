"""The cache that generation reads keeps too few tokens.

Failure: Short texts are right. Past the length that the cache has room for, the model forgets how the text began.
Mechanism: A cache of C slots is written in a ring: position t is kept in slot t mod C, over position t - C. As soon as
    a prompt's tokens are needed and gone, attention has nothing of them, and spreads over what is left.
Injection: From the onset on, generation has `slots` slots for rows of more tokens.
Also seen: Training, and the held-out loss on given tokens, are bitwise the twin's.
Cure: A slot for every token.
Realism: Only generation is wrong. A window is also made use of on purpose, by models that were trained with it.
References: pytorch/executorch#12975 (a sliding window by default); ollama/ollama#14912 (where the window wraps).
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
from trainwreck.scenarios.data.sources.refrain import VERSE
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@dataclass(kw_only=True)
class Slots(Knobs):
    """Tokens that the cache has room for."""

    slots: int = 22

    def __post_init__(self) -> None:
        if self.slots < VERSE:
            raise ValueError(
                f"fault.slots: {self.slots} is not allowed; allowed: {VERSE} or more, a verse is read at once"
            )


@register
class KvCacheTruncated(Scenario):
    """A cache shorter than the text."""

    id = "kv_cache_truncated"
    family = Family.DECODING
    plans = 3
    kinds = (FaultKind.TENSOR,)
    sources = (citations.EXECUTORCH_12975, citations.OLLAMA_14912)
    telling = "free_late_loss"
    knobs = Slots()
    onset = MidRun(0.6, 0.75)
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.refrain(setup)

    def fault(self, knobs: Slots, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.DECODING)

        def ring(tables: "Tables", setup: Setup) -> "Tables":
            import torch

            place = torch.arange(setup.model.context).unsqueeze(0)
            return dataclasses.replace(tables, cache_slots_NT=place % knobs.slots)

        return [TableEdit(ring)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        early, late = (run[f"free_{part}_loss"] - healthy[f"free_{part}_loss"] for part in ("early", "late"))
        return {
            "the loss on given tokens stays within 0.1 nats of a healthy run's from the onset on": (
                np.nanmax(abs(run["forced_loss"] - healthy["forced_loss"])[onset:]) < 0.1
            ),
            "so does that of the first quarter of the generated tokens": np.nanmax(abs(early)[onset:]) < 0.1,
            "that of their last quarter is over a healthy run's by 0.3 nats and more at every evaluation": (
                np.nanmin(late[onset:]) > 0.3
            ),
            "whatever rows are beside them": np.nanmax(run["neighbour_gap"][onset:]) < 0.01,
        }
