"""The rules on curves: failures that are known are found where they begin, and healthy logs are left alone."""

import numpy as np
import pytest

from trainwreck.evaluation.diagnosis.findings import findings
from trainwreck.evaluation.diagnosis.observed import Observed

NAN = float("nan")


def deciding(run):
    return [(one.rule, one.since) for one in findings(run) if one.decides]


def with_spike(loss, at, rows, height):
    """The loss with a spike of so many rows that comes back."""
    risen = loss.copy()
    risen[at : at + rows] += height
    return risen


HEALTHY = {
    "as it is": lambda loss: loss,
    "very noisy": lambda loss: loss + np.random.default_rng(1).standard_normal(len(loss)),
    "a spike of some rows": lambda loss: with_spike(loss, 200, 8, 4.0),
    "two spikes": lambda loss: with_spike(with_spike(loss, 150, 10, 3.0), 300, 12, 2.0),
    "a jump in the first steps": lambda loss: with_spike(loss, 2, 6, 30.0),
    "flat while it warms up": lambda loss: np.concatenate([np.full(60, loss[0]), loss[:-60]]),
    "one row is infinite high": lambda loss: with_spike(loss, 250, 1, 1e6),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("change", HEALTHY.values(), ids=HEALTHY)
def test_a_healthy_log_is_left_alone(change, seed, observed, falling):
    assert deciding(observed(change(falling(seed=seed)))) == []


@pytest.mark.parametrize("rows", [30, 120, 2000])
def test_length_does_not_matter(rows, observed, falling):
    loss = falling(rows)
    assert deciding(observed(loss)) == []
    late = loss.copy()
    late[3 * rows // 4 :] += 6.0
    ((rule, since),) = deciding(observed(late))
    assert rule == "rise_at_the_end"
    assert 0 <= since - 3 * rows // 4 <= max(3, rows // 40)


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (2048.0, 0.0), (1.4427, 0.0), (1.0, 30.0), (0.01, -3.0)])
def test_another_unit_of_the_loss_changes_nothing(scale, offset, observed, falling):
    failing = falling()
    failing[300:] += 5.0
    for loss in (
        falling(),
        failing,
        np.append(falling(), [NAN] * 5),
        np.full(100, 9.2) + 0.05 * falling(100, noise=1)[::-1],
    ):
        plain, mapped = findings(observed(loss)), findings(observed(scale * loss + offset))
        assert [(one.rule, one.since, one.decides) for one in mapped] == [
            (one.rule, one.since, one.decides) for one in plain
        ]


def test_another_interval_changes_the_steps_alone(observed, falling):
    loss = falling()
    loss[300:] += 5.0
    ((rule, since),) = deciding(observed(loss))
    assert deciding(observed(loss, 100 * np.arange(400))) == [(rule, 100 * since)]


def test_rows_that_are_dense_at_first_are_no_large_share(observed, falling):
    # 50 rows of the first 50 steps, in 15 of which the loss is up, and 50 rows of 1,000 steps each.
    steps = np.concatenate([np.arange(50), 50 + 1000 * np.arange(50)])
    loss = with_spike(np.interp(steps, np.arange(0, 50_000, 500), falling(100)), 10, 15, 6.0)
    assert deciding(observed(loss, steps)) == []


def test_no_progress(observed):
    flat = 9.26 + 0.01 * np.random.default_rng(0).standard_normal(68)
    assert deciding(observed(flat)) == [("no_progress", 0)]
    assert deciding(observed(np.full(50, 4.0))) == [("no_progress", 0)]


def test_a_slow_fall_within_the_noise_is_progress(observed):
    noise = np.random.default_rng(0).standard_normal(400)
    assert deciding(observed(10.0 - np.linspace(0.0, 2.0, 400) + noise)) == []


def test_it_stopped_early(observed):
    noise = 0.02 * np.random.default_rng(0).standard_normal(700)
    ((rule, since),) = deciding(observed(5.4 + 27.0 * np.exp(-np.arange(700) / 3.0) + noise, 100 * np.arange(700)))
    assert rule == "stopped_early"
    assert 1000 <= since <= 3000


@pytest.mark.parametrize("value", [NAN, np.inf, -np.inf])
def test_a_loss_that_is_not_finite(value, observed, falling):
    loss = falling()
    loss[250:] = value
    assert deciding(observed(loss)) == [("nonfinite", 250)]
    loss = falling()
    loss[250] = value  # and all is well again: still wrong
    assert deciding(observed(loss)) == [("nonfinite", 250)]


def test_a_log_of_nan_alone(observed):
    assert deciding(observed([NAN] * 12)) == [("nonfinite", 0)]
    assert deciding(observed([9.4, *[NAN] * 3])) == [("nonfinite", 1)]


def test_a_validation_loss_that_is_not_finite(observed, falling):
    assert deciding(observed(falling(101), validation_loss=[9.0, 5.0, 4.0, 3.5, NAN])) == [("nonfinite", 100)]


def test_zero_is_how_a_filter_prints_nan(observed, falling):
    loss = falling()
    loss[350:] = 0.0
    assert ("zero_loss", 350) in deciding(observed(loss))
    memorised = np.round(3.0 * np.exp(-np.arange(200) / 20.0), 2)  # as a logger rounds it
    assert deciding(observed(memorised[:140])) == []


def test_a_gradient_that_overflows(observed, falling):
    grad = np.ones(400)
    grad[[50, 200]] = np.inf
    run = observed(falling(), grad_norm=grad)
    assert deciding(run) == []
    assert [(one.rule, one.since) for one in findings(run)] == [("nonfinite_gradient", 50)]
    grad[300:303] = np.nan
    assert deciding(observed(falling(), grad_norm=grad)) == [("nonfinite_gradient", 300)]
    scaled = {"grad_norm": grad, "loss_scale": np.full(400, 2.0**15)}
    assert deciding(observed(falling(), **scaled)) == []  # a dynamic scale looks for its place
    grad[300:310] = np.nan
    assert deciding(observed(falling(), **scaled)) == [("nonfinite_gradient", 300)]


def test_a_blow_up_that_took_long_to_come_back(observed, falling):
    loss = with_spike(falling(), 120, 140, 20.0)
    ((rule, since),) = deciding(observed(loss))
    assert rule == "long_rise"
    assert 120 <= since <= 132


def test_a_rise_that_passed_does_not_decide(observed, falling):
    (one,) = findings(observed(with_spike(falling(), 200, 30, 5.0)))
    assert (one.rule, one.decides) == ("rise_that_passed", False)
    assert 200 <= one.since <= 212


def test_validation_alone_rises(observed, falling):
    away = [9.0, 5.0, 4.0, 3.6, 3.5, 3.9, 4.6, 5.4, 6.0]
    ((rule, since),) = deciding(observed(falling(401), validation_loss=away))
    assert (rule, since) == ("validation_rises", 250)
    (one,) = findings(observed(falling(401), validation_loss=away))
    assert one.causes[0] == "overfit_small_set"
    noisy = [9.0, 5.0, 4.0, 3.6, 3.5, 3.7, 3.5, 3.8, 3.6]
    assert deciding(observed(falling(401), validation_loss=noisy)) == []


def test_a_loss_that_is_no_longer_logged(trace, falling):
    run = trace(falling(), lr=np.full(400, 1e-3))
    run.logged["loss"] = np.arange(400) < 300
    (one,) = findings(Observed(run))
    assert (one.rule, one.since, one.decides) == ("loss_missing", 300, False)
    run.logged["loss"] = np.arange(400) % 10 == 0  # every tenth row
    assert findings(Observed(run)) == []


def test_too_few_rows_are_not_judged(observed):
    assert findings(observed([4.0, 3.0, 2.0, 8.0, 9.0])) == []
    assert findings(observed([], [])) == []
