"""The plans of a released data set, `standard`, `full` and `private`: what is trained, in which split, on which seeds.

    split         seeds            runs
    calibration   1000 ...         healthy runs of every base that is measured, and look-alikes of the train split
    train         2000 2001        what a detector may learn from: causes, severities, look-alikes, bases are held out
    test          3000 ... 3011    every scenario at every severity, pairs, and two bases that no scenario has at home
    private       of a salt        as test, under seeds that only who knows the salt can draw; so are the seeds of its
                                   calibration runs, since who knows those can lower a threshold

Test runs are crossed: a scenario is on three of the twelve seeds, or on six where it has three severities, which stand
on two seeds each; every seed has about sixty scenarios. So the two kinds of dependence, of runs of one
scenario and of runs of one seed, can both be estimated. Which seeds a scenario has is a function of its name.
Further seeds would tell little: recall of 56 entries on version 2 varies nearly three times as much between scenarios
as within them, and with 0.7 of its seeds a standard error is 1.4 % larger in the median.
Every failing run has its twin, and one a scenario and severity its cured run, for pages that show one.

What the train split lacks is decided by name or by rank, never by a score:

    causes, severities   one cause in five, and one severity of every five others, by a hash of the name
    look-alikes          one in five, those that come first by a hash of their names
    bases                whole domains, as in WILDS (Koh et al. 2021): real text, and the narrow model on short rows; of
                         the bases that scenarios have at home one in five, the first by a hash, in two strata: one
                         scenario at one severity, and several. Those that `SHARED` or more of them share stay

`held_out` of a run says what of it no run of the train split has. It is read off that split. A base that is held out
has calibration runs all the same: thresholds are calibrated on the population that is measured.

On every base of a split that is scored or learnt from, healthy and look-alike runs together are as many as failing
ones, or more: a base says nothing about what went wrong. The calibration runs of a base are at least `FEWEST`, and
`POPULATION` times its share of the measured healthy runs where that is more: weighted by these shares, they
are worth `POPULATION` healthy runs drawn from the measured population, or more.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from trainwreck.evaluation.dataset.schema import JOINT
from trainwreck.scenarios.datasets.draws import (
    HELD_OUT,
    Draw,
    drawn_by,
    held_out_cause,
    held_out_severity,
    lot,
    pairs,
    planned,
)
from trainwreck.scenarios.spec.proofs import proven_severities, recorded
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import CALIBRATION_SEEDS, Role, RunSpec, Split, family_of, unique
from trainwreck.scenarios.spec.scenario import Scenario, Severity

FIRST_SEED = {Split.TRAIN: 2000, Split.TEST: 3000}
HEALTHY = 500  # seeds of healthy runs without a failing one begin so far after their split's first
CALIBRATED = 5000  # and those of calibration runs, where a salt draws them
SEEDS = 12  # of the test split
ALONE, ON_A_SCALE = 3, 2  # of them that a scenario without severities has, and one with them at each
ELSEWHERE = 4  # of them that a case has on a base that is not its scenario's own
TRAIN_SEEDS = 2
FEWEST = 13  # calibration runs of a base: with the twins of a scenario, what a check of its labels needs
POPULATION = 400
LOOK_ALIKES = 4  # calibration runs of each look-alike of the train split
SHARED = 10  # scenarios at a severity, on a base that is never held out
DOMAIN = 3  # scenarios that are proven on a base that is not their own, for it to be in the plan


@dataclass(frozen=True)
class Case:
    """A scenario at a severity, with the overrides of a base that is not its own, if any."""

    id: str
    severity: Severity | None = None
    overrides: tuple[str, ...] = ()

    @property
    def entry(self) -> Scenario:
        """The catalogue entry."""
        return scenario(self.id)

    @property
    def base(self) -> str:
        """Fingerprint of the healthy setup."""
        return self.runs([0], (Role.FAULTY,))[0].base

    def runs(self, seeds: Iterable[int], roles: Sequence[Role] = tuple(Role)) -> list[RunSpec]:
        """Faulty, twin and cured runs."""
        return family_of(self.id, seeds, severity=self.severity, overrides=self.overrides, roles=roles)

    @property
    def count(self) -> int:
        """How many seeds of the test split of `standard` it has."""
        if self.overrides:
            return ELSEWHERE
        return ON_A_SCALE if self.severity else ALONE

    def numbers(self, each: int) -> list[int]:
        """Which of the seeds it is on, so many. The severities of a scenario have different ones, as far as they go."""
        order = sorted(range(SEEDS), key=lambda i: lot(f"seed {i}", self.id))
        place = list(Severity).index(self.severity) * each if self.severity else 0
        return [order[(place + i) % SEEDS] for i in range(each)]


def standard() -> list[RunSpec]:
    """Every scenario at its own size; about an hour on 2 cores."""
    return _plan(range(TRAIN_SEEDS))


def full() -> list[RunSpec]:
    """As `standard`, every case on every test seed and more seeds to train on; for a GPU or a cluster."""
    return _plan(range(8), SEEDS)


def private(salt: str) -> list[RunSpec]:
    """The test split and the calibration runs under seeds drawn from a salt. InputError for an empty one."""
    draw = drawn_by(salt)
    train, test = _train(range(TRAIN_SEEDS)), _test(None, draw)
    specs = marked([*test, *_calibration(test, train, lambda i: draw(CALIBRATED + i))], train)
    return unique(dataclasses.replace(s, split=Split.PRIVATE) if s.split is Split.TEST else s for s in specs)


@cache
def home() -> tuple[Case, ...]:
    """Every scenario of the plans at every severity that it is proven at."""
    return tuple(Case(id, Severity(level) if level else None) for id in planned() for level in proven_severities(id))


@cache
def elsewhere() -> tuple[Case, ...]:
    """Cases on bases that are not their scenario's own, where so many scenarios are proven on one of them."""
    found: dict[str, list[Case]] = {}
    for row in recorded():
        entry = scenario(row["scenario"])
        mine = entry.sizes[0].value == row["size"] and entry.version == row["version"]
        if row["proven"] and mine and row["overrides"] and not any(o.startswith("fault.") for o in row["overrides"]):
            severity = Severity(row["severity"]) if row["severity"] else None
            case = Case(row["scenario"], severity, tuple(sorted(row["overrides"])))
            found.setdefault(case.base, []).append(case)
    return tuple(c for cases in found.values() if len({case.id for case in cases}) >= DOMAIN for c in cases)


@cache
def pair_cases() -> tuple[Case, ...]:
    """The pairs whose base is a scenario's own as well: the others would need healthy runs for themselves."""
    bases = {case.base for case in home()}
    return tuple(case for case in map(Case, pairs()) if case.base in bases)


@cache
def held_out_look_alikes() -> frozenset[str]:
    """Look-alikes that are in no training run."""
    return _first(entry.id for entry in planned().values() if entry.look_alike)


@cache
def held_out_bases() -> frozenset[str]:
    """Bases that are in no training run."""
    failing = Counter(case.base for case in home() if not case.entry.look_alike)
    single = [base for base, count in failing.items() if count == 1]
    several = [base for base, count in failing.items() if 1 < count < SHARED]
    at_home = {case.base for case in home()}
    return _first(single) | _first(several) | {c.base for c in elsewhere() if c.base not in at_home}


def _first(names: Iterable[str]) -> frozenset[str]:
    """One in five, those that come first by a hash."""
    drawn = sorted(names, key=lambda name: lot("held out", name))
    return frozenset(drawn[: round(len(drawn) / HELD_OUT)])


def _plan(train_seeds: Sequence[int], each: int | None = None) -> list[RunSpec]:
    train, test = _train(train_seeds), _test(each, lambda i: FIRST_SEED[Split.TEST] + i)
    return unique(marked([*train, *test, *_calibration(test, train, lambda i: CALIBRATION_SEEDS[0] + i)], train))


def _train(numbers: Sequence[int]) -> list[RunSpec]:
    """What a detector may learn from: each case that is not held out on every seed, with twin and cure."""
    first = FIRST_SEED[Split.TRAIN]
    specs: list[RunSpec] = []
    for case in home():
        if not _is_held_out(case):
            specs += case.runs([first + i for i in numbers])
    return _balanced([dataclasses.replace(s, split=Split.TRAIN) for s in specs], lambda i: first + i)


def _is_held_out(case: Case) -> bool:
    if case.entry.look_alike:
        left_out = case.id in held_out_look_alikes()
    else:
        left_out = held_out_cause(case.id) or (
            case.severity is not None and case.severity is held_out_severity(case.id)
        )
    return left_out or case.base in held_out_bases()


def _test(each: int | None, draw: Draw) -> list[RunSpec]:
    """Every case with its twins, on so many seeds, or on its own count of them; at home with one cured run."""
    specs: list[RunSpec] = []
    for case in home():
        first, *rest = (draw(i) for i in case.numbers(each or case.count))
        specs += case.runs([first]) + case.runs(rest, (Role.FAULTY, Role.TWIN))
    for case in (*pair_cases(), *elsewhere()):
        seeds = [draw(i) for i in case.numbers(each or case.count)]
        specs += case.runs(seeds, (Role.FAULTY, Role.TWIN))
    return _balanced(specs, draw)


def _balanced(specs: Iterable[RunSpec], draw: Draw) -> list[RunSpec]:
    """The runs, and as many healthy ones as a base lacks to have no fewer of them than of failing ones."""
    specs = unique(specs)
    failing = Counter(s.base for s in specs if s.role is Role.FAULTY and not s.entry.look_alike)
    others = Counter(s.base for s in specs if s.role is Role.TWIN or (s.role is Role.FAULTY and s.entry.look_alike))
    twins = {s.base: s for s in specs if s.role is Role.TWIN}
    more = [
        dataclasses.replace(twins[base], seed=draw(HEALTHY + i))
        for base in sorted(failing)
        for i in range(failing[base] - others[base])
    ]
    return [*specs, *more]


def _calibration(test: Sequence[RunSpec], train: Sequence[RunSpec], draw: Draw) -> list[RunSpec]:
    """Healthy runs of every base that has measured ones, and runs of the look-alikes that the train split has."""
    twins = {s.base: s for s in test if s.role is Role.TWIN}
    measured = Counter(s.base for s in test if s.role is Role.TWIN)
    everything = sum(measured.values())
    specs = [
        dataclasses.replace(twins[base], seed=draw(i))
        for base, count in sorted(measured.items())
        for i in range(max(FEWEST, math.ceil(POPULATION * count / everything)))
    ]
    for id in dict.fromkeys(s.scenario for s in train if s.role is Role.FAULTY and s.entry.look_alike):
        specs += Case(id).runs([draw(i) for i in range(LOOK_ALIKES)], (Role.FAULTY,))
    return [dataclasses.replace(s, split=Split.CALIBRATION) for s in specs]


def marked(specs: Sequence[RunSpec], train: Sequence[RunSpec]) -> list[RunSpec]:
    """The runs, each with what of it the train split has not, as `held_out` of the runs table states it."""
    faulty = [s for s in train if s.role is Role.FAULTY]
    causes, levels = {s.scenario for s in faulty}, {(s.scenario, s.severity) for s in faulty}
    bases = {s.base for s in train}

    def missing(spec: RunSpec) -> Iterable[str]:
        if spec.role is not Role.TWIN:
            parts = spec.scenario.split(JOINT)
            if not causes & set(parts):
                yield "look-alike" if spec.entry.look_alike else "cause"
            elif len(parts) == 1 and (spec.scenario, spec.severity) not in levels:
                yield "severity"
            if len(parts) > 1:
                yield "pair"
        if spec.base not in bases:
            yield "base"

    return [dataclasses.replace(s, held_out=JOINT.join(missing(s))) for s in specs]
