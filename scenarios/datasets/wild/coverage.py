"""The plan `coverage`: what `wild` lacks for every failing scenario to be on `TIMES` drawn setups.

The mix of `wild` draws some scenarios often and others never. Here each is on further setups, at a severity that is
drawn among the proven ones. Setups with the scenarios that few setups fit are taken first, and filled with others, so
that many faulty runs share the healthy ones of a setup.
"""

from collections import Counter, defaultdict

from trainwreck.kernels.random import generator
from trainwreck.scenarios.config import drawn
from trainwreck.scenarios.datasets.standard_plan import marked
from trainwreck.scenarios.datasets.wild.draw import fitting, leaders
from trainwreck.scenarios.datasets.wild.outcomes import shares_of
from trainwreck.scenarios.datasets.wild.plan import drawn_cases, runs_of, wild
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, Split

TIMES = 4  # setups of a failing scenario, here and in `wild`, where so many fit
FAULTS = 12  # runs of a setup under a fault, at most
FIRST_SEED = 9000  # of the first setup


def coverage() -> list[RunSpec]:
    """The runs of some setups, as in `wild`: faulty ones of one seed, their twin, and healthy ones of other seeds."""
    known = _known()
    lacking = {id: TIMES - len(known[id]) for id in leaders() if not scenario(id).look_alike}
    fit = {
        name: {id for id in fitting(setup) if lacking.get(id, 0) > 0 and name not in known[id]}
        for name, setup in drawn.drawn_setups().items()
    }
    setups = Counter(id for ids in fit.values() for id in ids)
    rarest = sorted(sorted(setups), key=setups.__getitem__)
    specs: list[RunSpec] = []
    for place in range(len(fit)):
        wanted = {name: [id for id in rarest if id in ids and lacking[id] > 0][:FAULTS] for name, ids in fit.items()}
        name = max(wanted, key=lambda name: sum(1 / setups[id] for id in wanted[name]))
        if not wanted[name]:
            break
        del fit[name]
        seed = FIRST_SEED + place
        cases = list(drawn_cases(wanted[name], name, Split.TEST, seed, generator(seed, "coverage"), None))
        lacking.update((case.id, lacking[case.id] - 1) for case in cases)
        specs += runs_of(cases, Split.TEST, seed) if cases else []
    return marked(specs, [])


def _known() -> dict[str, set[str]]:
    """Drawn setups of each scenario in `wild`, by name."""
    found = defaultdict(set)
    for spec in wild(mix=shares_of(None)):
        if spec.role is Role.FAULTY:
            (setting,) = spec.overrides
            found[spec.scenario].add(setting.removeprefix(f"{drawn.KEY}="))
    return found
