"""Points of no return (p): the last step at which the cure still saves a run, found by branching.

    faulty  s ---------*---------*----*--------------- T      end: lost
    branch             |         |    +- cure -------- T      end: lost
    branch             |         +------ cure -------- T      end: the twin's, within tolerance
    branch             +---------------- cure -------- T      end: the twin's

A branch at t is bitwise the faulty run until t, and under the scenario's cure from t on; it is entered
from the faulty run's own state. It is saved where its final loss is within the scenario's tolerance of the
twin's, or better. Two ends are known before: the cured run of the data set, and the faulty run, which has no cure.
Between the last saved and the first lost, branches are taken at the middle until the two are no further
apart than `RESOLUTION` of the run, or until what was trained for it, faulty stretches included, has come
to `BUDGET` times the run. The branches of many runs are trained side by side.

Bisection takes it that what is lost at t is lost later as well. So before it goes finer than `COARSE` of the
run, branches are taken wherever a stretch of more than `WIDE` of the run has none on the far side of p, and
a branch that is saved after one that is lost is told in the label.

A cure that is another model goes on with the weights that both have. Where they are of other shapes (a wider
model) it cannot be applied to a run under way, and no p is measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, log2
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.schema import Harm
from trainwreck.models.parameters import fits, layout
from trainwreck.scenarios.spec.faults import State
from trainwreck.scenarios.spec.run_spec import RunSpec
from trainwreck.scenarios.training.backend import CPU, Backend
from trainwreck.scenarios.training.loop import train

RESOLUTION, COARSE, WIDE = 0.01, 0.05, 0.2  # of the planned steps
BUDGET = 3.0  # times the planned steps


@dataclass
class Search:
    """The search for one run's p. Steps are of the cure.

    last: the faulty run's last recorded step. target: the twin's final loss. harm: the side of it on which the
    run is harmed. gaps: step to the branch's final loss less the target, in nats, NaN where the loss was not finite.
    """

    spec: RunSpec
    last: int
    target: float
    tolerance: float
    gaps: dict[int, float] = field(default_factory=dict)
    harm: Harm = Harm.EITHER
    trained: int = 0  # run-steps
    states: dict[int, State] = field(default_factory=dict)

    @property
    def planned(self) -> int:
        """Steps that the run was meant to take."""
        return self.spec.setup.steps

    @property
    def onset(self) -> int:
        """First step under the fault."""
        return self.spec.onset or 0

    @cached_property
    def in_place(self) -> bool:
        """Whether the cure can be applied to a run under way."""
        job = self.spec.branch(max(1, self.onset))
        return all(
            fits(layout(a.setup.model), layout(b.setup.model))
            for a, b in zip(job.segments, job.segments[1:], strict=False)
        )

    def saved(self, step: int) -> bool:
        """Whether the branch at a step ended as the twin did, or under it where the harm is above."""
        gap = self.gaps[step]
        return bool((gap if self.harm is Harm.ABOVE else abs(gap)) <= self.tolerance)  # of NaN: no

    @property
    def first_lost(self) -> int:
        """The first step known to be too late; after the run's last one, there is no cure."""
        return min((step for step in self.gaps if not self.saved(step)), default=self.last + 1)

    @property
    def last_saved(self) -> int | None:
        """The last step known to be in time, before the first that is too late; None where there is none."""
        return max((step for step in self.gaps if step < self.first_lost), default=None)

    @property
    def monotone(self) -> bool:
        """Whether no branch was saved after one that was lost."""
        return not any(step > self.first_lost and self.saved(step) for step in self.gaps)

    def next_step(self) -> int | None:
        """Where to branch next; None when it is known, it can't be, or the budget is spent."""
        if not self.in_place:
            return None
        for step in (self._middle(COARSE), self._elsewhere(), self._middle(RESOLUTION)):
            if step is not None and self._affordable(step):
                return step
        return None

    def entry(self, step: int) -> int:
        """The step whose state a branch is entered from: one before, since what is due at a step is done on arrival."""
        return max(0, step - 1)

    def known_before(self, step: int) -> int:
        """The nearest step, this one at the latest, whose state is at hand."""
        return max((at for at in self.states if at <= step), default=0)

    def result(self) -> dict[str, Any]:
        """JSON-safe: p, the branches that it rests on, and what they cost in multiples of the run."""
        if not self.in_place:
            return {"run_id": self.spec.run_id, "no_return_step": None, "monotone": None, "branches": {}, "cost": 0.0}
        found = self.last_saved
        gaps = {str(step): gap if np.isfinite(gap) else None for step, gap in sorted(self.gaps.items())}
        return {
            "run_id": self.spec.run_id,
            "no_return_step": self.onset if found is None else found,
            "monotone": self.monotone,
            "branches": gaps,
            "cost": round(self.trained / self.planned, 3),
        }

    def _middle(self, share: float) -> int | None:
        """Between the last saved and the first lost, while they are further apart than a share of the run."""
        lost, saved = self.first_lost, self.last_saved
        if saved is None:
            return self.onset if lost > self.onset else None
        return (saved + lost) // 2 if lost - saved > max(1, round(share * self.planned)) else None

    def _elsewhere(self) -> int | None:
        """In the middle of a wide stretch without branches, at the run's end or after the onset."""
        end, wide = self.last + 1, WIDE * self.planned
        latest = max([*self.gaps, self.first_lost] if self.first_lost < end else [end])
        earliest = min(self.gaps, default=self.onset)
        if end - latest > wide:
            return (latest + end) // 2
        return (self.onset + earliest) // 2 if earliest - self.onset > wide else None

    def _affordable(self, step: int) -> bool:
        at = self.entry(step)
        return self.trained + at - self.known_before(at) + self.planned - at <= BUDGET * self.planned


def states_held(steps: int) -> int:
    """How many states of a run of so many steps its search holds at most.

    Searches for every p were played without training; tests/scenarios/proof/test_no_return.py plays them again.
    """
    return max(1, ceil(6.5 * log2(steps)) - 18)


def search(searches: Sequence[Search], backend: Backend = CPU) -> None:
    """Find the points of no return of faulty runs, all of one shape, side by side."""
    todo = [(one, step) for one in searches if (step := one.next_step()) is not None]
    while todo:
        _reach(todo, backend)
        _branch(todo, backend)
        todo = [(one, step) for one, _ in todo if (step := one.next_step()) is not None]
    for one in searches:
        one.states.clear()


def _reach(todo: Sequence[tuple[Search, int]], backend: Backend) -> None:
    """Train the faulty runs on to where their branches are entered."""
    jobs, enter, keep, earlier, stop = [], {}, {}, {}, {}
    for one, step in todo:
        until = one.entry(step)
        start = one.known_before(until)
        if start == until:
            continue
        job = one.spec.job()
        jobs.append(job)
        if start in one.states:
            enter[job.run_id] = start, one.states[start]
        looked_back = one.spec.branch(step).snapshots()
        keep[job.run_id] = {until, *_halves(one.last_saved or one.onset, step), *looked_back}
        earlier[job.run_id] = one.states
        stop[job.run_id] = until
        one.trained += until - start
    place = _place(backend)
    found = train(jobs, enter=enter, keep=keep, earlier=earlier, stop=stop, record=False, **place) if jobs else []
    states = {job.run_id: result.states for job, result in zip(jobs, found, strict=True)}
    for one, _ in todo:
        one.states |= states.get(one.spec.run_id, {})


def _branch(todo: Sequence[tuple[Search, int]], backend: Backend) -> None:
    """Train the branches to the end."""
    jobs = [one.spec.branch(step) for one, step in todo]
    enter, earlier = {}, {}
    for (one, step), job in zip(todo, jobs, strict=True):
        at = one.entry(step)
        if at in one.states:
            enter[job.run_id] = at, one.states[at]
            earlier[job.run_id] = {k: v for k, v in one.states.items() if k < at}
        one.trained += one.planned - at
    for (one, step), result in zip(todo, train(jobs, enter=enter, earlier=earlier, **_place(backend)), strict=True):
        one.gaps[step] = result.trace.final_loss() - one.target


def _halves(low: int, high: int) -> list[int]:
    """Where the next branches will be entered if each turns out lost: at the middle, at that of the lower half ..."""
    found = []
    while high - low > 1:
        high = (low + high) // 2
        found.append(max(0, high - 1))
    return found


def _place(backend: Backend) -> dict[str, Any]:
    return {"device": backend.device, "impl": backend.impl}
