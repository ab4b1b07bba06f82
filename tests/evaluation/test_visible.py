"""The first visible step: calibrated on healthy runs, silent on further ones, and never before the fault."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.schema import BY_NAME, EVALUATIONS, Role
from trainwreck.evaluation.trace import Trace
from trainwreck.evaluation.visible import (
    FEWEST,
    FLOOR,
    OUTCOMES,
    SMALLEST,
    WINDOW,
    Spread,
    comparable,
    spread,
    visible_steps,
)

STEPS = 60
NAMES = [signal.name for signal in OUTCOMES]


@pytest.fixture(scope="module")
def healthy(make_trace: Any) -> list[Trace]:
    return [make_trace(f"h{seed}", seed=seed, steps=STEPS) for seed in range(FEWEST)]


@pytest.fixture(scope="module")
def level(healthy: list[Trace]) -> Spread:
    return spread(healthy)


def changed(trace: Trace, **signals: np.ndarray) -> Trace:
    return Trace("changed", trace.signals | {k: np.asarray(v, np.float32) for k, v in signals.items()}, trace.evaluated)


def plain_envelope(values: np.ndarray, window: int) -> np.ndarray:
    """[N, S, K]: the range but for the run furthest out, by the definition; no NaN."""
    width = np.empty(values.shape[1:])
    for place in np.ndindex(width.shape):
        ordered = sorted(values[(slice(None), *place)])
        width[place] = min(ordered[-1] - ordered[1], ordered[-2] - ordered[0])
    near = np.array([width[max(0, t - window) : t + window + 1].max(0) for t in range(len(width))])
    return np.maximum(near, max(SMALLEST, FLOOR * near.max()))


def plain_ratios(values: np.ndarray, window: int) -> list[float]:
    ratios = []
    for i, mine in enumerate(values):
        others = np.array([v for k, v in enumerate(values) if k != i])
        ratios.append(max(float((np.abs(other - mine) / plain_envelope(others, window)).max()) for other in others))
    return ratios


def test_levels_are_those_of_the_definition(healthy: list[Trace], level: Spread) -> None:
    n = len(healthy)
    excess = np.ones((n, len(OUTCOMES)))
    for j, signal in enumerate(OUTCOMES):
        window = 0 if signal.name in EVALUATIONS else WINDOW
        values = np.stack([comparable(trace, signal) for trace in healthy])
        ratios = plain_ratios(values, window)
        assert level.kappa[signal.name] == max(1.0, *ratios)
        np.testing.assert_array_equal(level.levels[signal.name], plain_envelope(values, window))
        for i in range(n):
            excess[i, j] = ratios[i] / max(1.0, *plain_ratios(np.delete(values, i, 0), window))
    assert level.joint == max(1.0, excess.max())
    assert (level.runs, level.false_positive_rate) == (n, pytest.approx(1 / (n + 1)))


@pytest.mark.parametrize(("runs", "rate"), [(8, 1 / 9), (9, 1 / 10), (16, 1 / 17), (17, 2 / 18), (26, 3 / 27)])
def test_the_rate_is_the_largest_up_to_one_in_nine_that_the_runs_can_vouch_for(runs: int, rate: float) -> None:
    assert Spread({}, {}, 1.0, runs).false_positive_rate == pytest.approx(rate)


def test_one_healthy_run_that_lags_does_not_hide_what_is_plain_beside_the_others(make_trace: Any) -> None:
    random = np.random.default_rng(5)
    plain = make_trace("plain", steps=40)
    healthy = [reseeded(random, "drifting", plain) for _ in range(8)]
    laggard = changed(healthy[0], loss=healthy[0]["loss"] + 1.5)
    twin = healthy[1]
    # The level is 6.8 here; it would be 13 with the laggard in the range.
    harmed = changed(twin, loss=np.where(np.arange(40) < 20, twin["loss"], twin["loss"] + 9.0))
    assert visible_steps(harmed, twin, spread([*healthy, laggard]), 20)["loss"] == 20


def noise(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "drifting":
        return np.cumsum(random.standard_normal(shape), 0) / np.sqrt(shape[0])
    if kind == "offset":
        return random.standard_normal(shape) + 3.0 * random.standard_normal((1, *shape[1:]))
    return random.standard_t(3, shape)


def reseeded(random: np.random.Generator, kind: str, plain: Trace) -> Trace:
    """A healthy run whose outcome signals differ from the plain one's by noise of its own."""
    signals = {}
    for name in NAMES:
        if plain[name].any():
            signals[name] = plain[name] * np.exp(0.1 * noise(random, kind, plain[name].shape))
    return changed(plain, **signals)


@pytest.mark.parametrize("kind", ["heavy-tailed", "drifting", "offset"])
def test_a_further_healthy_run_is_visible_no_more_often_than_stated(kind: str, make_trace: Any) -> None:
    random = np.random.default_rng(7)
    plain = make_trace("plain", steps=40)
    shares = []
    for _ in range(50):
        base = [reseeded(random, kind, plain) for _ in range(FEWEST)]
        made = spread(base)
        further = [reseeded(random, kind, plain) for _ in range(4)]
        shares.append(np.mean([any(visible_steps(run, twin, made, 0) for twin in base) for run in further]))
    error = np.std(shares) / np.sqrt(len(shares))  # of the mean over the sets
    assert np.mean(shares) <= made.false_positive_rate + 2 * error


def test_no_run_of_the_set_is_visible_against_another(healthy: list[Trace], level: Spread) -> None:
    for run in healthy:
        for twin in healthy:
            assert visible_steps(run, twin, level, 0) == {}


@given(name=st.sampled_from(NAMES), start=st.integers(0, STEPS - 1), factor=st.sampled_from([1.001, 1.3, 3.0, 50.0]))
def test_a_fault_is_found_in_its_signal_and_never_before_it_begins(
    name: str, start: int, factor: float, healthy: list[Trace], level: Spread
) -> None:
    twin = healthy[0]
    values = twin[name].copy()
    values[start:] = values[start:] * factor + (factor - 1.0)
    found = visible_steps(changed(twin, **{name: values}), twin, level, 0)
    assert set(found) <= {name}
    assert all(step >= start for step in found.values())
    if factor == 50.0:
        there = np.flatnonzero(twin.evaluated[start:]) if name in EVALUATIONS else np.array([0])
        assert found == ({name: start + int(there[0])} if len(there) else {})


@pytest.mark.parametrize("name", [n for n in NAMES if n not in EVALUATIONS])
@pytest.mark.parametrize(("share", "seen"), [(0.99, False), (1.01, True)])
def test_the_level_is_the_bound(name: str, share: float, seen: bool, healthy: list[Trace], level: Spread) -> None:
    twin, signal, at = healthy[1], BY_NAME[name], 30
    values = twin[name].astype(np.float64).reshape(STEPS, -1)
    moved = share * (level.levels[name] * level.kappa[name] * level.joint)[at, -1]
    values[at, -1] = values[at, -1] * np.exp(moved) if signal.positive else values[at, -1] + moved
    found = visible_steps(changed(twin, **{name: values.reshape(twin[name].shape)}), twin, level, 0)
    assert found == ({name: at} if seen else {})


def test_each_signal_has_its_own_step(healthy: list[Trace], level: Spread) -> None:
    twin, late = healthy[2], np.arange(STEPS)
    run = changed(twin, grad_norm=twin["grad_norm"] * np.where(late >= 20, 9, 1), loss=twin["loss"] + 9 * (late >= 41))
    assert visible_steps(run, twin, level, 15) == {"grad_norm": 20, "loss": 41}


def test_what_differs_before_the_onset_is_not_counted(healthy: list[Trace], level: Spread) -> None:
    twin = healthy[2]
    run = changed(twin, loss=twin["loss"] + 9.0)
    assert visible_steps(run, twin, level, 33) == {"loss": 33}
    run.signals["loss"][33:] = twin["loss"][33:]
    assert visible_steps(run, twin, level, 33) == {}


def test_a_setting_is_not_an_outcome(healthy: list[Trace], level: Spread) -> None:
    twin = healthy[2]
    others = [s.name for s in BY_NAME.values() if s.role is not Role.OUTCOME]
    assert others
    run = changed(twin, **{name: twin[name] * 100 + 100 for name in others})
    assert visible_steps(run, twin, level, 0) == {}


@pytest.mark.parametrize(
    ("name", "bad"),
    [(name, bad) for name in ("loss", "age_loss") for bad in (np.nan, np.inf, -np.inf)]
    + [(name, bad) for name in ("grad_norm", "layer_grad_norm") for bad in (np.nan, np.inf)],
)
def test_not_finite_is_visible_where_the_twin_is_finite(
    name: str, bad: float, healthy: list[Trace], level: Spread
) -> None:
    twin = healthy[3]
    values = twin[name].copy()
    values[25:].reshape(STEPS - 25, -1)[:, 0] = bad  # one layer, one age
    broken = changed(twin, **{name: values})
    assert visible_steps(broken, twin, level, 10) == {name: 25}
    assert visible_steps(twin, broken, level, 10) == {}
    assert visible_steps(broken, broken, level, 10) == {}


@pytest.mark.parametrize("broken", [1, 2, FEWEST])
def test_what_is_not_finite_in_healthy_runs_is_left_out_of_the_calibration(
    broken: int, healthy: list[Trace], level: Spread
) -> None:
    """A healthy fp16 run overflows now and then; one infinite range once set every level back to 1."""

    def with_value(bad: float) -> Spread:
        runs = []
        for i, run in enumerate(healthy):
            values = run["grad_norm"].copy()
            values[5] = bad if i < broken else values[5]
            runs.append(changed(run, grad_norm=values))
        return spread(runs)

    infinite, missing = with_value(np.inf), with_value(np.nan)
    assert (infinite.kappa, infinite.joint) == (missing.kappa, missing.joint)
    for name in NAMES:
        np.testing.assert_array_equal(infinite.levels[name], missing.levels[name])
        assert np.isfinite(infinite.levels[name]).all()
        if name != "grad_norm":
            assert infinite.kappa[name] == level.kappa[name]
    assert level.kappa["grad_norm"] > 1 < level.joint, "so that setting them back would show"
    assert infinite.kappa["grad_norm"] > 1 < infinite.joint


def test_a_run_that_ends_early_is_compared_as_far_as_it_goes(healthy: list[Trace], level: Spread) -> None:
    twin = healthy[4]
    short = Trace("short", {name: values[:45].copy() for name, values in twin.signals.items()}, twin.evaluated[:45])
    assert visible_steps(short, twin, level, 0) == visible_steps(twin, short, level, 0) == {}
    short["loss"][44] = np.nan
    assert visible_steps(short, twin, level, 0) == {"loss": 44}


def test_the_validation_loss_counts_where_it_was_evaluated(healthy: list[Trace], level: Spread) -> None:
    twin = healthy[5]
    values = twin["validation_loss"].copy()
    values[39] += 9.0
    assert visible_steps(changed(twin, validation_loss=values), twin, level, 21) == {"validation_loss": 39}
    values[39] = np.nan  # evaluated, and it gave NaN
    assert visible_steps(changed(twin, validation_loss=values), twin, level, 21) == {"validation_loss": 39}


def test_too_few_healthy_runs_are_refused(healthy: list[Trace]) -> None:
    with pytest.raises(InputError, match=f"{FEWEST - 1} are too few to label; allowed: {FEWEST} or more"):
        spread(healthy[:-1])
