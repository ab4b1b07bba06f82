"""The cause head: a forest on the rows of failing runs that show it.

Extremely randomised trees (Geurts, Ernst and Wehenkel 2006) name far more of a hundred causes, of which each has a
few runs, than linear discriminants do; and a logger that leaves signals out is to them one more thing to ask for.
Every cause weighs alike, and in it every run. How likely the likeliest cause must be, or the answer is `unknown`,
is what names most causes right on runs of other seeds, while a fifth of the causes is withheld from the fit.
"""

import hashlib
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.schema import JOINT, RunKind
from trainwreck.evaluation.detectors.learned.model import CauseHead
from trainwreck.evaluation.detectors.learned.trees import filled
from trainwreck.evaluation.learning.examples import ALARM, Examples
from trainwreck.evaluation.learning.fitted_trees import from_forest

THINNED = 2  # of the rows one in so many is fitted to
FOREST: dict[str, Any] = {
    "n_estimators": 24,
    "max_leaf_nodes": 800,
    "min_samples_leaf": 3,
    "max_features": 120,
    "random_state": 0,
}
WITHHELD = 5  # one cause in so many is withheld at a time
NEW = 0.2  # and a new cause counts as much as it would if so many of all were new
UNJUDGED = 0.5  # the level where no run was alarmed, so that none can be judged
GRID = np.linspace(0.05, 0.99, 48)


def fit_head(found: Examples, alarmed: np.ndarray, folds: np.ndarray) -> tuple[CauseHead, float]:
    """Fit to all rows of single causes; alarmed: [N] bool, where the detector would; folds: [R], of each run."""
    runs = found.runs
    single = ((runs["kind"] == RunKind.FAILING.value) & ~runs["cause"].str.contains(JOINT, regex=False)).to_numpy()
    rows = np.flatnonzero((found.target == ALARM) & single[found.run])
    cause = runs["cause"].to_numpy(dtype=str)
    withheld = np.array([_lot(one) % WITHHELD for one in cause])
    at_alarm = _first_alarms(found, alarmed)
    judged = at_alarm[single[found.run[at_alarm]]]
    likely, right = [], []
    for fold in range(int(folds.max()) + 1):
        kept = (folds[found.run[rows]] != fold) & (withheld[found.run[rows]] != fold)
        test = judged[folds[found.run[judged]] == fold]
        if not kept.any() or not len(test):
            continue
        head = _grown(found, rows[kept][::THINNED])
        chances = head.probabilities(found.values[test])
        truth = cause[found.run[test]]
        named = np.array(head.causes)[chances.argmax(1)]
        likely.append(chances.max(1))
        right.append(pd.DataFrame({"cause": truth, "named": named == truth, "new": ~np.isin(truth, head.causes)}))
    head = _grown(found, rows[::THINNED])
    if not right:
        return CauseHead(head.causes, head.forest, UNJUDGED), 0.0
    sure, share = _surest(np.concatenate(likely), pd.concat(right))
    return CauseHead(head.causes, head.forest, sure), share


def _surest(likely: np.ndarray, judged: pd.DataFrame) -> tuple[float, float]:
    """The level that is right for most causes: named where it is known, `unknown` where it is new."""
    known = ~judged["new"].to_numpy()
    named = judged["named"].to_numpy()

    def macro(level: float) -> float:
        sure = likely >= level
        right = pd.Series(np.where(known, named & sure, ~sure), index=judged.index)
        of_causes = right.groupby([judged["cause"], judged["new"]]).mean().groupby("new").mean()
        return float(np.average(of_causes, weights=np.where(of_causes.index, NEW, 1.0 - NEW)))

    scores = [macro(level) for level in GRID]
    best = int(np.argmax(scores))
    return float(GRID[best]), round(scores[best], 3)


def _first_alarms(found: Examples, alarmed: np.ndarray) -> np.ndarray:
    """Rows, under any profile, at which a failing run is alarmed for the first time, if that is in the failure."""
    at = np.flatnonzero(alarmed)
    group = found.run[at] * (int(found.profile.max()) + 1) + found.profile[at]
    first = at[np.unique(group, return_index=True)[1]]
    return np.asarray(first[found.target[first] == ALARM])


def _grown(found: Examples, rows: np.ndarray) -> CauseHead:
    """A head on some rows."""
    from sklearn.ensemble import ExtraTreesClassifier

    causes, code = np.unique(found.runs["cause"].to_numpy(dtype=str)[found.run[rows]], return_inverse=True)
    model = ExtraTreesClassifier(**FOREST)
    model.fit(filled(found.values[rows]), code, _weights(found.run[rows], code))
    return CauseHead(tuple(causes.tolist()), from_forest(model), 0.0)


def _weights(run: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Every cause weighs alike, and in it every run. [N]"""
    rows = np.bincount(run)
    weight = 1.0 / rows[run]
    return np.asarray(weight / np.bincount(code, weight)[code])


def _lot(cause: str) -> int:
    """A number of a cause's name alone, so that a further cause moves no other to another fold."""
    return int.from_bytes(hashlib.sha256(cause.encode()).digest()[:4], "big")
