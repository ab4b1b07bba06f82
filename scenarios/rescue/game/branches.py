"""Every course that a run of the game can take, by training.

    untouched  0 ------ 40 % ------ 55 % ------ 70 % ------ end
                          |           |           |
    branches              +- rate ... +- rate ... +- rate ...    each to its end, nothing else is done to it

One act an episode, out of `CHOICES`, at one of the decision points, and so 1 + points x choices courses in all. The
points are the same shares of every run, so that they say nothing of it. Courses that are at the same step are trained
side by side. A run that is as it is declared goes on as before whatever is restored, and is not trained again for that.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.rescue.actions import Action, Kind
from trainwreck.scenarios.rescue.board import ORACLE
from trainwreck.scenarios.rescue.episode import Episode, advance
from trainwreck.scenarios.rescue.outcomes import Case, Outcome, outcome

SHARES = (0.40, 0.55, 0.70)  # of a run's steps, at which a player decides
CHOICES = (
    "stop", "rate=0.1", "roll_back_and_skip=50", "restore=data", "restore=mask", "restore=positions", "restore=model",
    "restore=updates", "restore=settings", "qk_norm",
)  # fmt: skip
QUESTION = "ask_detector=playbook"
RUNS = 2  # of each kind
CLEAR = 4.0  # tolerances; failing runs that end further from their twin are drawn first
PLAYER, UNTOUCHED = "player", "untouched"
AT_ONCE = 32  # courses trained side by side
Progress = Callable[[int, int, str], Any]


@dataclass(frozen=True)
class Branch:
    """A course to its end. begins: step of its first row that is not the untouched run's."""

    begins: int
    episode: Episode
    outcome: Outcome

    @property
    def note(self) -> str:
        """Why nothing came of the act; empty where it was possible."""
        return "; ".join(note for _, action, note in self.outcome.actions if action in CHOICES and note)


@dataclass
class Courses:
    """A run and all its courses. answers: decision point to what the detector says there; branches: (point, action)."""

    case: Case
    points: tuple[int, ...]
    untouched: Branch
    oracle: Branch | None = None
    answers: dict[int, str] = field(default_factory=dict)
    branches: dict[tuple[int, str], Branch] = field(default_factory=dict)


def points_of(case: Case, block: int) -> tuple[int, ...]:
    """Borders of blocks at which a player decides; fewer where blocks are long. InputError where there is none."""
    steps = case.spec.setup.steps
    borders = {round(share * steps / block) * block for share in SHARES}
    found = tuple(sorted(border for border in borders if 0 < border < steps))
    if not found:
        raise InputError(f"block: {block} is not allowed with --play; allowed: up to {steps // 2}, half of a run")
    return found


def drawn(cases: Sequence[Case], block: int, runs: int = RUNS) -> list[Case]:
    """So many failing, healthy and look-alike runs each, where there are as many; in an order that says nothing.

    Failing ones can be saved at some decision point, by the proven cure; those with little to save come last. Scenarios
    are repeated as late as possible. Drawn by SHA-256 of the run's id. Raises InputError where no failing run is left.
    """
    pools: dict[str, list[Case]] = {"failing": [], "healthy": [], "look-alike": []}
    for case in cases:
        points = points_of(case, block)
        if not case.failing:
            pools[case.kind].append(case)
        elif case.rescuable and any(case.in_sight <= at <= case.no_return for at in points):  # type: ignore[operator]
            pools["failing"].append(case)
    if not pools["failing"]:
        raise InputError(
            "play: no failing run can still be saved at a decision point; allowed: a data set, --split and --block "
            "with one"
        )
    chosen: list[Case] = []
    used: list[str] = []
    for pool in pools.values():
        left = sorted(pool, key=lambda case: (case.failing and case.recoverable < CLEAR * case.tolerance, _order(case)))
        for _ in range(min(runs, len(left))):
            best = min(left, key=lambda case: used.count(case.spec.scenario))
            left.remove(best)
            used.append(best.spec.scenario)
            chosen.append(best)
    return sorted(chosen, key=lambda case: _order(case, "place"))


def _order(case: Case, what: str = "") -> str:
    return hashlib.sha256(f"{what} {case.spec.run_id}".encode()).hexdigest()


def courses(
    cases: Sequence[Case],
    profile: str,
    block: int,
    progress: Progress | None = None,
    choices: Sequence[str] | None = None,
) -> list[Courses]:
    """Train every course of some runs. choices: actions, `CHOICES` by default."""
    choices = CHOICES if choices is None else choices
    trunks = [_Trunk(case, Episode(case.spec, profile, block), points_of(case, block)) for case in cases]
    total = sum(trunk.expected(choices) for trunk in trunks)
    done, live = 0, [trunk.root for trunk in trunks]
    owners = {id(trunk.root): trunk for trunk in trunks}
    while live:
        step = min(one.step for one in live)
        for trunk in trunks:
            if trunk.root.step == step and not trunk.root.ended and step not in trunk.forked:
                live += trunk.fork(choices)
        step = min(one.step for one in live if not one.ended)
        now = [one for one in live if one.step == step and not one.ended]
        for start in range(0, len(now), AT_ONCE):
            advance(now[start : start + AT_ONCE])
            done += len(now[start : start + AT_ONCE])
            if progress:
                progress(min(done, total), total, f"step {step}")
        for one in now:
            if id(one) not in owners:  # nothing else is done to it
                one.keep_few()
        live = [one for one in live if not one.ended]
    if progress:
        progress(total, total, "")
    return [trunk.made() for trunk in trunks]


class _Trunk:
    """A run under way that is left alone, and what was forked off it."""

    def __init__(self, case: Case, root: Episode, points: tuple[int, ...]) -> None:
        self.case, self.root, self.points = case, root, points
        self.forked: set[int] = set()
        self.answers: dict[int, str] = {}
        self.courses: dict[tuple[int, str], tuple[int, Episode]] = {}  # with the first step that is its own
        self.alike: dict[tuple[int, str], Episode] = {}  # acted on, and the untouched run all the same

    def expected(self, choices: Sequence[str]) -> int:
        """Blocks to train, if every course goes to its end."""
        trained = [c for c in choices if c != "stop" and not (self.declared and c.startswith(Kind.RESTORE.value))]
        left = [self.root.planned - at for at in self.points for _ in trained]
        cure = [] if self.case.in_sight is None or not self.case.failing else [self.root.planned - self.case.in_sight]
        return sum(-(-steps // self.root.block) for steps in (self.root.planned, *left, *cure))

    def fork(self, choices: Sequence[str]) -> list[Episode]:
        """What begins at the step at which the run is now, and has not ended."""
        step = self.root.step
        self.forked.add(step)
        found: list[tuple[str, Episode]] = []
        if self.case.failing and step == self.case.in_sight:
            found.append((ORACLE, self.root.fork()))
            found[-1][1].cure()
        if step in self.points:
            asking = self.root.fork()
            asking.act(Action.parse(QUESTION))
            self.answers[step] = asking.observation().answer
            for choice in choices:
                action = Action.parse(choice)
                one = self.root.fork()
                one.act(action)
                if action.kind is Kind.RESTORE and self.declared:
                    self.alike[step, choice] = one
                else:
                    found.append((choice, one))
        for name, one in found:
            self.courses[step, name] = one.step, one
        return [one for _, one in found if not one.ended]

    @property
    def declared(self) -> bool:
        """Whether the run is as it is declared, so that nothing that is restored changes it."""
        return not self.root.faults

    def made(self) -> Courses:
        """All of it, when everything has ended."""
        for (step, name), acted in self.alike.items():
            one = self.root.fork()
            one.actions, one.priced = acted.actions, acted.priced
            self.courses[step, name] = step, one
        branches = {
            (step, name): Branch(begins, one, outcome(self.case, one, ORACLE if name == ORACLE else PLAYER))
            for (step, name), (begins, one) in self.courses.items()
        }
        cured = [branch for (_, name), branch in branches.items() if name == ORACLE]
        return Courses(
            self.case,
            self.points,
            Branch(0, self.root, outcome(self.case, self.root, UNTOUCHED)),
            cured[0] if cured else None,
            self.answers,
            {key: branch for key, branch in branches.items() if key[1] != ORACLE},
        )
