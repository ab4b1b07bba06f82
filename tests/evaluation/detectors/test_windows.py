"""PELT, CAPA, the matrix profile and pyod's outliers, each against its definition by brute force."""

import math
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.detectors.generic.capa import Capa, CapaGated
from trainwreck.evaluation.detectors.generic.first_rows import FIRST, Ecod, EcodGated, IForest
from trainwreck.evaluation.detectors.generic.matrix_profile import MatrixProfile
from trainwreck.evaluation.detectors.generic.pelt import Pelt, PeltGated

pytestmark = pytest.mark.monitors


def said(detector: Any, losses: Any, norms: Any = None) -> list[Any]:
    detector.reset(None)
    norms = [None] * len(losses) if norms is None else norms
    return [detector.update({"loss": float(x), "grad_norm": n}) for x, n in zip(losses, norms, strict=True)]


def alarms(detector: Any, losses: Any) -> list[int]:
    return [step for step, one in enumerate(said(detector, losses)) if one.alarm]


def noise(seed: int, rows: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(rows)


def unit(x: np.ndarray) -> float:
    return float((np.median(np.abs(np.diff(x))) * 1.4826 / math.sqrt(2.0)) ** 2 * math.log(len(x)))


def squares(x: np.ndarray) -> float:
    return float(np.sum((x - x.mean()) ** 2))


def test_pelt_finds_the_best_division_there_is() -> None:
    """Optimal partitioning by dynamic programming over all divisions into segments of 8 and more."""
    x = noise(0, 64)
    x[24:44] += 3.0
    penalty = 3.0 * unit(x)
    best, last = {0: -penalty}, {}
    for end in range(8, 65):
        options = {s: best[s] + squares(x[s:end]) + penalty for s in best if end - s >= 8}
        last[end] = min(options, key=options.__getitem__)
        best[end] = options[last[end]]
    # Only the last change is kept, as what came before it is over.
    detector = Pelt()
    found = said(detector, x[:63])
    detector.window = list(x[:63])  # whatever it cut before
    final = detector.update({"loss": float(x[63])})
    assert final.alarm is (last[64] > 0) is True
    assert detector.window == list(x[last[64] :])
    cut = max(squares(x) - squares(x[:i]) - squares(x[i:]) for i in range(8, 57))
    assert final.score == pytest.approx(cut / unit(x), rel=1e-9)
    assert not any(one.alarm for one in found[:24])


def test_pelt_is_bounded_and_blind_while_a_nan_is_in_its_window() -> None:
    detector = Pelt(longest=64)
    x = noise(1, 400)
    x[100], x[200:] = math.nan, x[200:] + 30.0
    steps = alarms(detector, x)
    assert steps
    assert all(step >= 200 for step in steps)  # row 100 has left the window by row 164
    assert len(detector.window) <= 64
    x = noise(1, 130)
    x[100], x[110:] = math.nan, x[110:] + 30.0
    assert alarms(Pelt(), x) == []
    assert 100 in alarms(PeltGated(), np.exp(0.01 * x))


def test_capa_saving_by_its_definition() -> None:
    """Mean shift against 0 of the last rows, in variances, less the penalty; and the point that is farthest out."""
    from skchange.penalties import chi2_penalty

    x = noise(4, 64)
    x[56:] += 6.0
    z = (x - np.median(x)) / math.sqrt(unit(x) / math.log(64))
    found = said(Capa(), x)
    segments = [z[s:e].sum() ** 2 / (e - s) for e in range(57, 65) for s in range(max(0, e - 32), e - 1)]
    assert found[63].alarm
    assert found[63].score == pytest.approx(max(segments) - float(chi2_penalty(64, 1)), rel=1e-6)
    assert not any(one.alarm for one in found[:56])


def test_capa_tells_an_anomaly_once_while_it_is_new() -> None:
    x = noise(3, 160)
    x[90:93] += 12.0
    assert alarms(Capa(), x) == [95]
    assert alarms(CapaGated(), np.exp(0.01 * noise(3, 60))) == []


def test_matrix_profile_is_the_least_z_normalised_distance() -> None:
    x = np.cumsum(noise(4, 100))
    windows = [(w - w.mean()) / w.std() for w in np.lib.stride_tricks.sliding_window_view(x, 16)]
    detector = MatrixProfile()
    found = said(detector, x)
    for row in (51, 75, 99):
        at = row - 15  # where the latest stretch begins
        nearest = min(np.linalg.norm(windows[at] - windows[j]) for j in range(at - 4))
        assert found[row].score == pytest.approx(nearest / math.sqrt(32), abs=1e-6)
    assert found[50].score == 0.0  # between two of every fourth row


def test_matrix_profile_is_not_blind_to_nan() -> None:
    x = np.sin(np.arange(120) / 3.0)
    assert alarms(MatrixProfile(), x) == []
    x[90] = math.nan
    steps = alarms(MatrixProfile(), x)
    assert steps[0] == 91
    assert steps[-1] == 103  # the last row of every fourth whose 16 hold it


def test_ecod_by_its_definition() -> None:
    """Tail shares by counting: of the first rows and the eight asked about together, as the library has it."""
    x, y = noise(5, 40), np.exp(noise(6, 40))
    found = said(Ecod(), x, y.tolist())
    assert [one.score for one in found[:39]] == [0.0] * 39
    table = np.column_stack([x, y])
    left = np.array([[np.mean(c <= v) for c, v in zip(table.T, row, strict=True)] for row in table])
    right = np.array([[np.mean(c >= v) for c, v in zip(table.T, row, strict=True)] for row in table])
    skew = np.sign([np.mean((c - c.mean()) ** 3) for c in table.T])
    one_sided = np.where(skew < 0, -np.log(left), np.where(skew > 0, -np.log(right), 0.0))
    score = np.maximum(np.maximum(-np.log(left), -np.log(right)), one_sided).sum(axis=1)
    assert found[39].score == pytest.approx(score[FIRST:].max(), rel=1e-9)


def test_outliers_of_the_first_rows_skip_what_is_not_finite_or_lacks_a_signal() -> None:
    x = noise(7, 60)
    whole = said(IForest(), x)
    broken = np.insert(x, [5, 40], [math.nan, math.inf])
    found = said(IForest(), broken)
    assert [one.score for one in found if one.score] == [one.score for one in whole if one.score]
    detector = Ecod()
    said(detector, x[:40], [1.0 + 0.1 * v for v in x[:40]])
    assert [detector.update({"loss": 9.0, "grad_norm": None}).score for _ in range(20)] == [0.0] * 20
    assert EcodGated().blind_spots


def test_iforest_is_that_of_scikit_learn_on_the_first_rows() -> None:
    """And is deterministic: a seed is all that it draws on."""
    from sklearn.ensemble import IsolationForest

    x = noise(8, 80)
    x[FIRST:] *= 0.2  # calm later on,
    x[70] = x[:FIRST].max()  # but for one that is at the edge
    forest = IsolationForest(n_estimators=50, contamination=0.1, random_state=0).fit(x[:FIRST, None])
    scores = -forest.decision_function(x[:, None])
    found = said(IForest(), x)
    assert [step for step, one in enumerate(found) if one.score] == [47, 63, 79]
    for last in (47, 63, 79):
        assert found[last].score == pytest.approx(scores[last - 15 : last + 1].max(), abs=1e-12)
        assert found[last].alarm is bool(found[last].score > np.quantile(scores[:FIRST], 0.9))
    assert [found[last].alarm for last in (47, 63, 79)] == [False, False, True]
    assert found == said(IForest(), x)
    assert found[79].score != said(IForest(seed=1), x)[79].score
