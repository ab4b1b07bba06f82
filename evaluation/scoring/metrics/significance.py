"""Whether two detectors differ: permutation over clusters, Holm, and ranks with ties."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from trainwreck.evaluation.constants import PERMUTATIONS

EXACT_CLUSTERS = 12  # up to so many clusters every sign pattern is counted


class Permutation:
    """Paired differences of runs under the null, with the signs of all runs of a scenario swapped together.

    scenario, seed: [N], the clusters of each run. The statistic is the sum of the differences over its standard error
    clustered by scenario and by seed (`bootstrap`), so that what all runs of a seed share counts as well; a studentised
    permutation (Janssen 1997, Chung and Romano 2013). Every sign pattern for up to 12 scenarios, else
    (hits + 1) / (resamples + 1). Seeds are few, and swapping scenarios does not show how few: the p-value is not below
    that of Student's test of the same statistic with the degrees of freedom of Satterthwaite (1946).
    """

    def __init__(self, scenario: np.ndarray, seed: np.ndarray, *, resamples: int = PERMUTATIONS, draw: int = 0) -> None:
        self.scenario, self.seed = (np.unique(key, return_inverse=True)[1] for key in (scenario, seed))
        self.rows, self.columns = self.scenario.max(initial=-1) + 1, self.seed.max(initial=-1) + 1
        self.resamples, self.draw = resamples, draw

    def p_value(self, difference: np.ndarray) -> float:
        """Two-sided p-value that the sum of the differences is 0. difference: [N], each run's part of it."""
        cells = np.zeros((self.rows, self.columns))
        np.add.at(cells, (self.scenario, self.seed), difference)
        cells = cells[cells.any(axis=1)]  # a sign changes nothing elsewhere
        cells = cells[:, cells.any(axis=0)]  # seeds that show nothing, as those of healthy runs, say nothing of seeds
        if not len(cells):
            return 1.0
        cells /= np.abs(cells).max()
        exact = len(cells) <= EXACT_CLUSTERS
        found, freedom = self._statistics(np.ones((1, len(cells))), cells)
        observed = float(found[0])
        slack = 1e-9 * max(1.0, observed)  # equal sums in another order of addition
        hits = sum(int((found >= observed - slack).sum()) for found in self._permuted(cells, exact))
        permuted = hits / 2 ** len(cells) if exact else (hits + 1) / (self.resamples + 1)
        from scipy.stats import t

        return max(permuted, float(2.0 * t.sf(observed, freedom[0])))

    def _permuted(self, cells: np.ndarray, exact: bool) -> "Sequence[np.ndarray]":
        if exact:
            every = np.array(list(product((-1.0, 1.0), repeat=len(cells))))
            return [self._statistics(every.reshape(-1, len(cells)), cells)[0]]
        random = np.random.default_rng(self.draw)
        pieces = [min(1000, self.resamples - start) for start in range(0, self.resamples, 1000)]
        return [self._statistics(random.choice([-1.0, 1.0], size=(piece, len(cells))), cells)[0] for piece in pieces]

    def _statistics(self, signs: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Studentised sum under each sign pattern, and its degrees of freedom. signs: [R, rows]. Returns [R], [R]"""
        by_seed = signs @ cells
        total = by_seed.sum(axis=1)
        rows, columns = cells.shape
        squares = (cells.sum(axis=1) ** 2).sum(), (by_seed**2).sum(axis=1), (cells**2).sum()
        scenario = np.maximum(squares[0] - total**2 / rows, 0.0) * (rows / (rows - 1) if rows > 1 else 0.0)
        seed = np.maximum(squares[1] - total**2 / columns, 0.0) * (columns / (columns - 1) if columns > 1 else 0.0)
        both = np.maximum(squares[2] - total**2 / (rows * columns), 0.0)
        variance = np.maximum(np.maximum(scenario, seed), scenario + seed - both)
        # Where every cell is the same there is no error to divide by: such a sum is larger than any other.
        variance = np.maximum(variance, 1e-12 * squares[2])
        spread = scenario**2 / max(1, rows - 1) + seed**2 / max(1, columns - 1)
        freedom = np.divide(variance**2, spread, out=np.full(len(signs), np.inf), where=spread > 0)
        return np.abs(total) / np.sqrt(variance), np.maximum(1.0, freedom)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """p-values adjusted for their number (Holm 1979), in the order given."""
    given = np.asarray(p_values, dtype=float)
    order = np.argsort(given)
    adjusted = np.empty(len(given))
    adjusted[order] = np.minimum(np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1)), 1.0)
    return adjusted


def tied_ranks(count: int, p_value: Callable[[int, int], float], significance: float) -> list[int]:
    """Ranks from 1 of `count` entries already sorted best first; entries that can't be told apart share one.

    p_value(i, j): that entries i and j differ. A group is everything, from its best entry down, that does not differ
    from that entry; the next begins at the first that does. As in a multiple range test (Newman 1939, Keuls 1952) the
    correction, Holm's, is for the entries that the comparison spans: those after the best, down to the one compared.
    So a rank is a function of the entry and of those above it, and no number of worse entries moves it.

    >>> tied_ranks(4, lambda i, j: 0.01 if j - i > 1 else 0.5, 0.05)
    [1, 1, 3, 3]
    """
    ranks: list[int] = []
    leader, p_values = 0, list[float]()
    for entry in range(count):
        if entry > leader:
            p_values.append(p_value(leader, entry))
            if holm(p_values)[-1] < significance:
                leader, p_values = entry, []
        ranks.append(leader + 1)
    return ranks
