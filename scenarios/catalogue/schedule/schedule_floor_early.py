"""The decay reaches its floor long before the end.

Failure: The model was learning well, and then it is not: the loss flattens where the learning rate meets
    its floor, with most of the run still to come. It reads like convergence, and is not.
Mechanism: A schedule for n steps in a run of N leaves N - n steps at lr = floor * peak, of which each
    carries a weight by hardly more than that.
Injection: The schedule is made for `total_steps` steps and decays to `floor` of the peak, from step 0 on.
Cure: Stretch: two fifths of the way in, the schedule is made for the whole run.
Realism: A run that was prolonged without its schedule. The floor is all but zero; the usual tenth of
    the peak is still enough for a task this small.
References: Reading the Curves (learning rate schedule issues: "the plateau coincides with the learning rate
    reaching its floor"); Debugging training (schedule decayed too aggressively).
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Floor(Knobs):
    """Where the decay ends, in steps and as a share of the peak."""

    total_steps: int = 40
    floor: float = 0.002


@register
class ScheduleFloorEarly(Scenario):
    """Decay to a floor in a fraction of the run."""

    id = "schedule_floor_early"
    family = Family.SCHEDULE
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "lr"
    onset = None
    knobs = Floor()
    cure_after = 120

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Floor, setup: Setup) -> list[Change]:
        return [
            Setting("schedule.total_steps", knobs.total_steps),
            Setting("schedule.final_fraction", knobs.floor),
        ]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        rate = run["lr"]
        floor = int(rate.argmin()) if rate[-1] == rate.min() else len(run)

        def fall(trace: Trace) -> float:
            steps, values = trace.evaluations
            late = values[steps >= min(floor, len(run) // 3)]
            return float(late[0]) - float(late[-1])

        mine, other = fall(run), fall(healthy)
        early = floor < len(run) // 3 and rate[floor:].max() < 1.01 * rate.min()
        return {
            "in the first third the learning rate meets a floor that it keeps to": early,
            "from there on the held-out loss falls by under 0.6 of a healthy run's fall": mine < 0.6 * other,
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.05),
        }
