"""What is drawn by a name or a salt, the same for ever: which causes and severities are held out, pairs, private seeds.

Each is a function of names and of `SPLIT_VERSION`, so a new scenario moves no other.
"""

import hashlib
from collections.abc import Callable
from functools import cache

from trainwreck.evaluation.dataset.schema import JOINT, PUBLIC_SEEDS
from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import SEED_LIMIT
from trainwreck.scenarios.spec.proofs import proven_severities
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import family_of
from trainwreck.scenarios.spec.scenario import Scenario, Severity

PLANS = 3  # version of the plans; a scenario that came later is in them when they are regenerated
SPLIT_VERSION = 1
HELD_OUT = 5  # one cause in so many is in no training run, and one severity of every so many others
PAIRS = 24

Draw = Callable[[int], int]  # a number of a seed to the seed


def drawn_by(salt: str) -> Draw:
    """The seeds of a salt. InputError for an empty one."""
    if not salt:
        raise InputError("salt: '' is not allowed; allowed: any text that is kept to oneself")

    def drawn(i: int) -> int:
        digest = hashlib.sha256(f"{salt}/{i}".encode()).digest()
        return PUBLIC_SEEDS + int.from_bytes(digest[:8], "big") % (SEED_LIMIT - PUBLIC_SEEDS)

    return drawn


def held_out_cause(id: str) -> bool:
    """Whether no training run has this cause."""
    return lot("cause", id) % HELD_OUT == 0


def held_out_severity(id: str) -> Severity | None:
    """The severity at which no training run has this cause; None for most, and where there is no scale."""
    levels = [Severity(level) for level in proven_severities(id) if level]
    if len(levels) < 2 or held_out_cause(id):
        return None
    number = lot("severity", id)
    return levels[number // HELD_OUT % len(levels)] if number % HELD_OUT < 2 else None


def planned() -> dict[str, Scenario]:
    """The scenarios of the catalogue that plans of this version have."""
    return {id: entry for id, entry in scenarios().items() if entry.plans <= PLANS}


@cache
def pairs() -> tuple[str, ...]:
    """Compound scenarios of the test split: neighbours in an order drawn by name, where they can be one."""
    drawn = sorted((e.id for e in planned().values() if not e.look_alike), key=lambda name: lot("pair", name))
    found: list[str] = []
    while len(drawn) > 1 and len(found) < PAIRS:
        first = drawn.pop(0)
        for second in drawn:
            try:
                pair = scenario(JOINT.join((first, second)))
                family_of(pair.id, [0])
            except InputError:
                continue
            drawn.remove(second)
            found.append(pair.id)
            break
    return tuple(found)


def lot(what: str, id: str) -> int:
    """A number drawn by a name: the same for ever."""
    digest = hashlib.sha256(f"split {SPLIT_VERSION}/{what}/{id}".encode()).digest()
    return int.from_bytes(digest[:4], "big")
