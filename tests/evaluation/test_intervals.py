"""Exact intervals against statsmodels, and how a number with its interval is written."""

import doctest

import pytest
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.rates import confint_poisson

from trainwreck.evaluation import intervals
from trainwreck.evaluation.intervals import binomial_interval, number_text, poisson_interval, row_interval_text


def test_examples_in_docstrings_run() -> None:
    assert doctest.testmod(intervals).attempted
    assert not doctest.testmod(intervals).failed


@pytest.mark.parametrize("count", [0, 1, 7, 300])
def test_poisson_interval_is_garwoods(count: int) -> None:
    assert poisson_interval(count) == pytest.approx(confint_poisson(count, 1, method="exact-c"), rel=1e-9)


@pytest.mark.parametrize(("count", "exposure"), [(0, 10), (10, 10), (3, 300), (1, 1)])
def test_binomial_interval_is_clopper_and_pearsons(count: int, exposure: int) -> None:
    assert binomial_interval(count, exposure) == pytest.approx(
        proportion_confint(count, exposure, method="beta"), abs=1e-12
    )


def test_a_one_per_cent_budget_needs_three_hundred_runs() -> None:
    # The rule of three is one-sided: no stop in 300 runs bounds the rate at 1 % with 95 % confidence.
    assert binomial_interval(0, 300, confidence=0.90)[1] == pytest.approx(0.01, abs=1e-4)


def test_a_tie_is_half_a_win() -> None:
    low, high = binomial_interval(2.5, 4)
    assert binomial_interval(2, 4)[0] < low < 2.5 / 4 < high < binomial_interval(3, 4)[1]


@pytest.mark.parametrize(("value", "shown"), [(None, "-"), (float("nan"), "-"), (0.126, "0.13"), (-1.0, "-1.00")])
def test_a_number_or_a_dash(value: float | None, shown: str) -> None:
    assert number_text(value) == shown


@pytest.mark.parametrize(
    ("estimate", "shown"),
    [
        ((0.5, 0.25, 0.75), "0.50 [0.25, 0.75]"),
        ((0.5, None, None), "0.50 [-, -]"),
        ((None, None, None), "-"),
    ],
)
def test_a_row_has_its_interval_beside_the_number(
    estimate: tuple[float | None, float | None, float | None], shown: str
) -> None:
    assert row_interval_text(dict(zip(("lead", "lead_low", "lead_high"), estimate, strict=True)), "lead") == shown
