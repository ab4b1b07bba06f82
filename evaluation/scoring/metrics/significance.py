"""Whether two detectors differ: exact McNemar, paired permutation, Holm, and ranks with ties."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from trainwreck.evaluation.constants import PERMUTATIONS

EXACT_CLUSTERS = 12  # up to so many clusters every sign pattern is counted


def mcnemar(first: np.ndarray, second: np.ndarray) -> float:
    """Exact two-sided p-value that two detectors are right equally often on the same runs.

    first, second: [N] bool. McNemar 1947, exact binomial form. Runs count as independent.
    """
    from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    # Runs on which both are right or both wrong, on the diagonal, say nothing.
    return float(statsmodels_mcnemar([[0, only_first], [only_second, 0]], exact=True).pvalue)


def paired_permutation(
    difference: np.ndarray, cluster: np.ndarray, *, resamples: int = PERMUTATIONS, seed: int = 0
) -> float:
    """Two-sided p-value that the sum of paired differences is 0, swapping the pair cluster by cluster.

    difference: [N], each run's share of the difference of two means. cluster: [N]. Exact up to 12
    clusters; above, (hits + 1) / (resamples + 1).
    """
    _, code = np.unique(cluster, return_inverse=True)
    sums = np.bincount(code, weights=difference)
    sums = sums[sums != 0.0]  # a sign changes nothing there
    observed = abs(sums.sum())
    slack = 1e-12 * np.abs(sums).sum()  # equal sums in another order of addition
    if len(sums) <= EXACT_CLUSTERS:
        signs = np.array(list(product((-1.0, 1.0), repeat=len(sums)))).reshape(2 ** len(sums), len(sums))
        return float((np.abs(signs @ sums) >= observed - slack).mean())
    random = np.random.default_rng(seed)
    hits = 0
    for start in range(0, resamples, 1000):
        signs = random.choice([-1.0, 1.0], size=(min(1000, resamples - start), len(sums)))
        hits += int((np.abs(signs @ sums) >= observed - slack).sum())
    return (hits + 1) / (resamples + 1)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """p-values adjusted for their number (Holm 1979), in the order given."""
    from statsmodels.stats.multitest import multipletests

    return np.asarray(multipletests(p_values, method="holm")[1]) if len(p_values) else np.zeros(0)


def tied_ranks(count: int, differ: Callable[[int, int], bool]) -> list[int]:
    """Ranks from 1 of `count` entries already sorted best first; entries that can't be told apart share one.

    differ(i, j): whether i and j differ significantly. A group is everything, from its best entry
    down, that does not differ from that entry; the next group starts at the first that does.
    """
    ranks: list[int] = []
    leader = 0
    for i in range(count):
        if i and differ(leader, i):
            leader = i
        ranks.append(leader + 1)
    return ranks
