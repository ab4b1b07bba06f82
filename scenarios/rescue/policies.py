"""Policies that are built in: what a run is worth without help, what people do, and what could be had at best.

A policy is any class with `reset` and `act`, which returns an `Action`, or what `Action.parse` reads. It may have
`causes`, its diagnosis at the end of the episode: cause ids, the likeliest first.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np

from trainwreck.kernels.random import generator
from trainwreck.scenarios.rescue.actions import TABLE, Action, Kind, Part
from trainwreck.scenarios.rescue.learned.policy import Learned
from trainwreck.scenarios.rescue.observation import Observation
from trainwreck.scenarios.rescue.watcher import ALARM, Watcher
from trainwreck.scenarios.spec import faults
from trainwreck.scenarios.spec.faults import Change, FaultKind
from trainwreck.scenarios.spec.registry import scenario

CONTINUE = Action(Kind.CONTINUE)


class Policy(Protocol):
    """What acts on runs."""

    def reset(self, seed: int) -> None:
        """Begin an episode. seed: for what is drawn; says nothing of the run."""

    def act(self, seen: Observation) -> Action | str:
        """What to do before the next block."""


class Never:
    """Nothing is done: what every other policy is held against."""

    name: ClassVar[str] = "never"
    rule: ClassVar[str] = "continue"

    def reset(self, seed: int) -> None:
        """Nothing to forget."""

    def act(self, seen: Observation) -> Action:
        """Continue."""
        return CONTINUE


class AlwaysRollBack(Never):
    """Goes back now and then, whatever is seen: what acting for its own sake costs."""

    name = "always_roll_back"
    rule = "at every tenth block roll back 50 steps"

    def __init__(self) -> None:
        self.seen = 0

    def reset(self, seed: int) -> None:
        self.seen = 0

    def act(self, seen: Observation) -> Action:
        self.seen += 1
        return Action(Kind.ROLL_BACK, 50.0) if self.seen % 10 == 0 else CONTINUE


class Random(Never):
    """Now and then an action of the table, drawn evenly, but never the end of the run."""

    name = "random"
    rule = "with a chance of one in four, an action of the table drawn evenly, other than stop"

    def __init__(self) -> None:
        self.draws = np.random.default_rng(0)

    def reset(self, seed: int) -> None:
        self.draws = generator(seed, "rescue/random")

    def act(self, seen: Observation) -> Action:
        allowed = [action for action in TABLE if action.kind is not Kind.STOP and not action.asks]
        return allowed[int(self.draws.integers(len(allowed)))] if self.draws.random() < 0.25 else CONTINUE


class AtAlarm(Never):
    """Something is done at the first alarm of a detector, and again at a later one, some blocks apart."""

    detector: ClassVar[str] = ALARM
    pause: ClassVar[int] = 6  # blocks in which no alarm is acted on again
    times: ClassVar[int] = 3  # how often it acts at most

    def __init__(self) -> None:
        self.watcher = Watcher(self.detector)
        self.quiet, self.left = 0, self.times
        self.causes: tuple[str, ...] = ()

    def reset(self, seed: int) -> None:
        self.watcher.reset()
        self.quiet, self.left, self.causes = 0, self.times, ()

    def act(self, seen: Observation) -> Action:
        if seen.rolled_back:
            self.watcher.reset()
            alarm, causes = self.watcher.see(seen.history)
        else:
            alarm, causes = self.watcher.see(seen.rows)
        self.causes = causes or self.causes
        self.quiet -= 1
        if not alarm or self.quiet > 0 or self.left <= 0:
            return CONTINUE
        self.quiet, self.left = self.pause, self.left - 1
        return self.treat(seen)

    def treat(self, seen: Observation) -> Action:
        """What is done at an alarm."""
        raise NotImplementedError


class StopAtAlarm(AtAlarm):
    """What a monitor does that ends a run."""

    name = "stop_at_alarm"
    rule = "stop at the first alarm"

    def treat(self, seen: Observation) -> Action:
        return Action(Kind.STOP)


class LowerRate(AtAlarm):
    """The rate is lowered, and nothing is trained again."""

    name = "lower_rate"
    rule = "at an alarm a tenth of the rate from then on, once"
    times = 1

    def treat(self, seen: Observation) -> Action:
        return Action(Kind.RATE, 0.1)


class SkipAsPalm(AtAlarm):
    """PaLM (Chowdhery et al. 2022, section 5.1): restart about 100 steps before a spike, skip 200 to 500 batches."""

    name = "skip_as_palm"
    rule = "at an alarm roll back 50 steps and skip 100 batches, up to three times"

    def treat(self, seen: Observation) -> Action:
        return Action(Kind.ROLL_BACK_AND_SKIP, 50.0)


class HalveAsOpt(AtAlarm):
    """OPT-175B (Zhang et al. 2022, section 2.5): restart from an earlier checkpoint with a lower rate."""

    name = "halve_as_opt"
    rule = "at an alarm roll back 50 steps, then half of the rate, up to three times"

    def __init__(self) -> None:
        super().__init__()
        self.halve = False

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.halve = False

    def act(self, seen: Observation) -> Action:
        if self.halve:
            self.halve = False
            super().act(seen)
            return Action(Kind.RATE, 0.5)
        return super().act(seen)

    def treat(self, seen: Observation) -> Action:
        self.halve = True
        return Action(Kind.ROLL_BACK, 50.0)


class TreatCause(AtAlarm):
    """At an alarm, what the cause that the detector names calls for, one part after another if it comes back."""

    name = "treat_cause"
    rule = "at an alarm the treatment of the likeliest cause; without a cause roll back 50 steps at half of the rate"

    def __init__(self) -> None:
        super().__init__()
        self.plan: list[Action] = []
        self.done: set[Action] = set()

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.plan, self.done = [], set()

    def act(self, seen: Observation) -> Action:
        if self.plan:
            super().act(seen)
            return self.plan.pop(0)
        return super().act(seen)

    def treat(self, seen: Observation) -> Action:
        wanted = [action for cause in self.causes[:2] for action in treatment(cause)]
        new = [action for action in dict.fromkeys(wanted) if action not in self.done]
        self.plan = new or [Action(Kind.ROLL_BACK, 50.0), Action(Kind.RATE, 0.5)]
        self.done |= set(self.plan)
        return self.plan.pop(0)


BUILT_IN: tuple[type[Never] | type[Learned], ...] = (
    Never, Random, AlwaysRollBack, StopAtAlarm, LowerRate, SkipAsPalm, HalveAsOpt, TreatCause, Learned,
)  # fmt: skip


PARTS: dict[type[Change], Sequence[Part]] = {
    faults.TableEdit: (Part.MASK, Part.POSITIONS),
    faults.ParametrizationEdit: (Part.MODEL,),
    faults.UpdateEdit: (Part.UPDATES,),
    faults.Process: (Part.UPDATES,),
    faults.Curve: (Part.SETTINGS,),
    faults.SchedulePosition: (Part.SETTINGS,),
    faults.DataTransform: (Part.DATA,),
    faults.Stream: (Part.DATA,),
}


def treatment(cause: str) -> list[Action]:
    """What a cause calls for, by what its fault is made of; empty for one that no scenario has.

    Damage that is done stays, so that the run goes back 50 steps as well where a change of state is the fault.
    """
    try:
        entry = scenario(cause)
    except ValueError:
        return []
    from trainwreck.scenarios.config.sizes import healthy

    setup = entry.base(healthy(entry.sizes[0]))
    found: list[Action] = []
    for change in entry.fault(entry.knobs_of(entry.default_severity()), setup):
        found += [Action(Kind.RESTORE, part.value) for part in _parts(change)]
        if change.kind is FaultKind.STATE:
            found.append(Action(Kind.ROLL_BACK, 50.0))
    return list(dict.fromkeys(found))


def _parts(change: Change) -> Sequence[Part]:
    """The parts that a change may have touched, by its kind."""
    path = getattr(change, "path", "")
    if path.startswith("data."):
        return (Part.DATA,)
    if path.startswith("model.") or path == "dropout":
        return (Part.POSITIONS,) if path == "model.positions" else (Part.MODEL,)
    if path:
        return (Part.SETTINGS,)
    return PARTS.get(type(change), ())
