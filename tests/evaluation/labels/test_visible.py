"""The first visible step: calibrated on healthy runs, silent on further ones, and never before the fault."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwreck.evaluation.dataset.schema import ADDED_SIGNALS, BY_NAME, EVALUATIONS, Role
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.labels.visible import (
    FEWEST,
    FLOOR,
    OUTCOMES,
    POOL,
    SMALLEST,
    SMOOTH,
    VIEWS,
    WILD,
    WINDOW,
    Spread,
    by_profile,
    comparable,
    departures,
    spread,
    spreads,
    visible_steps,
)

STEPS = 60
NAMES = [signal.name for signal in OUTCOMES]


@pytest.fixture(scope="module")
def healthy(make_trace: Any) -> list[Trace]:
    return [make_trace(f"h{seed}", seed=seed, steps=STEPS, kl=np.ones(STEPS)) for seed in range(FEWEST)]


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


def plain_distances(values: np.ndarray, window: int) -> np.ndarray:
    far = np.zeros((len(values), len(values)))
    for i, j in itertools.permutations(range(len(values)), 2):
        others = np.array([v for k, v in enumerate(values) if k != i])
        far[i, j] = (np.abs(values[j] - values[i]) / plain_envelope(others, window)).max()
    return far


def plain_reach(row: np.ndarray) -> float:
    return float(sorted(row)[-2])


def plain_scale(far: np.ndarray) -> float:
    return max(1.0, sorted(plain_reach(row) for row in far)[-2])


def plain_view(trace: Trace, name: str) -> np.ndarray:
    """The signal as it is compared, or by the definition the mean of its last steps."""
    signal, _, steps = name.partition("/")
    values = comparable(trace, BY_NAME[signal])
    if not steps:
        return values
    means = [values[t - int(steps) + 1 : t + 1].mean(0) for t in range(int(steps) - 1, len(values))]
    return np.array(means)


def test_levels_are_those_of_the_definition(healthy: list[Trace], level: Spread) -> None:
    n = len(healthy)
    excess = np.ones((n, len(VIEWS)))
    for j, view in enumerate(VIEWS):
        window = 0 if view.signal.name in EVALUATIONS else WINDOW
        values = np.stack([plain_view(trace, view.name) for trace in healthy])
        far = plain_distances(values, window)
        assert level.kappa[view.name] == pytest.approx(plain_scale(far), rel=1e-9)
        first = view.mean_of - 1
        expected = plain_envelope(values, window)
        np.testing.assert_allclose(level.levels[view.name][first:], expected, rtol=1e-9)
        for i in range(n):
            rest = [k for k in range(n) if k != i]
            excess[i, j] = plain_reach(far[i]) / plain_scale(far[np.ix_(rest, rest)])
    assert level.joint == pytest.approx(max(1.0, excess.max()), rel=1e-9)
    assert (level.runs, level.false_positive_rate) == (n, pytest.approx(1 / (n + 1)))
    assert level.gaps == set()


def test_every_signal_is_seen_step_by_step_and_as_a_mean_but_evaluations() -> None:
    seen = {name: {v.mean_of for v in VIEWS if v.signal.name == name} for name in NAMES}
    assert seen == {name: {1} if name in EVALUATIONS else {1, SMOOTH} for name in NAMES}


def test_a_shift_that_lasts_is_seen_in_the_mean_before_any_one_step_stands_out(make_trace: Any) -> None:
    random = np.random.default_rng(3)
    plain = make_trace("plain", steps=80)

    def run() -> Trace:
        return changed(plain, loss=4.0 + random.standard_normal(80))

    healthy = [run() for _ in range(16)]
    level, twin = spread(healthy), healthy[0]
    single = (level.levels["loss"] * level.kappa["loss"] * level.joint).min()
    shift = np.where(np.arange(80) >= 40, 0.9 * single, 0.0)
    assert 40 < visible_steps(changed(twin, loss=twin["loss"] + shift), twin, level, 40)["loss"] < 40 + SMOOTH
    once = np.where(np.arange(80) == 40, 0.9 * single, 0.0)
    assert visible_steps(changed(twin, loss=twin["loss"] + once), twin, level, 40) == {}


def bases(random: np.random.Generator, make_trace: Any, count: int, each: int, kind: str) -> dict[str, list[Trace]]:
    plain = make_trace("plain", steps=40)
    return {f"base {b}": [reseeded(random, kind, plain) for _ in range(each)] for b in range(count)}


def test_few_bases_have_levels_of_their_own_and_many_share_theirs(make_trace: Any) -> None:
    random = np.random.default_rng(11)
    groups = bases(random, make_trace, POOL, FEWEST, "drifting")
    few = dict(list(groups.items())[: POOL - 1])
    alone = {name: spread(runs) for name, runs in groups.items()}
    assert all(spreads(few)[name].kappa == alone[name].kappa for name in few)
    shared = spreads(groups)
    assert len({one.joint for one in shared.values()}) == 1
    assert all(one.runs == POOL * FEWEST for one in shared.values())
    for name in ("loss", "grad_norm/10"):
        usual = float(np.median([one.kappa[name] for one in alone.values()]))
        for base, one in shared.items():
            own = alone[base].kappa[name]
            assert one.kappa[name] == (own if own > WILD * usual else usual)
            np.testing.assert_array_equal(one.levels[name], alone[base].levels[name])


def test_a_base_that_is_far_wilder_keeps_its_own_level(make_trace: Any) -> None:
    random = np.random.default_rng(12)
    groups = bases(random, make_trace, POOL + 1, FEWEST, "drifting")
    for i, run in enumerate(groups["base 2"]):
        run.signals["loss"] = run["loss"] + np.where(np.arange(40) == 4 * i + 3, 60.0, 0.0).astype(np.float32)
    alone, shared = spread(groups["base 2"]), spreads(groups)
    assert shared["base 2"].kappa["loss"] == alone.kappa["loss"]
    assert shared["base 1"].kappa["loss"] < alone.kappa["loss"] / WILD
    assert shared["base 2"].kappa["log_z"] < alone.kappa["loss"] / WILD


@pytest.mark.parametrize("kind", ["heavy-tailed", "drifting", "offset"])
def test_over_many_bases_a_further_healthy_run_is_visible_no_more_often_than_stated(kind: str, make_trace: Any) -> None:
    random = np.random.default_rng(13)
    shares = []
    for _ in range(3):
        groups = bases(random, make_trace, POOL + 1, FEWEST + 2, kind)
        made = spreads({name: runs[:FEWEST] for name, runs in groups.items()})
        for name, runs in groups.items():
            pairs = [(run, runs[i]) for i, run in enumerate(runs[FEWEST:])]
            shares.append(np.mean([bool(visible_steps(run, twin, made[name], 0)) for run, twin in pairs]))
    rate = made["base 0"].false_positive_rate
    assert rate <= 1 / (FEWEST + 1)
    assert np.mean(shares) <= rate + 2 * np.std(shares) / np.sqrt(len(shares))


def test_where_healthy_runs_overflow_an_overflow_is_nothing_to_see(healthy: list[Trace]) -> None:
    """Under dynamic loss scaling the gradient overflows now and then; every run of it once was a failure."""
    runs = []
    for i, run in enumerate(healthy):
        values = run["grad_norm"].copy()
        values[7 * i + 1] = np.inf
        runs.append(changed(run, grad_norm=values))
    level = spread(runs)
    assert level.gaps == {"grad_norm", f"grad_norm/{SMOOTH}"}
    for run in runs:
        for twin in runs:
            assert visible_steps(run, twin, level, 0) == {}
    lost = changed(runs[0], loss=np.where(np.arange(STEPS) >= 30, np.nan, runs[0]["loss"]))
    assert visible_steps(lost, runs[0], level, 10) == {"loss": 30}


@pytest.mark.parametrize(
    ("name", "start", "expected"),
    [
        ("loss", 21, {"full": 21, "common": 21, "standard": 30, "minimal": 30, "filtered": 29}),
        ("grad_norm", 30, {"full": 30, "common": 30, "standard": 30, "filtered": 39}),
        ("layer_grad_norm", 21, {"full": 21}),
        ("validation_loss", 21, {"full": 39, "common": 39, "standard": 40, "filtered": 39}),
    ],
)
def test_a_profile_shows_it_when_its_rows_come(
    name: str, start: int, expected: dict[str, int], healthy: list[Trace], level: Spread
) -> None:
    twin = healthy[0]
    values = twin[name].copy()
    values[start:] = values[start:] * 1e4
    run = changed(twin, **{name: values})
    assert by_profile(departures(run, twin, level, 10), STEPS - 1) == expected


def test_an_evaluation_is_shown_by_no_row_after_the_end(healthy: list[Trace], level: Spread) -> None:
    """The run ends before the row that would have had it."""
    twin = healthy[0]
    values = twin["validation_loss"].copy()
    values[21:] = values[21:] * 1e4
    found = departures(changed(twin, validation_loss=values), twin, level, 10)
    assert by_profile(found, 40) == {"full": 39, "common": 39, "standard": 40, "filtered": 39}
    assert by_profile(found, 39) == {"full": 39, "common": 39, "filtered": 39}


def test_a_filtered_loss_hides_that_it_is_not_finite(healthy: list[Trace], level: Spread) -> None:
    twin = healthy[0]
    run = changed(twin, loss=np.where(np.arange(STEPS) >= 21, np.nan, twin["loss"]))
    shown = {"full": 21, "common": 21, "standard": 30, "minimal": 30}
    assert by_profile(departures(run, twin, level, 10), STEPS - 1) == shown


@pytest.mark.parametrize(("runs", "rate"), [(8, 1 / 9), (9, 1 / 10), (16, 1 / 17), (17, 2 / 18), (26, 3 / 27)])
def test_the_rate_is_the_largest_up_to_one_in_nine_that_the_runs_can_vouch_for(runs: int, rate: float) -> None:
    assert Spread({}, {}, 1.0, runs).false_positive_rate == pytest.approx(rate)


def test_one_healthy_run_that_lags_does_not_hide_what_is_plain_beside_the_others(make_trace: Any) -> None:
    random = np.random.default_rng(5)
    plain = make_trace("plain", steps=40)
    healthy = [reseeded(random, "drifting", plain) for _ in range(8)]
    laggard = changed(healthy[0], loss=healthy[0]["loss"] + 1.5)
    twin = healthy[1]

    harmed = changed(twin, loss=np.where(np.arange(40) < 20, twin["loss"], twin["loss"] + 9.0))
    assert visible_steps(harmed, twin, spread([*healthy, laggard]), 20)["loss"] == 20


def test_a_unit_that_dies_in_one_healthy_run_hides_nothing_else(healthy: list[Trace], level: Spread) -> None:
    """A signal that is the same in every healthy run but one once set the level of all others to a thousand."""
    runs = [changed(run, dead_share=np.zeros_like(run["dead_share"])) for run in healthy]
    runs[3].signals["dead_share"][20:] = 1 / 64
    strange = spread(runs)
    assert strange.joint < 3.0
    harmed = changed(runs[0], loss=np.where(np.arange(STEPS) < 20, runs[0]["loss"], runs[0]["loss"] + 3.0))
    assert visible_steps(harmed, runs[0], strange, 20)["loss"] == 20
    assert visible_steps(runs[3], runs[0], strange, 0) == {}


def noise(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "drifting":
        return np.cumsum(random.standard_normal(shape), 0) / np.sqrt(shape[0])
    if kind == "offset":
        return random.standard_normal(shape) + 3.0 * random.standard_normal((1, *shape[1:]))
    return random.standard_t(3, shape)


def reseeded(random: np.random.Generator, kind: str, plain: Trace) -> Trace:
    """A healthy run whose outcome signals differ from the plain one's by noise of its own.

    Those that were added later do not: most runs have nothing for them.
    """
    signals = {}
    for name in NAMES:
        if plain[name].any() and name not in ADDED_SIGNALS:
            signals[name] = plain[name] * np.exp(0.1 * noise(random, kind, plain[name].shape))
    return changed(plain, **signals)


@pytest.mark.parametrize("kind", ["heavy-tailed", "drifting", "offset"])
def test_a_further_healthy_run_is_visible_no_more_often_than_stated(kind: str, make_trace: Any) -> None:
    random = np.random.default_rng(7)
    plain = make_trace("plain", steps=40)
    shares = []
    for _ in range(15):
        base = [reseeded(random, kind, plain) for _ in range(FEWEST)]
        made = spread(base)
        further = [reseeded(random, kind, plain) for _ in range(4)]
        shares.append(np.mean([bool(visible_steps(run, base[i], made, 0)) for i, run in enumerate(further)]))
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
        shown = np.flatnonzero(twin.evaluated[start:]) if name in EVALUATIONS else np.array([0])
        assert found == ({name: start + int(shown[0])} if len(shown) else {})


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
