"""Every shape of the vocabulary: a curve that has it, near misses that have not, flat and non-finite curves."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trainwreck.scenarios import shapes

T = np.arange(200)
FLAT, NAN = np.ones(200), np.full(200, np.nan)
INF = np.full(200, np.inf)


def steps(*levels: tuple[int, float], start: float = 1.0) -> np.ndarray:
    """`start`, then each level from its step on."""
    y = np.full(200, start)
    for at, level in levels:
        y[at:] = level
    return y


def profile(*columns: float) -> np.ndarray:
    """The same profile over positions, ages or layers at each of 20 steps. [20, K]"""
    return np.tile(np.array(columns, dtype=np.float64), (20, 1))


FALL = 2.0 + 2.0 * np.exp(-T / 40)  # a healthy loss
SWING = np.where(T % 2, 0.1, -0.1) + 1.0
GROWS = np.where(T < 50, 1.0, np.exp((T - 50) / 30.0))  # doubled at 71, four times at 92
TURNS = steps((150, 3.0))
DOWN = profile(4, 3.6, 3, 2.8, 2.5, 2.2, 2.1, 2.0)
GRADS = profile(1, 1, 1, 1, 1, 1)
ONE = np.where(np.arange(6) == 2, 20.0, 1.0) * GRADS
EVERY_TENTH = np.where(T % 10 == 0, 1.0, np.nan)  # a validation loss

# shape: how it is asked, then the curves by name, each with whether it has the shape.
Case = tuple[Callable[[Any], bool], dict[str, tuple[np.ndarray, bool]]]
CASES: dict[str, Case] = {
    "turns_non_finite": (
        lambda y: shapes.turns_non_finite(y, onset=100),
        {
            "from the onset on": (steps((100, np.nan)), True),
            "later, to infinity": (steps((150, np.inf)), True),
            "before the onset": (steps((99, np.nan)), False),
            "for a while": (steps((120, np.nan), (130, 1.0)), False),
            "again": (steps((50, np.nan), (51, 1.0), (150, np.nan)), False),
            "large": (steps((100, 1e30)), False),
            "flat": (FLAT, False),
            "nan": (NAN, False),
            "inf": (INF, False),
        },
    ),
    "jumps_in_one_step": (
        lambda y: shapes.jumps_in_one_step(y, onset=100, ratio=2.0),
        {
            "jumps": (steps((100, 3.0)), True),
            "not finite from the onset": (steps((100, np.nan)), True),
            "too little": (steps((100, 1.9)), False),
            "for one step": (steps((100, 3.0), (101, 1.0)), False),
            "before the onset": (steps((60, 3.0)), False),
            "a little late": (steps((103, 3.0)), False),
            "ramp": (1.0 + np.maximum(0, T - 100) / 50, False),
            "falls": (steps((100, 0.1)), False),
            "flat": (FLAT, False),
            "nan": (NAN, False),
            "inf": (INF, False),
        },
    ),
    "drops_in_one_step": (
        lambda y: shapes.drops_in_one_step(y, onset=100, ratio=0.5),
        {
            "drops": (steps((100, 0.4)), True),
            "to zero": (steps((100, 0.0)), True),
            "too little": (steps((100, 0.6)), False),
            "for one step": (steps((100, 0.4), (101, 1.0)), False),
            "before the onset": (steps((60, 0.4)), False),
            "a little late": (steps((103, 0.4)), False),
            "not finite from the onset": (steps((100, np.nan)), False),
            "rises": (steps((100, 3.0)), False),
            "flat": (FLAT, False),
            "nan": (NAN, False),
            "inf": (-INF, False),
        },
    ),
    "steps_above": (
        lambda y: shapes.steps_above(y, FALL, onset=100, margin=0.1),
        {
            "above": (FALL + 0.2, True),
            "above for a few steps": (FALL + 0.2 * ((T >= 100) & (T < 105)), True),
            "shorter": ((FALL + 0.2)[:150], True),
            "nan": (NAN, True),
            "inf": (INF, True),
            "too little": (FALL + 0.09, False),
            "before alone": (FALL + 0.2 * (T < 100), False),
            "ends before": ((FALL + 0.2)[:100], False),
            "later alone": (FALL + 0.2 * (T >= 105), False),
            "under": (FALL - 0.2, False),
            "the reference": (FALL, False),
            "flat": (np.full(200, 2.1), False),
        },
    ),
    "readapts": (
        lambda y: shapes.readapts(y, FALL, onset=100, share=0.5),
        {
            "comes down": (FALL + np.where(T < 100, 0.0, np.exp((100 - T) / 30.0)), True),
            "comes down in part": (FALL + 0.6 * ((T >= 100) & (T < 120)) + 0.2 * (T >= 120), True),
            "goes under": (FALL + 0.6 * ((T >= 100) & (T < 120)) - 0.2 * (T >= 120), True),
            "stays": (FALL + 0.6 * (T >= 100), False),
            "comes down too little": (FALL + 0.6 * ((T >= 100) & (T < 120)) + 0.4 * (T >= 120), False),
            "never above": (FALL - 0.2 * (T >= 100), False),
            "not finite in the end": (np.where(T < 190, FALL + (T >= 100), np.nan), False),
            "the reference": (FALL, False),
            "flat": (np.full(200, 2.0), False),
            "nan": (NAN, False),
            "inf": (INF, False),
        },
    ),
    "spikes_and_recovers": (
        lambda y: shapes.spikes_and_recovers(y, onset=100, ratio=2.0, within=15),
        {
            "spikes": (steps((103, 3.0), (108, 1.0)), True),
            "in one step": (steps((100, 2.0), (101, 1.0)), True),
            "too little": (steps((103, 1.9), (108, 1.0)), False),
            "stays": (steps((103, 3.0)), False),
            "back too high": (steps((103, 3.0), (108, 1.2)), False),
            "back too late": (steps((103, 3.0), (140, 1.0)), False),
            "too late": (steps((116, 3.0), (118, 1.0)), False),
            "before the onset": (steps((90, 3.0), (95, 1.0)), False),
            "never back to numbers": (steps((103, 3.0), (108, 1.0), (190, np.nan)), False),
            "ends before it is back": (steps((103, 3.0))[:110], False),
            "flat": (FLAT, False),
            "nan": (NAN, False),
            "inf": (INF, False),
        },
    ),
    "spikes_repeatedly": (
        lambda y: shapes.spikes_repeatedly(y, ratio=2.0, within=15, times=2),
        {
            "twice": (steps((60, 3.0), (70, 1.0), (120, 2.0), (121, 1.0)), True),
            "thrice": (steps((60, 3.0), (62, 1.0), (120, 4.0), (122, 1.0), (180, 2.5), (182, 1.0)), True),
            "on a falling curve": (FALL * steps((60, 3.0), (70, 1.0), (120, 3.0), (125, 1.0)), True),
            "once": (steps((60, 3.0), (70, 1.0)), False),
            "one too little": (steps((60, 3.0), (70, 1.0), (120, 1.9), (121, 1.0)), False),
            "one never back": (steps((60, 3.0), (70, 1.0), (120, 3.0)), False),
            "one back too high": (steps((60, 3.0), (70, 1.0), (120, 3.0), (125, 1.2)), False),
            "one back too late": (steps((60, 3.0), (70, 1.0), (120, 3.0), (135, 1.0)), False),
            "swings": (3.0 * SWING, False),
            "never back to numbers": (steps((60, 3.0), (70, 1.0), (120, 3.0), (125, 1.0), (199, np.nan)), False),
            "flat": (FLAT, False),
            "nan": (NAN, False),
            "inf": (INF, False),
        },
    ),
    "diverges": (
        lambda y: shapes.diverges(y, rise=0.5),
        {
            "rises": (FALL + np.maximum(0, T - 120) / 50, True),
            "not finite at the end": (np.where(T < 150, FALL, np.nan), True),
            "nan": (NAN, True),
            "inf": (INF, True),
            "too little": (steps((150, 1.4)), False),
            "falls": (FALL, False),
            "spike": (steps((150, 5.0), (160, 1.0)), False),
            "last step alone": (steps((199, 2.0)), False),
            "short": (np.array([1.0, 5.0, 9.0]), False),
            "once not finite": (steps((100, np.nan), (101, 1.0)), False),
            "flat": (FLAT, False),
        },
    ),
    "creeps_before": (
        lambda pair: shapes.creeps_before(pair[0], pair[1], onset=50, factor=2.0, lead=20),
        {
            "creeps": (np.stack([GROWS, TURNS]), True),
            "loss lost": (np.stack([GROWS, steps((150, np.nan))]), True),
            "not finite first": (np.stack([steps((100, np.inf)), TURNS]), True),
            "with the loss": (np.stack([GROWS, steps((85, 3.0))]), False),
            "after the loss": (np.stack([steps((160, 5.0)), TURNS]), False),
            "loss never turns": (np.stack([GROWS, FALL]), False),
            "loss comes back": (np.stack([GROWS, steps((150, 3.0), (170, 1.0))]), False),
            "too little": (np.stack([steps((80, 1.9)), TURNS]), False),
            "before the onset": (np.stack([steps((20, 5.0)), TURNS]), False),
            "flat": (np.stack([FLAT, FLAT]), False),
            "flat under a turning loss": (np.stack([FLAT, TURNS]), False),
            "nan": (np.stack([NAN, NAN]), False),
            "inf": (np.stack([INF, INF]), False),
        },
    ),
    "plateaus_above": (
        lambda y: shapes.plateaus_above(y, FALL, margin=0.1),
        {
            "above": (FALL + 0.2, True),
            "above in the last quarter": (FALL + 0.2 * (T >= 140), True),
            "shorter": ((FALL + 0.2)[:150], True),
            "nan": (NAN, True),
            "inf": (INF, True),
            "too little": (FALL + 0.09, False),
            "early alone": (FALL + 0.2 * (T < 140), False),
            "dips at the end": (FALL + 0.2 * (T < 190), False),
            "under": (FALL - 0.2, False),
            "the reference": (FALL, False),
            "flat": (np.full(200, 1.9), False),
        },
    ),
    "falls_under": (
        lambda y: shapes.falls_under(y, FALL, margin=0.1),
        {
            "under": (FALL - 0.2, True),
            "under at the end": (FALL - 0.2 * (T >= 175), True),
            "shorter": ((FALL - 0.2)[:150], True),
            "too little": (FALL - 0.09, False),
            "early alone": (FALL - 0.2 * (T < 175), False),
            "above": (FALL + 0.2, False),
            "not finite in the end": (np.where(T < 199, FALL - 0.2, np.nan), False),
            "flat": (np.full(200, 2.1), False),
            "nan": (NAN, False),
            "inf": (-INF, False),
        },
    ),
    "levels_off": (
        lambda y: shapes.levels_off(y, share=0.33, of_fall=0.1),
        {
            "falls, then flat": (FALL, True),
            "flat at once": (1.0 + 3.0 * (T < 5), True),
            "straight down": (4.0 - T / 100, False),
            "falls at the end": (np.where(T < 180, FALL, FALL - 1.0), False),
            "rises": (2.0 + T / 100, False),
            "flat": (FLAT, False),
            "nan": (NAN, False),
            "inf": (INF, False),
        },
    ),
    "swings_slowly": (
        lambda y: shapes.swings_slowly(FALL + y, size=0.3, times=2),
        {
            "wave": (0.5 * np.sin(T / 10), True),
            "one wave": (np.where(T < 130, 0.0, 0.5 * np.sin(T / 10)), False),
            "ripple": (0.15 * np.sin(T / 10), False),
            "from step to step": (2 * SWING, False),
            "climbs": (T / 50, False),
            "flat": (FLAT, False),
            "nan": (NAN, False),
            "inf": (INF, False),
        },
    ),
    "oscillates": (
        lambda y: shapes.oscillates(y, SWING, factor=3.0),
        {
            "swings": (3.1 * SWING, True),
            "nan": (NAN, True),
            "inf": (INF, True),
            "too little": (2.9 * SWING, False),
            "the reference": (SWING, False),
            "slow wave": (3.0 * np.sin(T / 30), False),
            "one spike": (SWING + 50.0 * (T == 100), False),
            "flat": (FLAT, False),
        },
    ),
    "sways": (
        lambda y: shapes.sways(y, correlation=0.3),
        {
            "waves": (1.0 + 0.1 * np.sin(T), True),
            "waves on a slope": (1.0 + 0.01 * T + 0.1 * np.sin(T), True),
            "waves, then nan": (np.where(T < 100, np.sin(T), np.nan), True),
            "too few, then nan": (np.where(T < 19, np.sin(T), np.nan), False),
            "a gap": (np.where(T == 50, np.nan, np.sin(T)), False),
            "nan": (NAN, False),
            "inf": (INF, False),
            "swings": (SWING, False),
            "a slope": (0.01 * T + SWING, False),
            "noise": (np.random.default_rng(0).standard_normal(200), False),
            "flat": (FLAT, False),
        },
    ),
    "pinned_at": (
        lambda y: shapes.pinned_at(y, 1.0, tolerance=0.01),
        {
            "pinned": (FLAT + 0.009 * np.where(T % 2, 1, -1), True),
            "nearly always": (steps((184, 7.0)), True),
            "no steps": (FLAT[:0], False),
            "flat": (FLAT, True),
            "too rarely": (steps((176, 7.0)), False),
            "at another value": (FLAT + 0.011, False),
            "passes": (T / 100, False),
            "nan": (NAN, False),
            "inf": (INF, False),
        },
    ),
    "flat_over_position": (
        lambda p: shapes.flat_over_position(p, DOWN),
        {
            "flat": (np.full_like(DOWN, 3.0), True),
            "a little slope": (3 + 0.4 * (DOWN - 3), True),
            "rises": (DOWN[:, ::-1], True),
            "unused steps": (np.where(np.arange(20)[:, None] % 2, 3.0, np.nan) * np.ones(8), True),
            "too steep": (3 + 0.6 * (DOWN - 3), False),
            "the reference": (DOWN, False),
            "shifted": (DOWN + 5, False),
            "nan": (np.full_like(DOWN, np.nan), False),
            "inf": (np.full_like(DOWN, np.inf), False),
        },
    ),
    "worse_beyond_position": (
        lambda p: shapes.worse_beyond_position(p, DOWN, position=5, margin=0.2),
        {
            "worse beyond": (DOWN + profile(0, 0, 0, 0, 0, 0.5, 0.5, 0.5), True),
            "too little": (DOWN + profile(0, 0, 0, 0, 0, 0.19, 0.19, 0.19), False),
            "worse everywhere": (DOWN + 0.5, False),
            "worse before": (DOWN + profile(0.5, 0.5, 0.5, 0.5, 0.5, 0, 0, 0), False),
            "better beyond": (DOWN - profile(0, 0, 0, 0, 0, 0.5, 0.5, 0.5), False),
            "the reference": (DOWN, False),
            "flat": (np.full_like(DOWN, 2.0), False),
            "nan": (np.full_like(DOWN, np.nan), False),
            "inf": (np.full_like(DOWN, np.inf), False),
        },
    ),
    "vanishes_in_early_layers": (
        lambda g: shapes.vanishes_in_early_layers(g, GRADS, factor=10.0),
        {
            "vanishes": (profile(0.001, 0.01, 0.1, 0.3, 0.6, 1), True),
            "too little": (profile(0.11, 0.2, 0.3, 0.5, 0.8, 1), False),
            "all small": (GRADS * 1e-4, False),
            "zero": (0 * GRADS, False),
            "late small": (profile(1, 0.6, 0.3, 0.1, 0.01, 0.001), False),
            "in a few steps": (np.where(np.arange(20)[:, None] < 8, profile(0.001, 1, 1, 1, 1, 1), GRADS), False),
            "flat": (GRADS, False),
            "nan": (np.full_like(GRADS, np.nan), False),
            "inf": (np.full_like(GRADS, np.inf), False),
        },
    ),
    "explodes_in_late_layers": (
        lambda g: shapes.explodes_in_late_layers(g, GRADS, factor=10.0),
        {
            "explodes": (profile(1, 1, 2, 4, 8, 20), True),
            "too little": (profile(1, 1, 2, 4, 8, 9.9), False),
            "all large": (GRADS * 20, False),
            "early large": (profile(20, 8, 4, 2, 1, 1), False),
            "in a few steps": (np.where(np.arange(20)[:, None] < 8, profile(1, 1, 1, 1, 1, 20), GRADS), False),
            "flat": (GRADS, False),
            "nan": (np.full_like(GRADS, np.nan), False),
            "inf": (np.full_like(GRADS, np.inf), False),
        },
    ),
    "above_validation": (
        lambda pair: shapes.above_validation(pair[0], pair[1], margin=0.15),
        {
            "above": (np.stack([1.2 * FLAT, EVERY_TENTH]), True),
            "above in the end": (np.stack([steps((140, 1.2)), EVERY_TENTH]), True),
            "too little": (np.stack([1.1 * FLAT, EVERY_TENTH]), False),
            "under": (np.stack([0.8 * FLAT, EVERY_TENTH]), False),
            "above before the end": (np.stack([steps((140, 1.0), start=1.5), EVERY_TENTH]), False),
            "not finite at a step": (np.stack([steps((180, np.nan), (181, 1.2), start=1.2), EVERY_TENTH]), False),
            "no validation in the end": (np.stack([1.2 * FLAT, np.where(T < 140, EVERY_TENTH, np.nan)]), False),
            "flat": (np.stack([FLAT, FLAT]), False),
            "nan": (np.stack([NAN, NAN]), False),
            "inf": (np.stack([INF, INF]), False),
        },
    ),
    "one_layer_apart": (
        lambda g: shapes.one_layer_apart(g, GRADS, factor=10.0),
        {
            "apart": (ONE, True),
            "too little": (np.minimum(ONE, 9.9), False),
            "two apart": (ONE + np.where(np.arange(6) == 4, 20.0, 0.0), False),
            "all apart": (GRADS * 20, False),
            "under": (1 / ONE, False),
            "zero": (0 * GRADS, False),
            "flat": (GRADS, False),
            "nan": (np.full_like(GRADS, np.nan), False),
            "inf": (np.full_like(GRADS, np.inf), False),
        },
    ),
    "collapses_to_zero": (
        lambda y: shapes.collapses_to_zero(y, onset=100),
        {
            "collapses": (steps((100, 0.01)), True),
            "of either sign": (steps((100, 0.01), start=-1.0), True),
            "too little": (steps((100, 0.03)), False),
            "for a time": (steps((100, 0.0), (140, 1.0)), False),
            "too late": (steps((160, 0.0)), False),
            "always small": (np.full(200, 0.01), False),
            "always zero": (np.zeros(200), False),
            "flat": (FLAT, False),
            "nan": (NAN, False),
            "inf": (INF, False),
        },
    ),
}
MEASURES = {"smooth", "non_finite_from", "turning_point", "agreement"}  # give a curve or a step, tested below
PUBLIC = {n: f for n, f in vars(shapes).items() if inspect.isfunction(f) and f.__module__ == shapes.__name__}
PUBLIC = {name: function for name, function in PUBLIC.items() if not name.startswith("_")}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_shape_has_examples_and_a_picture(name: str) -> None:
    if name not in ("smooth", "turning_point"):
        assert re.search(r"^ *(\w+ +)?\|", inspect.getdoc(PUBLIC[name]) or "", re.M), "a picture"
    if name in MEASURES:
        return
    examples = CASES[name][1]
    assert {"flat", "nan", "inf"} <= set(examples)
    assert sum(has for _, has in examples.values()) >= 1
    assert sum(not has for key, (_, has) in examples.items() if key not in ("flat", "nan", "inf")) >= 2, "near misses"


@pytest.mark.parametrize(("name", "curve"), [(name, curve) for name, case in CASES.items() for curve in case[1]])
def test_shape(name: str, curve: str) -> None:
    ask, examples = CASES[name]
    y, has = examples[curve]
    before = y.copy()
    found = ask(y)
    assert found is has
    np.testing.assert_array_equal(y, before, "the curve is left as it was")


@pytest.mark.parametrize(
    ("y", "first"),
    [
        (FLAT, None),
        (NAN, 0),
        (INF, 0),
        (steps((150, np.nan)), 150),
        (steps((150, -np.inf)), 150),
        (steps((199, np.nan)), 199),
        (steps((50, np.nan), (51, 1.0), (150, np.inf)), 150),
        (steps((50, np.nan), (51, 1.0)), None),
    ],
)
def test_non_finite_from(y: np.ndarray, first: int | None) -> None:
    assert shapes.non_finite_from(y) == first


@pytest.mark.parametrize(
    ("loss", "turn"),
    [
        (FLAT, None),
        (FALL, None),
        (NAN, None),
        (steps((150, 3.0)), 151),  # the mean of ten is up by 0.2, then by 0.4
        (steps((150, 1.2)), None),
        (steps((150, 3.0), (170, 1.0)), None),
        (steps((50, 3.0), (70, 1.0), (150, 3.0)), 151),
        (steps((150, np.nan)), 150),
        (np.array([1.0, 3.0]), 1),
    ],
)
def test_turning_point(loss: np.ndarray, turn: int | None) -> None:
    assert shapes.turning_point(loss, rise=0.3) == turn


@given(
    y=arrays(
        np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6) | st.sampled_from([np.nan, np.inf, -np.inf])
    ),
    window=st.integers(1, 50),
)
def test_smooth_is_the_trailing_mean(y: np.ndarray, window: int) -> None:
    found = shapes.smooth(y, window)
    # A running sum of n terms is off by at most n eps times their magnitudes; two of them are subtracted.
    budget = 2 * len(y) * np.finfo(np.float64).eps * np.abs(y[np.isfinite(y)]).sum()
    for t in range(len(y)):
        part = y[max(0, t - window + 1) : t + 1]
        if np.isfinite(part).all():
            assert abs(found[t] - part.mean()) <= budget / len(part)
        else:
            assert found[t] == np.inf
