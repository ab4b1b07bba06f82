"""A healthy run of any base deviates by about 1; values that are missing do not count."""

from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.audits.confusable.deviation import (
    LARGEST,
    SCALARS,
    WINDOWS,
    curve_names,
    deviation,
    past,
    shown,
    statistics,
)
from trainwreck.evaluation.replay.profiles import PROFILES

EVERY = np.ones((1, 20), dtype=bool)
ONE = slice(0, 1)


def draw() -> np.random.Generator:
    return np.random.default_rng(5)


def at(name: str) -> int:
    return curve_names().index(name)


def test_a_window_holds_the_mean_of_every_curve_and_the_range_of_every_scalar(make_trace: Any) -> None:
    trace = make_trace("r", loss=np.arange(120.0))
    seen = shown(trace, ["full"])["full"]
    parts = np.split(statistics(seen, 40, 120), len(WINDOWS))
    assert all(len(part) == len(curve_names()) + SCALARS.sum() for part in parts)
    assert [part[at("loss")] for part in parts] == [44.5, 54.5, 69.5, 99.5]
    assert [part[len(curve_names()) + at("loss")] for part in parts] == [9, 9, 19, 39]
    assert past(seen, 40)[at("loss")] == 29.5
    heads = trace["head_entropy"].astype(np.float64)
    assert parts[0][at("head_entropy largest")] == pytest.approx(heads[40:50].max(1).mean(), rel=1e-12)
    norm = np.log(trace["layer_grad_norm"].astype(np.float64)[40:50, -1])
    assert parts[0][at("layer_grad_norm last")] == pytest.approx(norm.mean(), rel=1e-12)


@pytest.mark.parametrize("profile", PROFILES)
def test_nothing_is_known_that_the_profile_does_not_hand_out(profile: str, make_trace: Any) -> None:
    one, other = make_trace("r"), make_trace("r", grad_norm=np.full(120, 9.0), head_entropy=np.full((120, 4), 9.0))
    same = [np.array_equal(*(statistics(shown(t, [profile])[profile], 40, 120) for t in (one, other)), equal_nan=True)]
    assert same == [profile == "minimal"]


def test_the_deviation_by_hand() -> None:
    others = np.array([[1.0], [2.0], [3.0]] + [[np.nan]] * 17)
    found = deviation(np.array([5.0]), others, EVERY, draw())
    assert found.values[0] == pytest.approx(np.arcsinh((5 - 2) / np.sqrt(4 / 3)), rel=1e-6)
    assert found.seen.all()
    assert found.telling.all()


def test_each_fold_has_healthy_runs_of_its_own() -> None:
    others = np.concatenate([np.arange(10.0), 100 + np.arange(10.0)])[:, None]
    kept = np.array([[True] * 10 + [False] * 10, [False] * 10 + [True] * 10])
    found = deviation(np.array([50.0]), others, kept, draw()).values[:, 0]
    assert found[0] == pytest.approx(-found[1], rel=0.1)
    assert found[0] > 3


def test_a_value_that_is_not_finite_is_the_largest_deviation_where_healthy_runs_always_have_one() -> None:
    others = np.random.default_rng(0).standard_normal((20, 1))
    assert deviation(np.array([np.nan]), others, EVERY, draw()).values[0, 0] == LARGEST
    others[3] = np.nan  # a healthy run skipped the step as well
    found = deviation(np.array([np.nan]), others, EVERY, draw())
    assert abs(found.values[0, 0]) < 3
    assert not found.seen[0]


def test_what_is_the_same_in_every_healthy_run_tells_only_where_it_changes() -> None:
    others = np.full((20, 1), 0.01)
    as_ever = deviation(np.array([0.01]), others, EVERY, draw())
    assert not as_ever.telling[0]
    assert as_ever.values[0, 0] == pytest.approx(np.arcsinh(draw().standard_normal()), rel=1e-6)  # and not 0
    changed = deviation(np.array([0.02]), others, EVERY, draw())
    assert changed.telling[0]
    assert changed.values[0, 0] > 9


def test_no_rows_no_knowledge() -> None:
    found = deviation(np.array([1.0]), np.full((20, 1), np.nan), EVERY, draw())
    assert not found.seen[0]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e8])
def test_a_healthy_run_deviates_alike_on_every_scale(scale: float) -> None:
    random = np.random.default_rng(1)
    values = scale * (7 + random.standard_normal((20, 4000)))
    kept = np.arange(20)[None] > 0
    found = np.sinh(deviation(values[0], values, kept, draw()).values[0])
    assert found.std() == pytest.approx(np.sqrt(18 / 16), rel=0.05)  # of Student's t with 18 degrees of freedom
