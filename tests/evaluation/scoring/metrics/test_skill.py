"""Metric 6: the formulas by hand, the blind policies by brute force."""

import math

import numpy as np
import pytest

from trainwreck.evaluation.constants import COSTS, PREVALENCES, RESPONSE
from trainwreck.evaluation.scoring.metrics.skill import (
    POLICIES,
    Policy,
    Runs,
    gains,
    losses,
    oracle_gains,
    policy_gains,
    policy_losses,
    policy_utility,
    saved,
    skill,
    tune,
    utility,
)

RUNS = Runs(
    onset=np.array([0.0, 20.0, 55.0]),
    visible=np.array([10.0, 20.0, 60.0]),
    last=np.array([100.0, 100.0, 80.0]),
    healthy_last=np.array([100.0, 80.0]),
)


def test_saved_by_hand() -> None:
    # r = 1 % of T. Before v an alarm saves what one at v saves; before s, or never, nothing.
    s, v, last = np.full(6, 20.0), np.full(6, 40.0), np.full(6, 100.0)
    first = np.array([19.0, 20.0, 40.0, 60.0, 100.0, np.inf])
    assert saved(first, s, v, last).tolist() == pytest.approx([0.0, 59.0, 59.0, 39.0, -1.0, 0.0], abs=1e-12)


@pytest.mark.parametrize(("cost", "c"), [("inspect", 1.0), ("rollback", 5.0), ("kill", 100.0)])
def test_gain_and_loss_by_hand(cost: str, c: float) -> None:
    runs = Runs(np.full(3, 20.0), np.full(3, 40.0), np.full(3, 100.0), np.array([100.0, 100.0]))
    assert gains(np.array([19.0, 50.0, np.inf]), runs, cost).tolist() == pytest.approx([-c, 49.0, 0.0], abs=1e-12)
    assert losses(np.array([3.0, np.inf]), runs.healthy_last, cost).tolist() == pytest.approx([c, 0.0], abs=1e-12)


def test_w_star_by_hand() -> None:
    # Two failing runs, T = 100, s = 20, v = 40: one alarmed at 50, one missed. One of two healthy stopped.
    runs = Runs(np.full(2, 20.0), np.full(2, 40.0), np.full(2, 100.0), np.full(2, 100.0))
    gain = gains(np.array([50.0, np.inf]), runs, "rollback").mean()
    loss = losses(np.array([3.0, np.inf]), runs.healthy_last, "rollback").mean()
    assert (gain, loss) == (pytest.approx(24.5, abs=1e-12), pytest.approx(2.5, abs=1e-12))
    value = utility(gain, loss, 0.1)
    assert value == pytest.approx(0.1 * 24.5 - 0.9 * 2.5, abs=1e-12)
    oracle = utility(oracle_gains(runs).mean(), 0.0, 0.1)
    assert oracle == pytest.approx(5.9, abs=1e-12)
    # The best blind policy here: a clock at 20, 0.1 x 59 - 0.9 x 5 = 1.4.
    best = max(policy_utility(tune(name, runs, "rollback", 0.1), runs, "rollback", 0.1) for name in POLICIES)
    assert best == pytest.approx(1.4, abs=1e-12)
    found = skill(np.array([value]), np.array([best]), np.array([oracle]))
    assert found[0] == pytest.approx((0.2 - 1.4) / (5.9 - 1.4), abs=1e-12)


def test_undefined_where_the_oracle_is_no_better_than_blind() -> None:
    assert np.isnan(skill(np.array([1.0, 1.0]), np.array([2.0, 3.0]), np.array([2.0, 2.0]))).all()


def brute(distribution: dict[int, float], cost: str) -> tuple[np.ndarray, np.ndarray]:
    """Expected gains and losses of a policy that first alarms at step a with probability distribution[a]."""
    gain, loss = np.zeros(3), np.zeros(2)
    for step, chance in distribution.items():
        at = np.where(step > RUNS.last, np.inf, float(step))
        gain += chance * gains(at, RUNS, cost)
        loss += chance * losses(np.where(step > RUNS.healthy_last, np.inf, float(step)), RUNS.healthy_last, cost)
    return gain, loss


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize(
    ("policy", "distribution"),
    [
        (Policy("never"), {}),
        (Policy("always"), {0: 1.0}),
        *((Policy("clock", float(k)), {k: 1.0}) for k in (0, 15, 57, 80, 81, 100, 101)),
        *((Policy("periodic", float(k)), dict.fromkeys(range(k), 1 / k)) for k in (1, 7, 20, 58, 81, 90, 101, 300)),
        *((Policy("random", q), {a: q * (1 - q) ** a for a in range(101)}) for q in (1e-5, 0.003, 0.1, 0.5)),
    ],
    ids=str,
)
def test_blind_policies_by_brute_force(policy: Policy, distribution: dict[int, float], cost: str) -> None:
    gain, loss = brute(distribution, cost)
    assert policy_gains(policy, RUNS, cost) == pytest.approx(gain, abs=1e-9)
    assert policy_losses(policy, RUNS.healthy_last, cost) == pytest.approx(loss, abs=1e-9)


def drawn(seed: int) -> Runs:
    random = np.random.default_rng(seed)
    last = random.integers(60, 100, 6).astype(float)
    onset = random.integers(5, 50, 6).astype(float)
    return Runs(onset, onset + random.integers(0, 9, 6), last, random.integers(60, 100, 4).astype(float))


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("prevalence", PREVALENCES)
def test_no_clock_beats_the_tuned_one(cost: str, prevalence: float) -> None:
    for runs in (RUNS, *map(drawn, range(5))):
        best = policy_utility(tune("clock", runs, cost, prevalence), runs, cost, prevalence)
        every = [policy_utility(Policy("clock", float(k)), runs, cost, prevalence) for k in range(102)]
        assert best == pytest.approx(max(every), abs=1e-12)


@pytest.mark.parametrize("prevalence", PREVALENCES)
def test_always_is_worse_than_never_where_an_alarm_kills(prevalence: float) -> None:
    assert policy_utility(Policy("always"), RUNS, "kill", prevalence) < 0.0
    assert policy_utility(Policy("never"), RUNS, "kill", prevalence) == 0.0


def test_without_runs_a_policy_is_silent_and_has_no_utility() -> None:
    none = Runs(np.array([]), np.array([]), np.array([]), np.array([100.0]))
    assert tune("clock", none, "rollback", 0.1) == Policy("clock", 101.0)
    assert tune("random", none, "rollback", 0.1).value == pytest.approx(1e-5)
    assert math.isnan(policy_utility(Policy("never"), none, "rollback", 0.1))


def test_constants() -> None:
    assert RESPONSE < COSTS["rollback"] < COSTS["kill"] == 1.0
    assert COSTS["inspect"] < COSTS["rollback"]
