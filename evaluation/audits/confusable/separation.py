"""Whether two groups of runs can be told apart, and which groups can't.

The classifier is regularised least squares on a Gaussian kernel (Rifkin, Yeo and Poggio 2003), the two
groups weighted alike: with a dozen runs and hundreds of features it does as well as anything, and its fit is
one small linear system, so that every pair of a hundred causes can have a classifier of its own.

It is cross-validated: a fold holds two neighbouring blocks of seeds out, and compares the first group's runs of
one block with the second group's runs of the other. Runs of one seed are never compared: they share their data,
so that the smallest difference between two causes would show, as it does to nobody who has one run before
him. The gap of a fold is the mean difference of the scores. What is judged is

    t = mean of the gaps / their standard error

A share of folds won would be too coarse (of 8 folds all 8 are won by chance in one pair of forty, since the
folds share their training runs), and Student's distribution is too narrow for the same reason. So chance is
measured: `chance` gives t of pairs that are nothing but noise.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from trainwreck.evaluation.intervals import binomial_interval

RIDGE = 0.1  # of the mean diagonal of the centred kernel
DRAWS = 1000  # pairs of pure noise that chance is measured on
TIED = 1e-9  # a standard error of the gaps under this is none
SHARED = 0.5  # of the variance of noise: what runs of one seed have in common


class Told(NamedTuple):
    """How well two groups were told apart. won: share of comparisons within folds, with its interval; t: see above.

    The interval is that of a binomial share of the folds (Clopper and Pearson 1934); p-values come from t.
    """

    won: float
    low: float
    high: float
    t: float


def held_out(block: np.ndarray, fold: np.ndarray | int, folds: int) -> np.ndarray:
    """Whether a fold holds out the runs of a block: it and the next. bool, of the shape that both broadcast to"""
    return np.asarray((block == fold) | (block == (np.asarray(fold) + 1) % folds))


def told(features: np.ndarray, side: np.ndarray, block: np.ndarray) -> Told:
    """Tell two groups apart. features: [N, B, D], a run in each fold; side: [N], 1 or -1; block: [N], 0 to B - 1.

    Every block must hold runs of both groups. Without a feature nothing is told apart.
    """
    return _told([_kernel(features[:, fold]) for fold in range(features.shape[1])], side, block)


def _told(kernels: Sequence[np.ndarray], side: np.ndarray, block: np.ndarray) -> Told:
    """kernels: [N, N], one a fold."""
    folds = len(kernels)
    gaps, wins = np.zeros(folds), np.zeros(folds)
    for fold, one in enumerate(kernels):
        held = held_out(block, fold, folds)
        scores = np.zeros(len(side))
        scores[held] = _scores(one, ~held, held, side)
        gap, won = [], []
        for mine, other in ((fold, (fold + 1) % folds), ((fold + 1) % folds, fold)):
            difference = scores[(side > 0) & (block == mine)][:, None] - scores[(side < 0) & (block == other)]
            gap.append(difference.mean())
            won.append(((difference > 0) + 0.5 * (difference == 0)).mean())
        gaps[fold], wins[fold] = np.mean(gap), np.mean(won)
    share = float(wins.mean())
    return Told(share, *binomial_interval(share * folds, folds), t_statistic(gaps))


def t_statistic(gaps: np.ndarray) -> float:
    """Mean over standard error; 0 where all gaps are."""
    error = max(TIED, float(gaps.std(ddof=1)) / np.sqrt(len(gaps)))
    return float(gaps.mean()) / error if np.abs(gaps).max() > TIED else 0.0


@lru_cache(maxsize=16)
def chance(dimensions: int, folds: int, draws: int = DRAWS) -> np.ndarray:
    """t of pairs of one process, sorted: independent noise, of which runs of one seed share half. [draws]"""
    random = np.random.default_rng(0)
    side = np.repeat([1.0, -1.0], folds)
    block = np.tile(np.arange(folds), 2)
    found = np.zeros(draws)
    for i in range(draws):
        own = random.standard_normal((2 * folds, dimensions))
        shared = np.tile(random.standard_normal((folds, dimensions)), (2, 1))
        noise = np.arcsinh(np.sqrt(1 - SHARED) * own + np.sqrt(SHARED) * shared)
        found[i] = _told([_kernel(noise)] * folds, side, block).t
    return np.sort(found)


def p_values(t: np.ndarray, null: np.ndarray) -> np.ndarray:
    """One-sided: share of the null, sorted, that is at least t; never 0. [M]"""
    above = len(null) - np.searchsorted(null, np.asarray(t) - TIED, side="left")
    return np.asarray((above + 1) / (len(null) + 1))


def discoveries(p: np.ndarray, rate: float) -> np.ndarray:
    """Which null hypotheses fall while at most `rate` of the fallen are true (Benjamini and Hochberg 1995). [M] bool"""
    if not len(p):
        return np.zeros(0, dtype=bool)
    ordered = np.sort(p)
    passed = np.flatnonzero(ordered <= rate * np.arange(1, len(p) + 1) / len(p))
    return np.asarray(p <= ordered[passed[-1]]) if len(passed) else np.zeros(len(p), dtype=bool)


def joined(
    names: Sequence[str], pairs: Sequence[tuple[int, int]], apart: np.ndarray, won: np.ndarray
) -> list[list[str]]:
    """Sets of names by complete linkage: no two of a set are apart. Only sets of two and more, sorted.

    pairs: all pairs of positions; apart, won: [pairs]. Pairs that were told apart least are joined first.
    """
    if len(names) < 2:
        return []
    distance = np.zeros((len(names), len(names)))
    for (i, j), far, share in zip(pairs, apart, won, strict=True):
        distance[i, j] = distance[j, i] = 2.0 if far else share
    code = fcluster(linkage(squareform(distance), method="complete"), 1.5, criterion="distance")
    sets = [sorted(name for name, c in zip(names, code, strict=True) if c == one) for one in np.unique(code)]
    return sorted(one for one in sets if len(one) > 1)


def _kernel(features: np.ndarray) -> np.ndarray:
    """Gaussian, of the width of the median distance. [N, N]"""
    features = features.astype(np.float64)
    square = (features**2).sum(1)
    distance = np.maximum(0.0, square[:, None] + square - 2 * features @ features.T)
    width = np.median(distance[~np.eye(len(distance), dtype=bool)])
    return np.asarray(np.exp(-distance / max(width, TIED)))


def _scores(kernel: np.ndarray, train: np.ndarray, held: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Scores of the held-out runs. The groups weigh alike; the kernel is centred on the training runs."""
    target = side[train]
    weight = np.where(target > 0, 0.5 / (target > 0).sum(), 0.5 / (target < 0).sum())
    inside = kernel[np.ix_(train, train)]
    mean = inside @ weight
    centred = inside - mean[:, None] - mean + weight @ mean
    ridge = RIDGE * np.trace(centred) / len(target)
    solved = np.linalg.solve(centred + np.diag(max(ridge, TIED) / (weight * len(target))), target)
    return np.asarray((kernel[np.ix_(held, train)] - mean) @ solved)
