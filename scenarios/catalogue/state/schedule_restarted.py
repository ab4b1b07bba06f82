"""The learning-rate schedule restarts at a resume.

Failure: The scheduler's state is not in the checkpoint. The resumed job warms up again and then trains at
    the peak rate, where the schedule was already well down its decay.
Mechanism: lr = f(t - t_resume) in place of f(t). The rate at which a run can end decides how far it gets
    down: at a high rate the loss stays at the noise that the rate makes.
Injection: At the onset, late in the run, the run resumes and its schedule counts from zero.
Cure: The schedule's own position, sixty steps later.
Realism: Stands for `scheduler.load_state_dict` forgotten. A planned restart looks the same for a while:
    `benign_warm_restart`.
References: Reading the Curves (the schedule points at the wrong step count; log the learning rate);
    Debugging training (learning rate schedule misaligned with total steps).
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain_lr_x10_long_warmup
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, SchedulePosition, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class ScheduleRestarted(Scenario):
    """A second warm-up that nobody planned."""

    id = "schedule_restarted"
    family = Family.STATE
    kinds = (FaultKind.TENSOR, FaultKind.STATE)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "lr"
    onset = MidRun(0.5, 0.6)
    cure_after = 60

    def base(self, setup: Setup) -> Setup:
        return chain_lr_x10_long_warmup(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        resume = StateEdit(lambda state, earlier: state)
        return [resume, SchedulePosition(lambda step, start: step - start)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        rate, usual, last = run["lr"], healthy["lr"], slice(-40, None)
        return {
            "the learning rate falls to less than half at the onset": rate[onset] < 0.5 * rate[onset - 1],
            "and then climbs to the peak": rate[onset:].max() > 0.95 * rate[:onset].max(),
            "it ends at over three times the twin's": rate[-1] > 3 * usual[-1],
            "the loss ends above the twin's": run["loss"][last].mean() > healthy["loss"][last].mean() + 0.02,
        }
