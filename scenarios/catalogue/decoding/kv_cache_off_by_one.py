"""The index at which generation goes on in its cache is one too low.

Failure: The first token that is generated is right, and what follows is not. The loss on given tokens is as good as
    ever.
Mechanism: The prompt of P tokens is read at once, into slots 0 to P - 1. The next token belongs at P; at P - 1 it is
    kept over the prompt's last token, and has that one's position. So has each after it: the model is always a place
    behind, and writes what belonged there.
Injection: From the onset on, tokens after the prompt are kept in the slot before their own, with its position.
Also seen: Training, and the held-out loss on given tokens, are bitwise the twin's.
Cure: The right index.
Realism: Only generation is wrong. Stands for an offset that is counted from the prompt's last token; in real code it
    is often wrong for the first step alone, or by more than one.
References: skyzh/tiny-llm#46 (a wrong offset from the first generated token on); huggingface/transformers#15751
    (positions that ignore what is cached).
"""

import dataclasses
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


@register
class KvCacheOffByOne(Scenario):
    """Generated tokens kept a slot too low."""

    id = "kv_cache_off_by_one"
    family = Family.DECODING
    plans = 3
    kinds = (FaultKind.TENSOR,)
    sources = (citations.TINY_LLM_46, citations.TRANSFORMERS_15751)
    telling = "validation_loss"
    onset = MidRun(0.6, 0.75)
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.refrain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.DECODING)

        def behind(tables: "Tables", setup: Setup) -> "Tables":
            import torch

            place = torch.arange(setup.model.context)
            place = torch.where(place < VERSE, place, place - 1).unsqueeze(0)
            return dataclasses.replace(tables, cache_slots_NT=place, cache_places_NT=place)

        return [TableEdit(behind)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        first = run["free_first_loss"] - healthy["free_first_loss"]
        return {
            "the loss on given tokens stays within 0.1 nats of a healthy run's from the onset on": (
                np.nanmax(abs(run["forced_loss"] - healthy["forced_loss"])[onset:]) < 0.1
            ),
            "so does that of the first generated token": np.nanmax(abs(first)[onset:]) < 0.1,
            "the loss on its own tokens is over theirs by a nat and more at every evaluation": (
                np.nanmin((run["validation_loss"] - run["forced_loss"])[onset:]) > 1.0
            ),
            "in one pass without a cache generated tokens have other chances": np.nanmin(run["cache_gap"][onset:])
            > 0.5,
            "whatever rows are beside them": np.nanmax(run["neighbour_gap"][onset:]) < 0.01,
        }
