"""The index of passages is rebuilt as seldom as the store changes, and gets nine steps old, harmlessly.

Failure: None. The index had always been of this step, and now gets nine steps old. Questions find their passages as
    before, and every other number that is recorded is the twin's, bitwise.
Mechanism: An index is stale by what has changed since it was made. The store changes every ten steps, at which the
    index is made too. In between only the weights move, and the nearest key stays the nearest.
Injection: From the onset on the index is rebuilt every `refresh` steps in place of each one.
Realism: To embed a corpus is dear, so that indexes are rebuilt as seldom as the loss allows; REALM does it every few
    hundred steps. It is a failure where the store changes in between.
References: Guu et al. 2020; run-llama/llama_index#12851 (a store that changes in between, as the contrast).
"""

from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Seldom(Knobs):
    """Steps from one time that the index is rebuilt to the next."""

    refresh: int = 10

    def __post_init__(self) -> None:
        if self.refresh < 1:
            raise ValueError(f"fault.refresh: {self.refresh} is not allowed; allowed: 1 or more")


@register
class BenignOlderIndex(Scenario):
    """An index that is older than before, and not older than the store."""

    id = "benign_older_index"
    family = Family.LOOK_ALIKE
    plans = 4
    look_alike = True
    imitates = ("retrieval_stale_index",)
    kinds = (FaultKind.SETTING,)
    sources = (citations.REALM, citations.LLAMA_INDEX_12851)
    telling = "index_age"
    knobs = Seldom()
    onset = MidRun(0.3, 0.4)
    tolerance = 0.003  # 16 healthy runs of this base end 0.0027 apart

    def base(self, setup: Setup) -> Setup:
        setup = replaced(bases.facts(setup), retrieval__refresh=1, data__rows=16, schedule__warmup_steps=10)
        return replaced(setup, evaluation__every=3)

    def fault(self, knobs: Seldom, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.RETRIEVAL)
        return [Setting("retrieval.refresh", knobs.refresh)]
