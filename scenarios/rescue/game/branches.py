"""Every course that a run of the game can take, by training.

    untouched  0 ------ 40 % ------ 55 % ------ 70 % ------ end
                          |           |           |
    branches              +- rate ... +- rate ... +- rate ...    each to its end, nothing else is done to it

One act an episode, out of `CHOICES`, at one of the decision points, and so 1 + points x choices courses in all. The
points are the same shares of every run, so that they say nothing of it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.quiz.curves import curves
from trainwreck.scenarios.rescue.actions import Action
from trainwreck.scenarios.rescue.board import ORACLE
from trainwreck.scenarios.rescue.courses import Course, Forks, KeptCourses, Progress, explore
from trainwreck.scenarios.rescue.episode import Episode
from trainwreck.scenarios.rescue.outcomes import Case

SHARES = (0.40, 0.55, 0.70)  # of a run's steps, at which a player decides
CHOICES = (
    "stop", "rate=0.1", "roll_back_and_skip=50", "restore=data", "restore=mask", "restore=positions", "restore=model",
    "restore=updates", "restore=settings", "qk_norm",
)  # fmt: skip
QUESTION = "ask_detector=playbook"
RUNS = 2  # of each kind
CLEAR = 4.0  # tolerances; failing runs that end further from their twin are drawn first


@dataclass
class Courses:
    """A run and all its courses. answers: decision point to what the detector says there; branches: (point, action)."""

    case: Case
    points: tuple[int, ...]
    untouched: Course
    oracle: Course | None
    answers: dict[int, str]
    branches: dict[tuple[int, str], Course]


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
    kept: KeptCourses | None = None,
) -> list[Courses]:
    """Train every course of some runs. choices: actions, `CHOICES` by default. kept: see `explore`."""
    points = {case.spec.run_id: points_of(case, block) for case in cases}

    def answer(root: Episode) -> str:
        asking = root.fork()
        asking.act(Action.parse(QUESTION))
        return asking.observation().answer

    def rows(one: Episode, begins: int) -> dict[str, Any]:
        shown = curves(one.trace(), profile)
        first = sum(step < begins for step in shown["steps"])
        signals = {name: values[first:] for name, values in shown["signals"].items()}
        return {"steps": shown["steps"][first:], "signals": signals}

    forks = Forks(
        CHOICES if choices is None else choices,
        decides=lambda case, root: root.step in points[case.spec.run_id],
        look=answer,
        rows=rows,
        cured=True,
    )
    found = []
    for one in explore(cases, profile, block, forks, kept, progress):
        oracle = [course for (_, name), course in one.courses.items() if name == ORACLE]
        acted = {key: course for key, course in one.courses.items() if key[1] != ORACLE}
        mine = points[one.case.spec.run_id]
        found.append(Courses(one.case, mine, one.untouched, oracle[0] if oracle else None, one.seen, acted))
    return found


def kept_courses(page: Path, profile: str, block: int) -> KeptCourses:
    """The file beside a page that has its courses until it is written. Raises InputError for that of another page."""
    head = {"profile": profile, "block": block, "choices": list(CHOICES), "points": list(SHARES)}
    return KeptCourses(page.with_suffix(".courses.jsonl"), head)


def note(course: Course) -> str:
    """Why nothing came of the act; empty where it was possible."""
    return "; ".join(why for _, action, why in course.outcome.actions if action in CHOICES and why)
