"""Courses of runs: each is forked off a run that is left alone, acted on once, and trained to its end.

    untouched  0 ------ 80 ------ 110 ------ end
                         |         |
    courses              +- rate   +- rate ...    each to its end, nothing else is done to it

Courses are trained side by side, and written down as they end. Where a file of them is there, what it has is not
trained again: a process that is killed loses what was under way, and the same call ends as if nothing had happened.
A run that is as it is declared goes on as before whatever is restored, and is not trained again for that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainwreck.scenarios.rescue.actions import Action, Kind
from trainwreck.scenarios.rescue.board import ORACLE
from trainwreck.scenarios.rescue.episode import Episode, advance
from trainwreck.scenarios.rescue.kept import Lines
from trainwreck.scenarios.rescue.outcomes import Case, Outcome, outcome, rescored

AT_ONCE = 32  # courses trained side by side
GROUP = 8  # runs whose courses are at hand at once
FINE = 1000  # parts of a run, in progress
UNTOUCHED = "untouched"
Progress = Callable[[int, int, str], Any]
Key = tuple[str, int, str]  # run, step of the fork, action


@dataclass(frozen=True)
class Course:
    """A course to its end. begins: step of its first row that is not the untouched run's. rows: as asked for."""

    begins: int
    outcome: Outcome
    rows: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return {"begins": self.begins, "outcome": self.outcome.to_json(), "rows": self.rows}

    @classmethod
    def of(cls, case: Case, content: dict[str, Any]) -> "Course":
        """The inverse of `to_json`, by the label of the run."""
        return cls(content["begins"], rescored(case, Outcome.from_json(content["outcome"])), content["rows"])


@dataclass(frozen=True)
class Forks:
    """What is forked off a run, and what is kept of it.

    decides: whether `choices` are tried before the run's next block. look: what is kept of such a moment, JSON. rows:
    what is kept of the rows of a course, which begins at a step. cured: whether the proven cure is a course as well.
    """

    choices: Sequence[str]
    decides: Callable[[Case, Episode], bool]
    look: Callable[[Episode], Any]
    rows: Callable[[Episode, int], dict[str, Any]] = lambda episode, begins: {}
    cured: bool = False


@dataclass
class Explored:
    """A run and its courses. seen: what `look` gave, by step. courses: by step of the fork and action."""

    case: Case
    untouched: Course
    seen: dict[int, Any] = field(default_factory=dict)
    courses: dict[tuple[int, str], Course] = field(default_factory=dict)


class KeptCourses(Lines):
    """Runs and courses in a file. Raises InputError as `Lines`.

    runs: what was forked off a run and seen of it. courses: as `Course.to_json` has them.
    """

    def __init__(self, path: Any, head: dict[str, Any]) -> None:
        super().__init__(path, head)
        self.runs: dict[str, dict[str, Any]] = {}
        self.courses: dict[Key, dict[str, Any]] = {}
        for key, content in self.contents:
            if key is None:
                self.runs[content["run"]] = content
            else:
                self.courses[key] = content

    @staticmethod
    def parsed(content: Any) -> tuple[Key | None, dict[str, Any]]:
        """A course with its key, or a run without one."""
        Outcome.from_json(content["course"]["outcome"])
        if "step" in content:
            return (content["run"], content["step"], content["name"]), content["course"]
        return None, {name: content[name] for name in ("run", "seen", "forks", "course")}


class _Trunk:
    """A run that is left alone, and what was forked off it. forks: by step and name, with the first step of its own."""

    def __init__(self, case: Case, root: Episode, forks: Forks) -> None:
        self.case, self.root, self.plan = case, root, forks
        self.seen: dict[int, Any] = {}
        self.forks: dict[tuple[int, str], tuple[int, Episode]] = {}
        self.alike: dict[tuple[int, str], Episode] = {}  # acted on, and the untouched run all the same

    def fork(self) -> None:
        """What begins at the step at which the run is now."""
        step = self.root.step
        if self.plan.cured and self.case.failing and step == self.case.in_sight:
            one = self.root.fork()
            one.cure()
            self._add(step, ORACLE, one)
        if not self.plan.decides(self.case, self.root):
            return
        self.seen[step] = self.plan.look(self.root)
        for choice in self.plan.choices:
            action = Action.parse(choice)
            one = self.root.fork()
            one.act(action)
            if action.kind is Kind.RESTORE and not self.root.faults:
                self.alike[step, choice] = one
            self._add(step, choice, one)

    def _add(self, step: int, name: str, one: Episode) -> None:
        if not one.ended:
            one.keep_few()
        self.forks[step, name] = one.step, one

    def end(self) -> None:
        """Now the run has ended, and what goes on as it does has ended too."""
        for key, acted in self.alike.items():
            one = self.root.fork()
            one.actions, one.priced = acted.actions, acted.priced
            self.forks[key] = key[0], one
        self.root.checkpoints.clear()

    def course(self, name: str, begins: int, one: Episode) -> Course:
        """A course that has ended."""
        return Course(begins, outcome(self.case, one, name), self.plan.rows(one, begins))

    def to_json(self) -> dict[str, Any]:
        """The line of the run."""
        return {
            "run": self.case.spec.run_id,
            "seen": list(self.seen.items()),
            "forks": list(self.forks),
            "course": self.course(UNTOUCHED, 0, self.root).to_json(),
        }


def explore(
    cases: Sequence[Case],
    profile: str,
    block: int,
    forks: Forks,
    kept: KeptCourses | None = None,
    progress: Progress | None = None,
) -> list[Explored]:
    """Train runs and every course of theirs, some runs at a time. kept: where they are kept, and what is there."""
    runs = dict(kept.runs) if kept else {}
    courses = dict(kept.courses) if kept else {}
    for first in range(0, len(cases), GROUP):
        group = cases[first : first + GROUP]

        def told(share: float, first: int = first, count: int = len(group)) -> None:
            if progress:
                progress(int(FINE * (first + share * count)), FINE * len(cases), f"runs {first + 1} to {first + count}")

        left = [case for case in group if not _whole(case.spec.run_id, runs, courses)]
        trunks = [_Trunk(case, Episode(case.spec, profile, block), forks) for case in left]
        _train_untouched(trunks)
        new = [trunk.to_json() for trunk in trunks if trunk.case.spec.run_id not in runs]
        if kept:
            kept.append(new)
        runs |= {one["run"]: one for one in new}
        _train_forks(trunks, courses, kept, told)
        told(1.0)
    return [_explored(case, runs[case.spec.run_id], courses) for case in cases]


def _whole(run: str, runs: dict[str, Any], courses: dict[Key, Any]) -> bool:
    return run in runs and all((run, step, name) in courses for step, name in runs[run]["forks"])


def _train_untouched(trunks: Sequence[_Trunk]) -> None:
    while live := [trunk for trunk in trunks if not trunk.root.ended]:
        for trunk in live:
            trunk.fork()
        advance([trunk.root for trunk in live])
    for trunk in trunks:
        trunk.end()


def _train_forks(
    trunks: Sequence[_Trunk], courses: dict[Key, Any], kept: KeptCourses | None, told: Callable[[float], None]
) -> None:
    """Courses that are not known yet, to their ends; those that begin at one step beside each other."""
    left = []
    for trunk in trunks:
        for (step, name), (begins, one) in trunk.forks.items():
            if (trunk.case.spec.run_id, step, name) not in courses:
                left.append((trunk, step, name, begins, one))
    left.sort(key=lambda fork: fork[1])
    for first in range(0, len(left), AT_ONCE):
        now = left[first : first + AT_ONCE]
        told(first / len(left))
        while live := [one for *_, one in now if not one.ended]:
            step = min(one.step for one in live)
            behind = [one for one in live if one.step == step]
            advance(behind)
            for one in behind:
                one.keep_few()
        new = {}
        for trunk, step, name, begins, one in now:
            new[trunk.case.spec.run_id, step, name] = trunk.course(name, begins, one).to_json()
        if kept:
            kept.append([{"run": run, "step": at, "name": name, "course": one} for (run, at, name), one in new.items()])
        courses |= new
        for trunk, step, name, _, _ in now:
            del trunk.forks[step, name]


def _explored(case: Case, run: dict[str, Any], courses: dict[Key, Any]) -> Explored:
    found = {(step, name): Course.of(case, courses[case.spec.run_id, step, name]) for step, name in run["forks"]}
    return Explored(case, Course.of(case, run["course"]), dict(run["seen"]), found)
