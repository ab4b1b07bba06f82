"""The named plans: demo and sample, which are small, and those of a released data set: standard, full, private.

These three are of version 1, of which the labels in `results/standard` are; version 2 is `standard_plan.py`.

    split         seeds       runs
    calibration   1000 ...    eight healthy runs of every base: thresholds are frozen on them
    train         2000 ...    what a detector may learn from: some causes and severities are held out
    test          3000 ...    every cause at every severity that it is proven at, pairs, another shape
    private       of a salt   as test, under seeds that only who knows the salt can draw

A failure stands at every severity that it is proven at, with its twin and its cured run. In train, test
and private alike each base has at least as many healthy and look-alike runs as failing ones, so that what
is configured says nothing about what went wrong. Which causes and severities are held out is a function
of their names and of `SPLIT_VERSION`, so a new scenario moves no other.
"""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from trainwreck.evaluation.dataset.schema import JOINT
from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import SEED_LIMIT
from trainwreck.scenarios.spec.proofs import proven_severities
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import (
    CALIBRATION_SEEDS,
    Role,
    RunSpec,
    Split,
    family_of,
    unique,
    with_calibration,
)
from trainwreck.scenarios.spec.scenario import Scenario, Severity

SPLIT_VERSION = 1
Draw = Callable[[int], int]  # a number of a seed to the seed
FIRST_SEED = {Split.TRAIN: 2000, Split.TEST: 3000}
HEALTHY = 500  # seeds of healthy runs without a failing one begin so far after their split's first
PUBLIC_SEEDS = 10_000  # all of them are under it; those of a salt are not
HELD_OUT = 5  # one cause in so many is in no training run, and one severity of every so many others
PAIRS = 24

# The demo takes minutes: runs are as short and small as their proof holds for (results/proof), at the
# severity that harms most. A budget of 5 % of healthy runs stopped needs sixty to calibrate on; there are eight
# of each of its eight bases.
_NARROW = ("model.width=48", "model.context=32", "data.rows=16")
USUAL = (*_NARROW, "steps=480")

# What it shows, and with which settings: failures that every course on training names, and four look-alikes.
DEMO: dict[str, tuple[str, ...]] = {
    "high_lr": (*_NARROW, "model.layers=3", "steps=400"),
    "no_warmup": (),
    "post_ln_depth": ("steps=250",),
    "fp16_attention_overflow": (),
    "corrupt_tokens": USUAL,
    "mask_missing": USUAL,
    "mask_zeroed": USUAL,
    "mask_off_by_one": USUAL,
    "rope_wrong_frequency": USUAL,
    "rope_on_keys_only": USUAL,
    "stale_optimizer_state": USUAL,
    "benign_single_spike": USUAL,
    "benign_entropy_floor": (),
    "benign_late_drop": (),
    "benign_curriculum": (),
}
DEMO_ON_TEXT = ("mask_missing", ("data.source=text", "model.vocab_size=256", "steps=200"))


def demo() -> list[RunSpec]:
    """Each scenario of `DEMO` once, with twin and cure, and what labels need; minutes on 2 cores."""
    specs: list[RunSpec] = []
    for name, overrides in DEMO.items():
        specs += with_calibration(name, range(1), severity=worst(name), overrides=overrides)
    name, overrides = DEMO_ON_TEXT
    specs += with_calibration(name, range(1), overrides=overrides)
    return unique(specs)


# What the package ships (evaluation/sample): failures of six families and four look-alikes on three bases, with
# two seeds of each, in 3 MB.
_SHORT = (*_NARROW, "steps=200")
SAMPLE = (
    "corrupt_tokens",
    "mask_missing",
    "mask_zeroed",
    "gradients_not_cleared",
    "nan_weight_spread",
    "catastrophic_forgetting",
    "output_reinitialised",
    "residual_bypassed",
    "benign_single_spike",
    "benign_clean_resume",
    "benign_loader_hiccup",
)


def sample() -> list[RunSpec]:
    """The small data set that ships with the package; it takes minutes on 2 cores."""
    specs: list[RunSpec] = []
    for name in SAMPLE:
        specs += with_calibration(name, range(2), severity=worst(name), overrides=_SHORT)
    return unique(specs)


def worst(name: str) -> Severity | None:
    """The severity that harms most; None for the scenario's own."""
    return Severity.SEVERE if Severity.SEVERE in scenario(name).severities else None


def standard() -> list[RunSpec]:
    """Every scenario at its own size; about an hour on 2 cores."""
    return unique(_calibration([*_split(Split.TRAIN, range(3)), *_split(Split.TEST, range(3))]))


def full() -> list[RunSpec]:
    """As `standard`, with more seeds; for a GPU or a cluster."""
    runs = [*_split(Split.TRAIN, range(8)), *_split(Split.TEST, range(8))]
    return unique(_calibration(runs))


def private(salt: str) -> list[RunSpec]:
    """The test split under seeds drawn from a salt. InputError for an empty one."""
    specs = _split(Split.TEST, range(3), drawn_by(salt))
    return unique(_calibration([dataclasses.replace(s, split=Split.PRIVATE) for s in specs]))


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


@cache
def pairs() -> tuple[str, ...]:
    """Compound scenarios of the test split: neighbours in an order drawn by name, where they can be one."""
    drawn = sorted((e.id for e in scenarios().values() if not e.look_alike), key=lambda name: lot("pair", name))
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


def _split(split: Split, which: Iterable[int], draw: Draw | None = None) -> list[RunSpec]:
    """Failing and look-alike runs of a split with twins and cures, and healthy ones to outweigh them."""
    first = FIRST_SEED[split]
    draw = draw or (lambda i: first + i)
    seeds = [draw(i) for i in which]
    specs: list[RunSpec] = []
    for id, entry in scenarios().items():
        for level in proven_severities(id):
            severity = Severity(level) if level else None
            held_out = _held_out(entry, severity)
            if split is Split.TRAIN and held_out:
                continue
            specs += [_marked(s, held_out) for s in family_of(id, seeds, severity=severity)]
    if split is Split.TEST:
        for id in pairs():
            specs += [_marked(s, "pair") for s in family_of(id, seeds[:2])]
        for id, overrides in DEMO.items():  # narrower, on shorter rows: proven there as well
            if overrides == USUAL:
                runs = family_of(id, seeds, severity=worst(id), overrides=overrides)
                specs += [_marked(s, "shape") for s in runs]
    specs = unique(dataclasses.replace(s, split=split) for s in specs)
    return specs + _outweighing(specs, draw)


def _outweighing(specs: Sequence[RunSpec], draw: Draw) -> list[RunSpec]:
    """As many healthy runs as a base lacks to have no fewer of them than of failing ones."""
    failing = Counter(s.base for s in specs if s.role is Role.FAULTY and not s.entry.look_alike)
    others = Counter(s.base for s in specs if s.role is Role.TWIN or (s.role is Role.FAULTY and s.entry.look_alike))
    bases = {s.base: s.twin for s in specs if s.role is Role.FAULTY}
    return [
        dataclasses.replace(bases[base], seed=draw(HEALTHY + i))
        for base in sorted(failing)
        for i in range(failing[base] - others[base])
    ]


def _calibration(specs: Sequence[RunSpec]) -> list[RunSpec]:
    """The runs, and the healthy ones of every base that thresholds and visible steps need."""
    bases = {s.base: s.twin for s in specs if not s.entry.own_twin}
    healthy = (
        dataclasses.replace(twin, seed=seed, split=Split.CALIBRATION, held_out="")
        for _, twin in sorted(bases.items())
        for seed in CALIBRATION_SEEDS
    )
    return [*specs, *healthy]


def _held_out(entry: Scenario, severity: Severity | None) -> str:
    if not entry.look_alike and held_out_cause(entry.id):
        return "cause"
    return "severity" if severity is not None and severity is held_out_severity(entry.id) else ""


def _marked(spec: RunSpec, held_out: str) -> RunSpec:
    return spec if spec.role is Role.TWIN else dataclasses.replace(spec, held_out=held_out)


def lot(what: str, id: str) -> int:
    """A number drawn by a name: the same for ever."""
    digest = hashlib.sha256(f"split {SPLIT_VERSION}/{what}/{id}".encode()).digest()
    return int.from_bytes(digest[:4], "big")
