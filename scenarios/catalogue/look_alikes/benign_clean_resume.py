"""A checkpoint is resumed as it should be: a pause, and nothing else.

Failure: None. The run stops, is read back from its checkpoint, state and all, and goes on bit for bit
    as if it had not stopped. Only the throughput dips while caches and workers warm up.
Mechanism: (weights, m, v, step count, loss scale, position in the data) is all the state there is.
Injection: At the onset the state goes through a checkpoint file's bytes and comes back unchanged; the
    modelled clock shows the pause.
Realism: Every preemption. The reference for all failures of state: what those runs should look like.
References: Debugging Training Instability (optimizer state mismatch, as the contrast); Reading the
    Curves (tokens per second).
"""

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@register
class BenignCleanResume(Scenario):
    """A resume with everything in place."""

    id = "benign_clean_resume"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("stale_optimizer_state", "optimizer_state_lost", "loader_stall")
    kinds = (FaultKind.STATE,)
    sources = (citations.INSTABILITY, citations.READING_CURVES)
    telling = "tokens_per_second"

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [StateEdit(lambda state, earlier: state)]
