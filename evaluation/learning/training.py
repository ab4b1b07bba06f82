"""`trainwreck learn`: from the train split of a data set to a detector.

Trees (scikit-learn's histogram gradient boosting) tell the rows of failing runs, once the failure is visible, from
all rows that should be quiet; a forest on the former tells the causes apart (`causes.py`). Nothing but the train split
is ever read.

What a detector is judged by is the worst row of a healthy run, where one run in a hundred may be stopped. So every
run weighs alike, whatever its length; rows that should be quiet and alarmed all the same, when their run was held
out, weigh more in a second fit; and the threshold is the peak that only 1 % of quiet runs exceed, held out as well.
Folds are of seeds: a twin set stays together; only the features are chosen once, on all of them.

A failing run is under its fault mostly in its later part, where otherwise the clock would do for evidence: at every
time of a run both sides are given the same weight.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import FAILURES, UNHARMED, RunKind
from trainwreck.evaluation.detectors.learned.features import NAMES
from trainwreck.evaluation.detectors.learned.model import Model
from trainwreck.evaluation.detectors.learned.trees import Trees
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import sha256
from trainwreck.evaluation.learning.causes import fit_head
from trainwreck.evaluation.learning.examples import ALARM, LEFT_OUT, QUIET, Examples, examples
from trainwreck.evaluation.learning.fitted_trees import from_boosting, gains
from trainwreck.evaluation.learning.judging import freeze_threshold, quiet_peaks, recalls, smoothed
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.unlabelled import refuse_imported
from trainwreck.evaluation.scoring.run_labels import NEGATIVES

TRAIN = "train"
FOLDS = 3
CHOSEN = 120  # features that the trees may use
SCREENED = 20_000  # rows that they are chosen on
SCREENING = 40  # by so many trees
FITTED = 60_000  # rows that the trees are fitted to, drawn by their weights: neighbours are all but the same
BUDGET = 0.01  # share of quiet runs that the default threshold may stop
HARDER = 8.0  # weight of the rows that alarm most
CURED_WEIGHT = 0.3  # of a cured run, beside 1: no score counts it as healthy
TIMES = 12  # parts of a run's time, each as long again as all before it, within which both sides weigh alike
MOST_SHIFT = 4.0  # and by at most so much a row's weight is changed for it
SEED = 0
BOOSTING: dict[str, Any] = {
    "max_iter": 80,
    "learning_rate": 0.12,
    "max_leaf_nodes": 16,
    "max_depth": 6,
    "min_samples_leaf": 40,
    "l2_regularization": 5.0,
    "max_features": 0.3,
    "early_stopping": False,
    "random_state": SEED,
}


def learn(dataset: DataSet, tick: Tick | None = None) -> Model:
    """Train on the train split. InputError for a data set without one, or with too few runs or seeds in it.

    The same data set gives the same model on one machine. tick: called for runs replayed, then for fits.
    """
    refuse_imported(dataset, "learned from")
    runs = train_runs(dataset)
    replayed = len(runs)
    fits = 2 * FOLDS + 3

    def told(done: int, total: int, note: str) -> None:
        if tick is not None:
            tick(done, replayed + fits * max(1, replayed // fits), note)

    found = examples(dataset, runs, lambda done, total, note: told(done, total, f"replay {note}"))
    step = max(1, replayed // fits)

    def fitted(number: int, note: str) -> None:
        told(replayed + number * step, 0, note)

    return fit(found, about(dataset, runs), fitted)


def train_runs(dataset: DataSet) -> pd.DataFrame:
    """The runs of the train split that anything can be learned from, by name. InputError where they do not do."""
    split = dataset.runs[dataset.runs["split"] == TRAIN]
    if split.empty:
        here = ", ".join(sorted(set(dataset.runs["split"]))) or "none"
        raise InputError(f"{dataset.path}: no split {TRAIN!r}, here are: {here}; allowed: a data set with one")
    runs = split[~split["kind"].isin(UNHARMED)].sort_index()
    for what, kinds in (("failing", FAILURES), ("healthy or look-alike", NEGATIVES)):
        seeds = runs[runs["kind"].isin(kinds)]["seed"].nunique()
        if seeds < FOLDS:
            raise InputError(
                f"{dataset.path}: {what} runs of {seeds} seeds in the split {TRAIN!r} are too few; allowed: "
                f"{FOLDS} seeds or more"
            )
    if runs[runs["kind"].isin(FAILURES)]["cause"].nunique() < 2:
        raise InputError(f"{dataset.path}: failing runs of one cause are too few; allowed: 2 causes or more")
    return runs


def about(dataset: DataSet, runs: pd.DataFrame) -> dict[str, Any]:
    """What the weights file says of where it comes from."""
    import sklearn

    return {
        "data_set": sha256(dataset.path / "manifest.json"),
        "plan": dataset.manifest.get("plan", ""),
        "runs": {str(kind): int(count) for kind, count in runs["kind"].value_counts().sort_index().items()},
        "seeds": sorted({int(seed) for seed in runs["seed"]}),
        "command": "trainwreck learn DIR",
        "packages": {"numpy": np.__version__, "scikit-learn": sklearn.__version__},
    }


def fit(found: Examples, facts: dict[str, Any], told: Callable[[int, str], None] = lambda number, note: None) -> Model:
    """The model of examples. told: called with the number of the fit that begins, and what it is."""
    told(0, "choosing features")
    weight = weights(found)
    chosen = _chosen(found, weight)
    values = found.values[:, chosen].astype(np.float64)
    fold = folds(found.runs)[found.run]
    scores = np.zeros(len(found))
    for turn in range(2):
        for held in range(FOLDS):
            told(1 + turn * FOLDS + held, f"held out {held + 1} of {FOLDS}, turn {turn + 1} of 2")
            here = fold == held
            trees = boosted(values[~here], found.target[~here], weight[~here])
            scores[here] = trees.many(values[here])
        smooth = smoothed(found, scores)
        if turn == 0:
            weight = harder(found, weight, smooth)
    told(1 + 2 * FOLDS, "the trees")
    trees = boosted(values, found.target, weight).renumbered(chosen)
    told(2 + 2 * FOLDS, "the causes")
    threshold = default_threshold(found, smooth)
    head, right = fit_head(found, smooth > threshold, folds(found.runs))
    told(3 + 2 * FOLDS, "done")
    return Model(trees, head, threshold, facts | {"held_out": {"recall": recalls(found, smooth), "cause": right}})


def folds(runs: pd.DataFrame) -> np.ndarray:
    """Which fold each run is held out in: all runs of a seed together. [R]"""
    seeds = np.unique(runs["seed"])
    return np.asarray(np.searchsorted(seeds, runs["seed"]) % FOLDS)


def weights(found: Examples) -> np.ndarray:
    """Of each row: the same for every run, profile and side, and on both sides the same at every time. [N]"""
    sides = found.target != LEFT_OUT
    group = (found.run * len(found.profiles) + found.profile) * 2 + (found.target == ALARM)
    size = np.bincount(group[sides], minlength=int(group.max()) + 1)
    weight = np.where(sides, 1.0 / np.maximum(1, size[group]), 0.0)
    cured = (found.runs["kind"] == RunKind.CURED.value).to_numpy()[found.run]
    weight[cured] *= CURED_WEIGHT
    times = np.minimum(TIMES - 1, np.log2(1 + found.step / 2).astype(int))
    for profile in range(len(found.profiles)):
        here = found.profile == profile
        totals = [weight[here & (found.target == side)].sum() for side in (QUIET, ALARM)]
        for time in range(TIMES):
            rows = here & (times == time)
            quiet, alarm = (rows & (found.target == side) for side in (QUIET, ALARM))
            if quiet.any() and alarm.any():
                ratio = weight[quiet].sum() / totals[0] / (weight[alarm].sum() / totals[1])
                weight[alarm] *= np.clip(ratio, 1 / MOST_SHIFT, MOST_SHIFT)
        for side in (QUIET, ALARM):
            rows = here & (found.target == side)
            weight[rows] /= max(weight[rows].sum(), 1e-12)
    return np.asarray(weight * len(found) / weight.sum())


def harder(found: Examples, weight: np.ndarray, smooth: np.ndarray) -> np.ndarray:
    """More weight for quiet rows with a high score, beside the quiet rows of their profile. [N]"""
    raised = weight.copy()
    for profile in range(len(found.profiles)):
        rows = (found.profile == profile) & (found.target == QUIET)
        peaks = quiet_peaks(found, smooth, profile)
        usual, top = np.quantile(peaks, [0.5, 0.98]) if len(peaks) else (0.0, 0.0)
        share = np.clip((smooth[rows] - usual) / max(top - usual, 1e-9), 0.0, 1.0)
        raised[rows] *= 1.0 + HARDER * share
    return raised


def default_threshold(found: Examples, smooth: np.ndarray) -> float:
    """The highest over the profiles of what only `BUDGET` of quiet runs exceed."""
    return max(freeze_threshold(quiet_peaks(found, smooth, profile), BUDGET) for profile in range(len(found.profiles)))


def _chosen(found: Examples, weight: np.ndarray) -> np.ndarray:
    """The features that trees gain most by, sorted. [CHOSEN]"""
    rows = _drawn(weight, SCREENED)
    model = _classifier(found.values[rows].astype(np.float64), found.target[rows], max_iter=SCREENING)
    worth = gains(model, len(NAMES))
    return np.sort(np.argsort(-worth, kind="stable")[:CHOSEN])


def boosted(values: np.ndarray, target: np.ndarray, weight: np.ndarray, seed: int = SEED, **changed: Any) -> Trees:
    """Trees on rows drawn by their weights. seed: of what is drawn; changed: of `BOOSTING`."""
    rows = _drawn(weight, FITTED, seed)
    return from_boosting(_classifier(values[rows], target[rows], **changed, random_state=seed))


def _drawn(weight: np.ndarray, count: int, seed: int = SEED) -> np.ndarray:
    """So many rows, drawn by their weights, each a whole number of times or once more: systematic sampling."""
    ends = np.cumsum(weight) / weight.sum() * count
    offset = np.random.default_rng(seed).random()
    return np.asarray(np.searchsorted(ends, np.arange(count) + offset, side="right").clip(0, len(weight) - 1))


def _classifier(values: np.ndarray, target: np.ndarray, **changed: Any) -> Any:
    """Fitted. values: [N, F], changed where a feature is missing in every row, which scikit-learn can't take."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    values[:, np.isnan(values).all(0)] = 0.0
    return HistGradientBoostingClassifier(**{**BOOSTING, **changed}).fit(values, target)
