"""ADWIN, Page-Hinkley, KSWIN and half-space trees against their definitions, and what NaN does to them."""

import math
import random
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.detectors.generic.adwin import LADDER, Adwin, AdwinGated
from trainwreck.evaluation.detectors.generic.half_space_trees import HalfSpaceTrees
from trainwreck.evaluation.detectors.generic.kswin import Kswin, KswinGated
from trainwreck.evaluation.detectors.generic.page_hinkley import PageHinkley, PageHinkleyGated

pytestmark = pytest.mark.monitors


def said(detector: Any, losses: Any, norms: Any = None) -> list[Any]:
    detector.reset(None)
    norms = [None] * len(losses) if norms is None else norms
    return [detector.update({"loss": float(x), "grad_norm": n}) for x, n in zip(losses, norms, strict=True)]


def alarms(detector: Any, losses: Any) -> list[int]:
    return [step for step, one in enumerate(said(detector, losses)) if one.alarm]


def noise(seed: int, rows: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(rows)


def test_page_hinkley_by_its_definition() -> None:
    x = 0.1 * noise(0, 200)
    x[120:] += 3.0
    up = down = mean = 0.0
    least, largest = math.inf, -1.0  # as the library begins
    for n, (value, found) in enumerate(zip(x, said(PageHinkley(), x), strict=True), start=1):
        mean += (value - mean) / n
        up, down = 0.9999 * up + value - mean - 0.005, 0.9999 * down + value - mean + 0.005
        least, largest = min(least, up), max(largest, down)
        statistic = max(up - least, largest - down)
        if n >= 30:
            assert found.score == pytest.approx(statistic, rel=1e-9)
            assert found.alarm is bool(statistic > 50.0)
        if found.alarm:
            break
    assert 120 < n < 160


def test_kswin_by_its_definition() -> None:
    """The same draw of the earlier values, and the p-value of the exact test from SciPy."""
    from scipy.stats import ks_2samp

    x = list(noise(1, 100))
    drawn = random.Random(0).sample(range(70), 30)
    p = ks_2samp([x[i] for i in drawn], x[70:]).pvalue
    found = said(Kswin(), x)
    assert [one.score for one in found[:99]] == [0.0] * 99
    assert found[99].score == pytest.approx(-math.log10(p))
    assert found[99].alarm is bool(p <= 0.005)


def test_kswin_sees_a_shift_within_its_thirty_values() -> None:
    x = noise(2, 300)
    x[200:] += 3.0
    seen = [step for step in alarms(Kswin(), x) if step >= 200]
    assert 203 < seen[0] < 225


def test_adwin_score_is_the_strictest_cut() -> None:
    from river.drift import ADWIN

    x = 0.05 * noise(3, 256)
    x[128:] += 1.0
    found = said(Adwin(), x)
    window = ADWIN()
    flags = []
    for value in x:
        window.update(float(value))
        flags.append(window.drift_detected)
    assert [one.alarm for one in found] == flags
    assert flags.index(True) == 159  # 32 rows of the new level, at a multiple of 32
    assert found[159].score in [-math.log10(delta) for delta in LADDER]
    assert found[159].score > 5.0  # far stricter than it takes to alarm
    assert {one.score for one in found[:159]} == {0.0}
    # The published window is cut already; stricter ones wait for more of the new level.
    assert max(one.score for one in found[160:]) > found[159].score


def test_on_a_healthy_falling_loss_the_raw_ones_alarm_and_the_gated_ones_do_not() -> None:
    losses = (2.0 + 2.0 * np.exp(-np.arange(400) / 60.0)) * (1.0 + 0.01 * noise(4, 400))
    for raw, gated in ((Adwin, AdwinGated), (PageHinkley, PageHinkleyGated), (Kswin, KswinGated)):
        assert alarms(raw(), losses)
        assert len(alarms(gated(), losses)) < len(alarms(raw(), losses))
    assert alarms(AdwinGated(), losses) == []


@pytest.mark.parametrize(("raw", "gated"), [(Adwin, AdwinGated), (PageHinkley, PageHinkleyGated)])
@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_one_value_that_is_not_finite_silences_it_for_ever_but_not_behind_the_gate(
    raw: Any, gated: Any, broken: float
) -> None:
    losses = 2.0 + 0.02 * noise(5, 100)
    climbing = np.concatenate([losses, [broken], losses, 80.0 + 0.02 * noise(6, 200)])
    assert not [step for step in alarms(raw(), climbing) if step > 101]
    assert 100 in alarms(gated(), climbing)


def test_half_space_trees_find_what_is_apart_from_both_signals() -> None:
    random_ = np.random.default_rng(7)
    losses, norms = 2.0 + 0.1 * random_.standard_normal(150), 1.0 + 0.1 * random_.standard_normal(150)
    losses[:2], norms[:2] = (0.0, 4.0), (0.0, 4.0)  # the range
    losses[149], norms[149] = 3.5, 0.2
    scores = [one.score for one in said(HalfSpaceTrees(), losses, norms.tolist())]
    assert scores[:64] == [0.0] * 64
    assert scores[149] > max(scores[64:149])


def test_the_seed_alone_decides() -> None:
    losses = 2.0 + noise(8, 200)
    for one in (Kswin, HalfSpaceTrees):
        assert said(one(seed=1), losses) == said(one(seed=1), losses)
        assert [v.score for v in said(one(seed=1), losses)] != [v.score for v in said(one(seed=2), losses)]
