"""Which runs are stepped as one bundle, from one cut of time to the next.

    step      0 ........ 40 ........ 90 ........ 400
    slot 0    twin       twin        twin               nothing about it changes: it is not touched
    slot 1    (as 0)     faulty      faulty             parts from its twin: the twin's state, its own tables
    slot 2    other      other       -                  gets another program: it moves to a bundle of that one

A bundle lives as long as its runs. What changes about a run that keeps its program, its settings, tables or state, is
written over its row in place, so that a captured step stays valid. A run moves where its program changes.

On a CPU, where a slot costs what its run does, bundles are packed: they have slots of runs that are there, and are
built anew where some leave or come. On a device slots are reserved: the bundle of a program has one for every run that
ever has this program, and is built once. A slot whose run is not there is stepped on what another run of the bundle
gets, and is not read.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from trainwreck.scenarios.spec.faults import State
from trainwreck.scenarios.spec.job import Job, Program
from trainwreck.scenarios.training.bundle import Bundle, Place, bundle_width


@dataclass(eq=False)
class Run:
    """A run under way."""

    job: Job
    state: State  # as it was entered, or when it was last taken from its slot
    entered: int
    stop: int
    keep: set[int]
    origin: tuple[object, ...]  # what decides its numbers besides its changes
    parts: list[dict[str, np.ndarray]] = field(default_factory=list)
    evaluations: dict[int, np.ndarray] = field(default_factory=dict)
    kept: dict[int, State] = field(default_factory=dict)
    same: list["Run"] = field(default_factory=list)  # runs that this one is trained for as well, until the next cut
    slot: tuple["Group", int] | None = None
    edited: bool = False  # whether `state` is newer than the slot

    def all(self) -> "list[Run]":
        """The run, and those that it is trained for."""
        return [self, *self.same]

    def program(self, step: int) -> Program:
        """What it shares with the runs that it is stepped with."""
        return self.job.segment(step).program


@dataclass(eq=False)
class Group:
    """A bundle: whose each slot is, and which runs are there now."""

    bundle: Bundle
    owners: list[Run]
    runs: list[Run | None]

    def present(self) -> list[tuple[int, list[Run]]]:
        """Slots in use, each with the runs that its numbers are of."""
        return [(i, run.all()) for i, run in enumerate(self.runs) if run is not None]


class Slots:
    """The bundles of a call of `train`. reserve: a slot for every run that will have the program.

    Runs of several ranks are packed: what the ranks hold of each other is made with the bundle.
    """

    def __init__(self, runs: list[Run], place: Place, reserve: bool) -> None:
        self.runs, self.place, self.reserve = runs, place, reserve and place.group is None
        self.groups: list[Group] = []
        self.built = 0  # bundles so far

    def active(self) -> list[Group]:
        """Bundles with a run to train."""
        return [group for group in self.groups if any(group.runs)]

    def take(self, run: Run) -> None:
        """Copy the state that a run has by now out of its slot."""
        if run.slot is not None and not run.edited:
            group, index = run.slot
            run.state = group.bundle.state(index)

    def arrange(self, live: list[Run], step: int) -> None:
        """Put every run that is trained at a step into a slot of its program, and the others out of theirs."""
        leaders = distinct(live, step)
        staying: dict[tuple[Group, int], Run] = {}
        moving = [run for run in leaders if not self._fits(run, step) or staying.setdefault(_slot(run), run) is not run]
        for run in moving:
            self.take(run)
        for group in self.groups:
            group.runs = [staying.get((group, i)) for i in range(len(group.owners))]
        for run in staying.values():
            group, index = _slot(run)
            same = group.bundle.jobs[index] is run.job and group.bundle.segments[index] is run.job.segment(step)
            if run.edited or not same:
                self.take(run)
                group.bundle.overwrite(index, run.job, run.state, step)
        if self.reserve:
            self._into_reserved(moving, step)
        else:
            self._packed(moving, step)
        for run in self.runs:
            run.edited = False
        for run in {*self.runs} - {*live}:
            run.slot = None
        for run in leaders:
            for other in run.same:
                other.slot = run.slot

    def _fits(self, run: Run, step: int) -> bool:
        """Whether a run may stay where it is. Ranks, which make one checkpoint of theirs, build anew."""
        if run.slot is None or self.place.group is not None:
            return False
        group, index = run.slot
        own = group.owners[index] is run or not self.reserve
        return own and group.bundle.program == run.program(step)

    def _into_reserved(self, moving: list[Run], step: int) -> None:
        for run in moving:
            if run.slot is not None and run.slot[0].runs[run.slot[1]] is run:
                continue  # placed with the bundle that was built for one before it
            program = run.program(step)
            fitting = (g for g in self.groups if g.bundle.program == program and run in g.owners)
            group = next(fitting, None)
            if group is None:
                self._reserve(run, moving, step)
                continue
            index = group.owners.index(run)
            group.bundle.overwrite(index, run.job, run.state, step)
            group.runs[index], run.slot = run, (group, index)
        for group in self.active():
            lent = next(i for i, run in enumerate(group.runs) if run is not None)
            for index, owner in enumerate(group.runs):
                if owner is None:
                    group.bundle.lend(index, lent)

    def _reserve(self, run: Run, moving: list[Run], step: int) -> None:
        """Build the bundle of a run's program, with a slot for each run that has it from a step on."""
        program = run.program(step)
        placed = {owner for g in self.groups if g.bundle.program == program for owner in g.owners}
        owners = [r for r in self.runs if r not in placed and r.stop > step and _has(r, program, step)]
        width, at = self._width(run, step), owners.index(run)
        owners = owners[at - at % width :][:width]
        here = [r if r in moving and r.program(step) == program else None for r in owners]
        self._build(owners, here, run, step)

    def _packed(self, moving: list[Run], step: int) -> None:
        pool: dict[Program, list[Run]] = {}
        for run in moving:
            pool.setdefault(run.program(step), []).append(run)
        for group in [g for g in self.groups if not all(g.runs)]:
            self._dissolve(group, pool)
        for program, runs in pool.items():
            whole = [group for group in self.groups if group.bundle.program == program]
            width = self._width(runs[0], step) if runs else 1
            total = len(runs) + sum(len(group.runs) for group in whole)
            if ceil(total / width) < len(whole) + ceil(len(runs) / width):
                for group in whole:
                    self._dissolve(group, pool)
            runs.sort(key=self.runs.index)
            for first in range(0, len(runs), width):
                chunk = runs[first : first + width]
                self._build(chunk, chunk, chunk[0], step)

    def _dissolve(self, group: Group, pool: dict[Program, list[Run]]) -> None:
        self.groups.remove(group)
        for run in filter(None, group.runs):
            self.take(run)
            pool.setdefault(group.bundle.program, []).append(run)

    def _build(self, owners: list[Run], here: Iterable[Run | None], instead: Run, step: int) -> None:
        """A bundle with the runs that are there, in the other slots one of them."""
        runs = list(here)
        filled = [run or instead for run in runs]
        bundle = Bundle([run.job for run in filled], [run.state for run in filled], step, self.place)
        group = Group(bundle, list(owners), runs)
        self.groups.append(group)
        self.built += 1
        for index, run in enumerate(runs):
            if run is not None:
                run.slot = group, index

    def _width(self, run: Run, step: int) -> int:
        setup = run.job.segment(step).setup
        return bundle_width(setup.data.rows, setup.model, self.place.device.type, self.place.impl)


def distinct(live: list[Run], step: int) -> list[Run]:
    """One of each set of runs that have been the same until a step, and are up to the next cut; it has the others.

    The same seed, setup and changes so far, from the same state: then every number is the same. Changes are compared
    by value, closures by identity; where that takes equal ones for different, a run is trained for itself.
    """
    leaders: dict[object, Run] = {}
    for run in live:
        run.same = []
        key = (*run.origin, *run.job.past(step))
        try:
            leader = leaders.setdefault(key, run)
        except TypeError:  # of a change that can't be hashed
            leader = leaders.setdefault(id(run), run)
        if leader is not run:
            leader.same.append(run)
    return list(leaders.values())


def _slot(run: Run) -> tuple[Group, int]:
    assert run.slot is not None
    return run.slot


def _has(run: Run, program: Program, step: int) -> bool:
    """Whether a run has a program at a step or later."""
    segments = run.job.segments
    ends = [*(segment.start for segment in segments[1:]), run.job.setup.steps]
    return any(s.program == program and end > step for s, end in zip(segments, ends, strict=True))
