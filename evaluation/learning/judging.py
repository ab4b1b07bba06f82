"""How the trees do on rows of runs that were held out: what the default threshold and the record go by."""

from math import floor

import numpy as np

from trainwreck.evaluation.constants import BUDGETS
from trainwreck.evaluation.dataset.schema import FAILURES
from trainwreck.evaluation.detectors.learned.smoothing import Smoothed, SmoothedRows
from trainwreck.evaluation.learning.examples import Examples
from trainwreck.evaluation.scoring.metrics.recall import in_time
from trainwreck.evaluation.scoring.run_labels import NEGATIVES


def smoothed(found: Examples, scores: np.ndarray, by: type[Smoothed | SmoothedRows] = Smoothed) -> np.ndarray:
    """Scores averaged as the detector does, over the rows that were kept. [N]"""
    result = np.zeros(len(scores))
    last, state = -1, by()
    keys = (found.run * len(found.profiles) + found.profile).tolist()
    for i, (key, score, step) in enumerate(zip(keys, scores.tolist(), found.step.tolist(), strict=True)):
        if key != last:
            last, state = key, by()
        result[i] = state.push(score, step)
    return result


def quiet_peaks(found: Examples, scores: np.ndarray, profile: int) -> np.ndarray:
    """The largest score of each healthy and look-alike run under a profile, by its position."""
    negative = found.runs["kind"].isin(NEGATIVES).to_numpy()
    rows = (found.profile == profile) & negative[found.run]
    peaks = np.full(len(found.runs), -np.inf)
    np.maximum.at(peaks, found.run[rows], scores[rows])
    return np.asarray(peaks[negative & np.isfinite(peaks)])


def freeze_threshold(peaks: np.ndarray, budget: float) -> float:
    """The lowest single threshold that stops at most `budget` of the runs: the default threshold of a detector.

    peaks: [H], the largest score of each quiet run; a run is stopped where its score exceeds the threshold. NaN
    without runs. Scores use randomised thresholds instead (`metrics.thresholds`).
    """
    if not len(peaks):
        return float("nan")
    allowed = floor(budget * len(peaks) + 1e-9)
    return float(np.sort(peaks)[::-1][allowed]) if allowed < len(peaks) else -np.inf


def first_above(found: Examples, scores: np.ndarray, threshold: float, profile: int) -> np.ndarray:
    """The first row, by position, at which each run exceeds a threshold under a profile; -1 where none does. [R]"""
    rows = np.flatnonzero((found.profile == profile) & (scores > threshold))
    first = np.full(len(found.runs), -1)
    runs, at = np.unique(found.run[rows], return_index=True)
    first[runs] = rows[at]
    return first


def recalls(found: Examples, scores: np.ndarray) -> dict[str, dict[str, float]]:
    """In-time recall at each budget of quiet runs stopped, by profile: an estimate, on the rows that were kept."""
    runs = found.runs
    failing = (runs["kind"].isin(FAILURES) & runs["visible_step"].notna()).to_numpy()
    onset = runs["onset_step"].to_numpy(dtype=np.float64, na_value=np.nan)[failing]
    lost = runs["no_return_step"].fillna(runs["last_step"]).to_numpy(dtype=np.float64)[failing]
    table: dict[str, dict[str, float]] = {}
    for profile, name in enumerate(found.profiles):
        peaks = quiet_peaks(found, scores, profile)
        table[name] = {}
        for budget in BUDGETS:
            at = first_above(found, scores, freeze_threshold(peaks, budget), profile)[failing]
            step = np.where(at < 0, np.inf, found.step[at])
            table[name][f"recall_{budget}"] = round(float(in_time(step, onset, lost).mean()), 3)
    return table
