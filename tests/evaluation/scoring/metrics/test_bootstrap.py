"""Resampling by scenario and by seed: exactness where it is certain, coverage where it is not."""

import math

import numpy as np
import pytest

from trainwreck.evaluation.intervals import binomial_interval
from trainwreck.evaluation.scoring.metrics.bootstrap import ANY, RATE, SHARE, Bootstrap, Ratio, strata

ALL = np.ones(40, dtype=bool)


def crossed(scenarios: int, seeds: int, **options: int) -> Bootstrap:
    """One run of each scenario on each seed."""
    return Bootstrap(np.repeat(np.arange(scenarios), seeds), np.tile(np.arange(seeds), scenarios), **options)


def test_a_resample_has_as_many_clusters_of_each_stratum() -> None:
    cluster = np.repeat(np.arange(12), 2)
    kinds = np.repeat(["a"] * 6 + ["b"] * 6, 2)
    weights = Bootstrap(cluster, content=kinds, resamples=50).parts[0].weights
    assert (weights[:, :6].sum(axis=1) == 6).all()
    assert (weights[:, 6:].sum(axis=1) == 6).all()
    assert weights.std() > 0


def test_runs_of_a_cluster_stay_together() -> None:
    boot = Bootstrap(np.array([7, 7, 3, 3, 3]), resamples=30)
    counts = boot.sums(np.eye(5))
    assert (counts[:, 0] == counts[:, 1]).all()
    assert (counts[:, 2] == counts[:, 4]).all()
    assert (counts[:, 0] != counts[:, 2]).any()
    assert (boot.draws() == counts).all()


def test_resamples_are_by_scenario_then_by_seed_then_by_both() -> None:
    boot = crossed(4, 3, resamples=20)
    by_scenario, by_seed, by_cell = boot.sums(np.eye(12)).reshape(3, 20, 4, 3)
    assert (by_scenario == by_scenario[:, :, :1]).all()
    assert (by_seed == by_seed[:, :1]).all()
    assert (by_cell != by_cell[:, :, :1]).any()
    assert (by_cell != by_cell[:, :1]).any()


def test_strata_are_the_make_up_of_a_cluster_and_small_ones_are_pooled() -> None:
    cluster = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6])
    content = np.array(["", "a"] * 5 + ["b", ""])
    assert strata(cluster, content).tolist()[:5] == [strata(cluster, content)[0]] * 5
    assert strata(cluster, content).tolist()[5:] == [-1, -1]
    content[1] = "c"  # cluster 0 is now of its own kind, and four are too few
    assert strata(cluster, content).tolist() == [-1] * 7


def test_mean_by_hand() -> None:
    boot = Bootstrap(np.arange(40))
    values, mask = np.arange(40.0), np.arange(40) < 20
    found = boot.mean(values, mask, ANY)
    assert found.value == pytest.approx(9.5, abs=1e-12)
    assert found.low < 9.5 < found.high
    # Of independent runs it is Student's interval.
    wide = 2.093024 * values[mask].std(ddof=1) / math.sqrt(20)
    assert found.high - found.low == pytest.approx(2 * wide, rel=0.1)
    assert math.isnan(boot.mean(values, np.zeros(40, bool)).value)


def test_variances_of_scenarios_and_of_seeds_add_up() -> None:
    """The variance of the mean is that of scenarios over their number, and that of seeds over theirs."""
    random = np.random.default_rng(0)
    boot = crossed(30, 20)
    values = (random.normal(size=(30, 1)) + 2.0 * random.normal(size=(1, 20))).ravel()
    table = values.reshape(30, 20)
    expected = table.mean(axis=1).var(ddof=1) / 30 + table.mean(axis=0).var(ddof=1) / 20
    found = boot.mean(values, np.ones(600, bool), ANY)
    assert (found.high - found.low) / 2 == pytest.approx(2.05 * math.sqrt(expected), rel=0.1)


def test_a_share_of_none_or_all_is_exact_for_as_many_runs_as_there_are_clusters() -> None:
    boot = crossed(8, 5)
    everyone = np.ones(40, bool)
    assert boot.mean(np.zeros(40), everyone)[1:] == pytest.approx(binomial_interval(0, 8))
    assert boot.mean(np.ones(40), everyone)[1:] == pytest.approx(binomial_interval(8, 8))
    assert np.isnan(boot.mean(np.full(40, 3.0), everyone, ANY)[1:]).all()


def test_a_share_that_no_resample_changes_rests_on_how_many_clusters_there_are() -> None:
    """Each run is stopped with chance 0.05. Of 8 clusters none differs, so a further one does with chance q at most,
    where (1 - q) ** 8 = 0.025, and may then be stopped always or never."""
    boot, stopped = crossed(8, 5), np.full(40, 0.05)
    q = 1 - 0.025 ** (1 / 8)
    assert q == pytest.approx(0.3694166, abs=1e-7)
    found = boot.mean(stopped, ALL)
    assert found == pytest.approx((0.05, 0.05 * (1 - q), 0.05 * (1 - q) + q), abs=1e-12)
    # The same where the chance comes of a threshold that is drawn, and is as high on every resample.
    tied = Ratio(np.tile([0.0, 1.0], (40, 1)), ALL, SHARE, np.array([0.95, 0.05]), np.array([[0.95, 0.05]]))
    assert boot.ratios({"": tied})[""] == pytest.approx(found, abs=1e-12)
    # With c = 0 and 1 it is the exact binomial interval, and one run that differs makes it that of the variance.
    assert boot.mean(np.ones(40), ALL)[1:] == pytest.approx((1 - q, 1.0), abs=1e-12)
    stopped[0] = 1.0
    assert boot.mean(stopped, ALL).high < 0.05 * (1 - q) + q


@pytest.mark.parametrize(("chance", "others"), [(0.05, 0.0), (0.05, 1.0), (0.3, 1.0)])
def test_such_an_interval_covers_a_population_of_which_a_few_differ(chance: float, others: float) -> None:
    """The worst case: so few differ that none of 20 does with a chance of 0.025, and the truth is at the very end."""
    random, boot, mask = np.random.default_rng(0), Bootstrap(np.arange(20), resamples=40), np.ones(20, bool)
    differs = 1 - 0.03 ** (1 / 20)
    truth, held = chance * (1 - differs) + others * differs, 0
    for _ in range(400):
        found = boot.mean(np.where(random.random(20) < differs, others, chance), mask)
        held += found.low <= truth <= found.high
    assert held / 400 >= 0.93


def test_two_estimates_without_an_interval_are_equal() -> None:
    boot = crossed(10, 4)
    once, again = (boot.mean(np.full(40, 3.0), ALL, ANY) for _ in range(2))
    assert math.isnan(once.low)
    assert once == again


def test_a_column_of_few_clusters_is_summed_as_any_other() -> None:
    boot, random = crossed(30, 4, resamples=50), np.random.default_rng(0)
    values = random.normal(size=(120, 5))
    values[4:, 1], values[:, 2], values[:100, 4] = 0.0, 0.0, 0.0
    np.testing.assert_allclose(boot.sums(values), boot.draws() @ values, rtol=1e-12, atol=1e-12)


def test_many_intervals_at_once_are_those_of_each_alone() -> None:
    boot, random = crossed(12, 5), np.random.default_rng(0)
    masks = [random.random(60) < share for share in (0.2, 0.6, 1.0)] + [np.arange(60) < 2]
    wanted = {
        (i, bounds): Ratio(random.random(60) * mask, mask, bounds)
        for i, mask in enumerate(masks)
        for bounds in (SHARE, RATE, ANY)
    }
    together = boot.ratios(wanted)
    for key, one in wanted.items():
        assert together[key] == pytest.approx(boot.ratios({key: one})[key], rel=1e-12)


def test_intervals_stay_within_bounds() -> None:
    boot = crossed(10, 4)
    values = np.zeros(40)
    values[0] = 1.0
    share, rate = boot.mean(values, ALL), boot.mean(values, ALL, RATE)
    assert 0.0 <= share.low < 1 / 40 < share.high < 1.0
    assert 0.0 < rate.low < 1 / 40 < rate.high
    # Nothing at the threshold itself, something at those of resamples.
    unsure = np.tile([[1.0, 0.0], [0.0, 1.0]], (boot.resamples * 3 // 2, 1))
    nothing = Ratio(np.stack([np.zeros(40), values], axis=1), ALL, RATE, np.array([1.0, 0.0]), unsure)
    found = boot.ratios({"": nothing})[""]
    assert found.value == found.low == 0.0 < found.high


def test_a_ratio_over_thresholds_is_its_expectation() -> None:
    boot = crossed(10, 4)
    above = np.stack([np.arange(40) < 10, np.arange(40) < 30], axis=1).astype(float)
    wanted = Ratio(above, ALL, SHARE, np.array([0.25, 0.75]), np.array([[0.25, 0.75]]))
    found = boot.ratios({"both": wanted, "first": Ratio(above[:, 0], ALL)})
    assert found["both"].value == pytest.approx(0.25 * 0.25 + 0.75 * 0.75, abs=1e-12)
    assert found["first"] == boot.mean(above[:, 0], ALL)
    expected = boot.mean(above @ [0.25, 0.75], ALL)
    assert found["both"] == pytest.approx(expected, abs=1e-9)
    undefined = boot.ratios({"": wanted._replace(chances=np.array([np.nan, np.nan]))})[""]
    assert np.isnan(undefined).all()


@pytest.mark.parametrize("each", [True, False])
def test_sums_over_levels_are_the_expectation_on_each_resample(each: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    boot, random = crossed(10, 4, resamples=50), np.random.default_rng(0)
    values = np.repeat(random.normal(size=(40, 3, 2)), 3, axis=1)  # the same at three levels running
    values[:5, 4:] = 0.0
    chances = random.dirichlet(np.ones(9), 150 if each else 1)
    by_hand = (boot.sums(values) * chances[:, :, None]).sum(axis=1)
    np.testing.assert_allclose(boot.expected(values, chances), by_hand, rtol=1e-10, atol=1e-10)
    monkeypatch.setattr("trainwreck.evaluation.scoring.metrics.bootstrap.AT_ONCE", 7)  # and in several parts
    np.testing.assert_allclose(boot.expected(values, chances), by_hand, rtol=1e-10, atol=1e-10)


def test_an_uncertain_threshold_widens_the_interval() -> None:
    boot = crossed(10, 4, resamples=400)
    above = np.stack([np.arange(40) < 10, np.arange(40) < 30], axis=1).astype(float)
    sure = np.tile([0.5, 0.5], (1200, 1))
    unsure = np.tile([[1.0, 0.0], [0.0, 1.0]], (600, 1))
    given, drawn = (
        boot.ratios({"": Ratio(above, ALL, SHARE, np.array([0.5, 0.5]), samples)})[""] for samples in (sure, unsure)
    )
    assert given.value == drawn.value
    assert drawn.low < given.low < given.high < drawn.high


def test_the_same_runs_give_the_same_resamples() -> None:
    first, second = crossed(10, 2), crossed(10, 2)
    assert (first.draws() == second.draws()).all()
    assert (first.draws() != crossed(10, 2, seed=1).draws()).any()


def test_copies_of_a_run_are_no_evidence() -> None:
    random = np.random.default_rng(3)
    values = random.random(30)
    alone = Bootstrap(np.arange(30)).mean(values, np.ones(30, bool))
    copied = Bootstrap(np.repeat(np.arange(30), 10)).mean(np.repeat(values, 10), np.ones(300, bool))
    assert (copied.low, copied.high) == (pytest.approx(alone.low), pytest.approx(alone.high))


def covered(scenarios: int, seeds: int, of_scenario: float, of_seed: float, centre: float) -> float:
    """Share of simulated data sets whose interval of 95 % holds the true recall.

    A run is found with a chance whose logit is the centre, plus what its scenario and its seed add.
    """
    random = np.random.default_rng(7)
    wide = random.normal(size=10**6) * math.hypot(of_scenario, of_seed)
    truth = float((1 / (1 + np.exp(-(centre + wide)))).mean())
    boot = crossed(scenarios, seeds)
    everyone, trials, held = np.ones(scenarios * seeds, bool), 1000, 0
    for _ in range(trials):
        added = of_scenario * random.normal(size=(scenarios, 1)) + of_seed * random.normal(size=(1, seeds))
        chance = 1 / (1 + np.exp(-(centre + added)))
        found = boot.mean((random.random((scenarios, seeds)) < chance).astype(float).ravel(), everyone)
        held += found.low <= truth <= found.high
    return held / trials


@pytest.mark.parametrize(
    ("scenarios", "seeds", "of_scenario", "of_seed", "centre"),
    [(60, 10, 2.0, 0.5, -2.0), (60, 10, 1.0, 1.0, 0.0), (60, 10, 3.0, 0.3, 1.0), (40, 12, 1.5, 0.7, 0.5)],
)
def test_intervals_cover_the_truth_with_crossed_effects(
    scenarios: int, seeds: int, of_scenario: float, of_seed: float, centre: float
) -> None:
    # The standard error of a share of 0.95 in 1,000 trials is 0.007.
    assert 0.93 <= covered(scenarios, seeds, of_scenario, of_seed, centre) <= 0.97


def test_independent_runs_are_covered_more_often() -> None:
    """Where nothing is shared the variance is counted up to twice less once: errors are on the safe side."""
    assert 0.95 <= covered(60, 10, 0.0, 0.0, 0.0) <= 0.995


def test_ignoring_what_seeds_share_would_cover_too_little() -> None:
    random = np.random.default_rng(0)
    boot, everyone, held = Bootstrap(np.repeat(np.arange(60), 10)), np.ones(600, bool), 0
    for _ in range(200):
        chance = 1 / (1 + np.exp(-np.tile(random.normal(size=10), 60)))
        found = boot.mean((random.random(600) < chance).astype(float), everyone)
        held += found.low <= 0.5 <= found.high
    assert held / 200 < 0.6


def test_counts_are_kept_by_shape_and_content() -> None:
    boot, mask = Bootstrap(np.arange(6), resamples=20), np.arange(6) < 3
    assert boot.counts(mask).tolist() == boot.sums(mask).tolist()
    assert boot.counts(mask[:, None]).shape == (20, 1)
    assert boot.counts(~mask).tolist() == boot.sums(~mask).tolist()
    assert boot.counts(mask) is boot.counts(mask.copy())
