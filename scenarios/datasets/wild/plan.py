"""The plan `wild`: every group of runs has a healthy setup drawn from a distribution, none is tuned by hand.

A setup of `draw.py` that trains (`measure.py`) has `FAULTY` runs under drawn faults or look-alikes, of one seed, and
`HEALTHY` healthy runs: the twin of that seed and others, so that visible steps and thresholds are measured on
the same setup. Scenario and severity are drawn among those that the setup can have, the onset by the scenario. Half of
the setups are the train split, without what `standard` holds out by name; the other half is the test split, and
four healthy runs of each are its calibration runs: each setup weighs in the thresholds what it weighs in the test.

Whether a fault shows in a drawn setup is not known beforehand. It is measured, as everywhere: a run that is not harmed
is latent or not shown, and counts as no failure.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.scenarios.config import drawn
from trainwreck.scenarios.datasets.draws import held_out_cause, held_out_severity
from trainwreck.scenarios.datasets.standard_plan import Case, held_out_look_alikes, marked
from trainwreck.scenarios.datasets.wild.draw import fitting, has_own_rows, leaders, needs
from trainwreck.scenarios.datasets.wild.outcomes import Mix, weights
from trainwreck.scenarios.spec.proofs import proven_severities
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import CALIBRATION_SEEDS, Role, RunSpec, Split
from trainwreck.scenarios.spec.scenario import Severity
from trainwreck.scenarios.training.environment import prepare

FAULTY, HEALTHY = 4, 8  # runs of a setup
SPECIAL, OF_ROWS = 1, 2  # of the faulty runs, that need what only such a setup has; with rows of another kind
CALIBRATION = 4  # of the healthy ones of a test setup
FIRST_SEED = 4000  # of the first setup
LOOK_ALIKES = 0.2  # of the runs under a change
MOST = 3000  # runs, where none are asked for


def wild(runs: int | None = None, mix: Mix | None = None) -> list[RunSpec]:
    """So many runs, in groups of `FAULTY + HEALTHY`; as many as there are setups for, up to `MOST`, where None.

    mix: of the outcomes of failures; every scenario as often as any other where None. InputError where fewer setups are
    measured.
    """
    names = list(drawn.drawn_setups())
    most = len(names)
    runs = min(MOST, most * (FAULTY + HEALTHY)) if runs is None else runs
    groups = -(-runs // (FAULTY + HEALTHY))
    if not 2 <= groups <= most:
        raise InputError(
            f"runs: {runs} is not allowed; allowed: {2 * (FAULTY + HEALTHY)} to {most * (FAULTY + HEALTHY)}"
        )
    failing = [id for id in leaders() if not scenario(id).look_alike]
    chosen = weights(mix, failing) if mix else None
    specs = [spec for place, name in enumerate(names[:groups]) for spec in group(place, name, chosen)]
    return marked(specs, [spec for spec in specs if spec.split is Split.TRAIN])


def group(place: int, name: str, often: Mapping[str, float] | None = None) -> list[RunSpec]:
    """The runs of a setup, the place-th of the plan. often: of failing scenarios, all alike where None."""
    split = Split.TRAIN if place % 2 == 0 else Split.TEST
    seed = FIRST_SEED + place
    return runs_of(cases(name, split, seed, often), split, seed)


def runs_of(cases: Sequence[Case], split: Split, seed: int) -> list[RunSpec]:
    """The faulty runs of a setup, their twin, and `HEALTHY` - 1 healthy runs of other seeds."""
    faulty = [case.runs([seed], (Role.FAULTY,))[0] for case in cases]
    twin = faulty[0].twin
    others = [CALIBRATION_SEEDS[0] + i for i in range(CALIBRATION)]
    others += [seed + 1000 * i for i in range(1, HEALTHY - CALIBRATION)]
    healthy = [
        dataclasses.replace(
            twin, seed=other, split=split if i >= CALIBRATION or split is Split.TRAIN else Split.CALIBRATION
        )
        for i, other in enumerate(others)
    ]
    return [dataclasses.replace(spec, split=split) for spec in (*faulty, twin)] + healthy


def cases(name: str, split: Split, seed: int, often: Mapping[str, float] | None = None) -> list[Case]:
    """The faults and look-alikes of a setup: first those that need what only such a setup has, then others."""
    setup, draw = drawn.drawn_setup(name), generator(seed, "wild/cases")
    found: list[Case] = []
    possible = [id for id in fitting(setup) if not (split is Split.TRAIN and _held_out(id))]
    if special := [id for id in possible if needs(id)]:
        most = OF_ROWS if has_own_rows(setup) else SPECIAL
        found += list(islice(drawn_cases(special, name, split, seed, draw, None), most))
    usual = [id for id in possible if not needs(id)]
    for look_alike in (draw.random(FAULTY) < LOOK_ALIKES).tolist():
        taken = {case.id for case in found}
        pool = [id for id in usual if scenario(id).look_alike is look_alike and id not in taken]
        if len(found) < FAULTY:
            found += [next(drawn_cases(pool, name, split, seed, draw, None if look_alike else often))]
    return found


def drawn_cases(
    pool: Sequence[str],
    name: str,
    split: Split,
    seed: int,
    draw: np.random.Generator,
    often: Mapping[str, float] | None,
) -> Iterator[Case]:
    """Cases in a drawn order, those that the setup refuses left out."""
    prepare()  # masks and first batches are small: several threads would only wait for each other on busy cores
    share = np.array([1.0 if often is None else often[id] for id in pool])
    for index in draw.choice(len(pool), np.count_nonzero(share), replace=False, p=share / share.sum()):
        id = pool[int(index)]
        levels = [Severity(level) if level else None for level in proven_severities(id)]
        if split is Split.TRAIN:
            levels = [level for level in levels if level is None or level is not held_out_severity(id)]
        case = Case(id, levels[int(draw.integers(len(levels)))], (f"{drawn.KEY}={name}",))
        if _is_possible(case, seed):
            yield case


def _is_possible(case: Case, seed: int) -> bool:
    """Whether the fault can be in the setup, begins and is cured within the run, and has no token that is not there."""
    try:
        specs = case.runs([seed])
        for spec in specs:
            spec.check_steps()
            job = spec.job()
            for segment in job.segments:
                if job.batches(range(segment.start, segment.start + 1)).inputs.max() >= segment.setup.model.vocab_size:
                    return False
    except InputError:
        return False
    return True


@cache
def _held_out(id: str) -> bool:
    return id in held_out_look_alikes() if scenario(id).look_alike else held_out_cause(id)
