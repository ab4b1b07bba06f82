"""A run under way that is acted on: trained block by block, with checkpoints to go back to.

    block      0 ----- 10 ----- 20 ----- 30 ...
    action        |        |        |            before each block, at its first step
    checkpoint *       *        *        *       at each border of blocks

Blocks of many episodes are trained side by side. A run of which nothing is done is bitwise the run of the plan, and one
that is acted on is bitwise the run that had the same changes from the start, wherever blocks end.

After a rollback the steps are counted from the checkpoint on, so that schedule and data are met again as they were. A
fault that is a setting, code or data from some step on is met again there too; an edit of a checkpoint or of a weight
happened once, and does not happen again. What was changed by actions stays: a rate that was lowered stays low.
A part that was restored as it is after something that the setup has planned is so from there on.
"""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trainwreck.evaluation.dataset.schema import EVALUATIONS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.detectors.registry import load_detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.alarms import OK
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.replay.rows import rows
from trainwreck.models.config import ModelConfig
from trainwreck.models.parameters import fits, layout
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.rescue.actions import Action, Kind, Restore, changes
from trainwreck.scenarios.rescue.observation import Observation
from trainwreck.scenarios.spec.faults import At, LogEdit, State, StateEdit
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.run_spec import Role, RunSpec
from trainwreck.scenarios.training.loop import fresh_state, logged, refitted, train

BLOCK = 10  # steps
AHEAD = 50  # steps whose batches are sampled at once
LONGEST = 2.0  # runs: no step is trained once so much has been
CURE = "the proven cure"
QUESTIONS = 50  # questions in an episode at most
OVER = f"over {QUESTIONS} questions"


@dataclass
class Done:
    """An action, the step before which it was done, and what came of it where nothing did."""

    step: int
    action: Action
    note: str = ""


class Stock:
    """Batches of the steps ahead: fifty at once are sampled nearly as fast as a block of ten."""

    def __init__(self) -> None:
        self.setup: Setup | None = None
        self.steps = range(0)
        self.batches: Batch | None = None

    def take(self, setup: Setup, seed: int, steps: range) -> Batch:
        """The batches of some steps, [S, B, T]."""
        within = self.steps.start <= steps.start and steps.stop <= self.steps.stop
        if self.batches is None or not within or (self.setup is not setup and self.setup != setup):
            self.setup, self.steps = setup, range(steps.start, max(steps.stop, min(steps.start + AHEAD, setup.steps)))
            self.batches = training_block(setup, seed, self.steps)
        first = steps.start - self.steps.start
        return self.batches.between(first, first + len(steps))


@dataclass(frozen=True)
class Stocked(Job):
    """A job whose batches come from a stock."""

    stock: Stock = field(default_factory=Stock, compare=False)

    def sampled(self, setup: Setup, steps: range) -> Batch:
        return self.stock.take(setup, self.seed, steps)


@dataclass
class Episode:
    """A run under way. `advance` trains; see `observation` for what a policy is shown.

    spec: the run of a plan; a role other than faulty has no fault. profile: of what is logged. status: `ok`, or the
    first answer that was no action.
    """

    spec: RunSpec
    profile: str = "common"
    block: int = BLOCK
    actions: list[Done] = field(default_factory=list)
    step: int = 0
    trained: int = 0
    priced: float = 0.0  # runs
    ended: str = ""  # why: end, stopped, non-finite, budget
    status: str = OK

    def __post_init__(self) -> None:
        if not 1 <= self.block <= self.spec.setup.steps:
            raise InputError(f"block: {self.block} is not allowed; allowed: 1 to {self.spec.setup.steps}")
        job = self.spec.job()
        self.declared: Setup = self.spec.setup
        self.log_edits = [at for at in job.changes if isinstance(at.change, LogEdit)]
        self.faults = [at for at in job.changes if not isinstance(at.change, LogEdit)]
        self.applied: list[At] = []
        self.seed = job.seed
        self.stock = Stock()
        # Checkpoints by step, as they were saved; `entry` is what the next block goes on from.
        self.checkpoints: dict[int, tuple[ModelConfig, State]] = {0: (job.segment(0).setup.model, fresh_state(job))}
        self.entry = self.checkpoints[0]
        self.looked_back: dict[int, State] = {}  # states that a change of the past or the cure takes something from
        self.parts: list[Trace] = []
        self.shown_from = 0
        self.extra: dict[str, int] = {}  # signals that were asked for, to the step from which on they are logged
        self.asked = 0
        self._rolled_back, self._answer = False, ""
        self._bad_at_last: bool = False

    @property
    def planned(self) -> int:
        """Steps of the run."""
        return self.declared.steps

    @property
    def again(self) -> int:
        """Steps that were trained again."""
        return max(0, self.trained - self.step)

    @property
    def spent(self) -> float:
        """Steps trained again and prices, in runs."""
        return self.again / self.planned + self.priced

    @property
    def job(self) -> Job:
        """The run as it is now: its faults and what was done."""
        setup = dataclasses.replace(self.declared, tail=max(self.declared.tail, self.block))
        return Stocked(self.spec.run_id, self.seed, setup, (*self.faults, *self.applied), self.stock)

    def trace(self) -> Trace:
        """What was logged of the run as it is now, every signal."""
        found = _joined(self.spec.run_id, self.parts)
        if not self.log_edits or not len(found):
            return found
        job = Job(self.spec.run_id, self.seed, self.declared, tuple(self.log_edits))
        columns = {name: values for name, values in found.signals.items() if name not in EVALUATIONS}
        return dataclasses.replace(found, signals={**found.signals, **logged(job, columns, 0)})

    @property
    def untouched(self) -> bool:
        """Whether nothing was done so far but to look on and ask."""
        return all(
            done.action.asks or (done.action.kind is Kind.CONTINUE and done.note != CURE) for done in self.actions
        )

    def observation(self) -> Observation:
        """What is shown before the next block."""
        seen = list(self._observed(self.trace()))
        new = [row for row in seen if row["step"] >= self.shown_from]
        return Observation(self.step, self.planned, new, seen, self.spent, self._rolled_back, self._answer)

    def act(self, action: Action) -> None:
        """Do something before the next block. An action after the end raises InputError."""
        if self.ended:
            raise InputError(f"action: {action} is not allowed; the episode has ended ({self.ended})")
        done = Done(self.step, action)
        self.actions.append(done)
        self.shown_from, self._rolled_back, self._answer = self.step, False, ""
        if action.asks:
            self.asked += 1
            if self.asked > QUESTIONS:
                done.note = OVER
                return
        self.priced += action.price
        if action.kind is Kind.STOP:
            self.ended = "stopped"
        elif action.kind is Kind.ASK_SIGNAL:
            self.extra.setdefault(str(action.value), self.step)
        elif action.kind is Kind.ASK_DETECTOR:
            self._answer = self._ask(str(action.value))
        else:
            done.note = self._change(action)

    def refuse(self, why: str) -> None:
        """Go on untouched where what a policy answered is no action; the reason is kept with the actions.

        why: a kind of `alarms.FAILURES_OF_A_DETECTOR`, a colon and what happened; the first one is the status.
        """
        self.status = why if self.status == OK else self.status
        self.actions.append(Done(self.step, Action(Kind.CONTINUE), why))
        self.shown_from, self._rolled_back, self._answer = self.step, False, ""

    def cure(self) -> None:
        """The cure that is proven for the scenario, from here on; for the oracle, which alone knows it."""
        self.actions.append(Done(self.step, Action(Kind.CONTINUE), CURE))
        self.shown_from, self._rolled_back, self._answer = self.step, False, ""
        entry, knobs = self.spec.entry, self.spec.knobs
        begun = len(entry.changes(knobs, self.declared, self.seed))
        every = entry.changes(knobs, self.declared, self.seed, cured=True, cure_at=self.step)
        faults = [at for at in every[:begun] if not isinstance(at.change, StateEdit) or at.step > self.step]
        self._enter([at for at in faults if not isinstance(at.change, LogEdit)], list(every[begun:]))

    def fork(self) -> "Episode":
        """The run as it is now, to be acted on without a change of this one; they share states."""
        other = copy.copy(self)
        other.actions, other.faults, other.applied = list(self.actions), list(self.faults), list(self.applied)
        other.checkpoints, other.looked_back = dict(self.checkpoints), dict(self.looked_back)
        other.parts, other.extra = list(self.parts), dict(self.extra)
        return other

    def keep_few(self) -> None:
        """Forget checkpoints that nothing looks back to, of an episode that is never rolled back again."""
        needed = self.job.snapshots() | {self.step}
        self.checkpoints = {step: kept for step, kept in self.checkpoints.items() if step in needed}

    def _change(self, action: Action) -> str:
        """Make a change; returns why nothing came of it, or nothing."""
        if action.kind in (Kind.ROLL_BACK, Kind.ROLL_BACK_AND_SKIP):
            self._roll_back(float(action.value or 0))
        try:
            new = changes(action, Job(self.spec.run_id, self.seed, self.declared), self.step)
        except InputError as error:
            return str(error)
        return self._enter(self.faults, [At(self.step, change) for change in new])

    def _roll_back(self, steps: float) -> None:
        """Go back to the latest checkpoint that is at least so many steps old."""
        target = max((s for s in self.checkpoints if s <= self.step - steps), default=0)
        self.faults = [at for at in self.faults if not isinstance(at.change, StateEdit) or at.step > self.step]
        self.applied = [dataclasses.replace(at, step=min(at.step, max(target, _earliest(at)))) for at in self.applied]
        self.parts = [part for part in self.parts if part.steps[0] < target]
        self.checkpoints = {step: kept for step, kept in self.checkpoints.items() if step <= target}
        self.extra = {name: min(step, target) for name, step in self.extra.items()}
        self.entry = self.checkpoints[target]
        self.step = self.shown_from = target
        self._rolled_back, self._bad_at_last = True, False

    def _enter(self, faults: list[At], new: list[At]) -> str:
        """Take on changes at the step whose state is at hand: what is due there is done now."""
        before = self.faults, self.applied
        self.faults, self.applied = faults, [*self.applied, *new]
        model, state = self.entry
        try:
            wanted = self.job.segment(self.step).setup.model
        except (InputError, ValueError) as error:
            self.faults, self.applied = before
            return f"not possible: {error}"
        if not fits(layout(model), layout(wanted)):
            self.faults, self.applied = before
            return "not possible in mid-run: a model of another shape"
        state = refitted(state, model, wanted, self.seed)
        for at in new:
            if isinstance(at.change, StateEdit):
                state = {name: value.clone() for name, value in state.items()}  # others may hold it
                state = at.change.state(state, {**self._earlier(), self.step: state}, self.step)
        self.applied = [at for at in self.applied if not isinstance(at.change, StateEdit)]
        self.entry = wanted, state
        return ""

    def _earlier(self) -> dict[int, State]:
        """States by step, of those that are at hand."""
        return {**{step: state for step, (_, state) in self.checkpoints.items()}, **self.looked_back}

    def _ask(self, name: str) -> str:
        """What a detector says of the rows so far, at its published default."""
        seen = replay(load_detector(name), self.trace(), self.profile)
        if seen.status != "ok":
            return f"{name}: {seen.status}"
        if seen.first_alarm is None:
            return f"{name}: no alarm"
        named = f"; causes: {', '.join(seen.causes)}" if seen.causes else ""
        return f"{name}: alarm at step {seen.first_alarm}{named}"

    def _observed(self, trace: Trace) -> "list[Row]":
        shown: list[Row] = list(observe(rows(trace), self.profile, run_id=self.spec.run_id))
        if not self.extra:
            return shown
        full = {row["step"]: row for row in rows(trace)}
        return [
            {**row, **{name: full[row["step"]][name] for name, since in self.extra.items() if row["step"] >= since}}
            for row in shown
        ]

    def due(self) -> tuple[Job, int, set[int]]:
        """The next block: its job, the step before which it ends, and the steps whose state is kept."""
        stop = min(self.step + self.block, self.planned)
        job = self.job
        wanted = job.snapshots() | self._cure_looks_back()
        return job, stop, {step for step in wanted if self.step <= step <= stop} | {stop} - {self.planned}

    def _cure_looks_back(self) -> set[int]:
        """Steps whose state the proven cure takes something from."""
        if self.spec.role is not Role.FAULTY or self.spec.entry.look_alike:
            return set()
        return self.spec.branch(self.planned - 1).snapshots()

    def receive(self, part: Trace, states: dict[int, State], stop: int) -> None:
        """Take in a block that was trained to before step `stop`."""
        self.parts.append(part)
        self.trained += stop - self.step
        self.step = stop
        self.looked_back |= {step: state for step, state in states.items() if step != stop}
        bad = ~np.isfinite(part["loss"])
        if stop >= self.planned:
            self.ended = "end"
        elif bad.all() and self._bad_at_last:  # that it is not finite was shown once, and nobody acted
            self.ended = "non-finite"
        elif self.trained >= LONGEST * self.planned:
            self.ended = "budget"
        else:
            self.entry = self.job.segment(stop).setup.model, states[stop]
            self.checkpoints[stop] = self.entry
        self._bad_at_last = bool(bad[-1])


# Blocks of runs that nobody has touched so far, as `Episode.receive` takes them: by run, length of a block and step.
Untouched = dict[tuple[str, int, int], tuple[Trace, dict[int, State], int]]


def advance(
    episodes: Sequence[Episode],
    progress: Callable[[int], object] | None = None,
    untouched: Untouched | None = None,
) -> None:
    """Train the next block of each episode that has not ended, side by side; episodes at one step share bundles.

    untouched: blocks that were trained before, of runs that nobody had touched; they are not trained again where an
    episode is untouched too, and new ones are added.
    """
    known = {} if untouched is None else untouched
    live = []
    for one in episodes:
        if one.ended:
            continue
        block = known.get(_name(one)) if one.untouched else None
        if block is None:
            live.append(one)
        else:
            one.receive(*block)
    if not live:
        return
    jobs, enter, keep, earlier, stops = [], {}, {}, {}, {}
    for number, one in enumerate(live):
        job, stop, kept = one.due()
        job = dataclasses.replace(job, run_id=f"{one.spec.run_id}/{number}")
        jobs.append(job)
        enter[job.run_id] = one.step, one.entry[1]
        keep[job.run_id] = kept
        earlier[job.run_id] = {step: state for step, state in one._earlier().items() if step < one.step}
        stops[job.run_id] = stop
    found = train(jobs, enter=enter, keep=keep, earlier=earlier, stop=stops, progress=progress)
    for one, job, result in zip(live, jobs, found, strict=True):
        states = {step: state for step, state in result.states.items() if step >= one.step}
        steps = np.arange(one.step, one.step + len(result.trace))
        part = dataclasses.replace(result.trace, run_id=one.spec.run_id, steps=steps)
        if untouched is not None and one.untouched:
            untouched[_name(one)] = part, states, stops[job.run_id]
        one.receive(part, states, stops[job.run_id])


def _name(one: Episode) -> tuple[str, int, int]:
    return one.spec.run_id, one.block, one.step


def _earliest(at: At) -> int:
    """The first step from which on a change of an action means what it meant when it was made."""
    return at.change.earliest if isinstance(at.change, Restore) else 0


def _joined(run_id: str, parts: Sequence[Trace]) -> Trace:
    if not parts:
        return Trace(run_id, {}, np.zeros(0, bool))
    signals = {name: np.concatenate([part[name] for part in parts]) for name in parts[0].signals}
    return Trace(
        run_id,
        signals,
        np.concatenate([part.evaluated for part in parts]),
        np.concatenate([part.steps for part in parts]),
    )
