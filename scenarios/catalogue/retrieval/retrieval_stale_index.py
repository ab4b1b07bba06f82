"""The index of passages is older than the store and the model.

Failure: Questions get passages about something else. The model answers them worse and worse, and in time no longer
    trusts any passage.
Mechanism: An index has vectors of what lay in the slots of the store when it was made, of the weights of then. The
    store goes on changing: a slot that still looks like the answer to a question holds another fact by now.
Injection: From the onset on the index is rebuilt every `refresh` steps in place of every ten, or never again. A
    quarter of the store changes every ten steps.
Also seen: The retriever's own part of the objective falls as in the twin: it is of the weights of now. Answers that are
    still in the weights hide the failure for some steps; after long it is the copying that is unlearnt, and a new index
    comes too late.
Cure: The index is rebuilt every ten steps again.
Realism: REALM rebuilds its index every few hundred steps, in which the weights alone change, and loses a third of its
    recall with one thirty times as old; here the store changes, as a live one does.
References: Debugging Divergent Loss During Training (2025), on indexes and generators that are out of step; Guu et al.
    2020; Karpukhin et al. 2020; run-llama/llama_index#12851 (retrievers that work on a snapshot of the store);
    r-spade/ormah#32 (a vector of an older text stays, unseen).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario, Severity


@dataclass(kw_only=True)
class Refresh(Knobs):
    """Steps from one time that the index is rebuilt to the next; 0 for never again."""

    refresh: int = 0

    def __post_init__(self) -> None:
        if self.refresh < 0:
            raise ValueError(f"fault.refresh: {self.refresh} is not allowed; allowed: 0 or more")


@register
class RetrievalStaleIndex(Scenario):
    """An index that is older than the store."""

    id = "retrieval_stale_index"
    family = Family.RETRIEVAL
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.DIVERGENT_LOSS, citations.REALM, citations.LLAMA_INDEX_12851, citations.ORMAH_32)
    telling = "hit_rate"
    severities = {
        Severity.SUBTLE: Refresh(refresh=30),
        Severity.CLEAR: Refresh(refresh=60),
        Severity.SEVERE: Refresh(refresh=0),
    }
    onset = MidRun(0.2, 0.4)
    cure_after = 25

    def base(self, setup: Setup) -> Setup:
        return bases.facts(setup)

    def fault(self, knobs: Refresh, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.RETRIEVAL)
        return [Setting("retrieval.refresh", knobs.refresh)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 3, None)
        return {
            "from the onset on the index gets twice as old as in a healthy run": (
                np.nanmax(run["index_age"][onset:]) >= 2 * np.nanmax(healthy["index_age"])
            ),
            "in the last third the hit rate is at times under 0.7, in a healthy run over 0.95": (
                np.nanmin(run["hit_rate"][late]) < 0.7 and np.nanmin(healthy["hit_rate"][late]) > 0.95
            ),
            "at some evaluation the held-out loss after wrong passages is over that after right ones by 0.5 nats": (
                ((run["miss_loss"] - run["hit_loss"])[onset:] > 0.5).any()
            ),
            "the held-out loss is over a healthy run's by 0.3 nats on average in the last third": (
                np.nanmean((run["validation_loss"] - healthy["validation_loss"])[late]) > 0.3
            ),
        }
