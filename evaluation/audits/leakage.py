"""Leak audit: does anything that a detector sees before the failure predict that a run will fail?

For each channel (`channels`) a boosted classifier is cross-validated at separating the runs that must be found
(failing and compound) from those that must not be alarmed (healthy and look-alike). A fold holds whole seeds
out, so that a twin set stays together, and with it all runs that train on the same batches. Both classes
weigh alike: the majority prior, which always gives one answer, has a balanced accuracy of one half whatever
the shares. A channel leaks where the balanced accuracy is above that, by a test over the seeds (linearised,
Student's t, corrected for what the folds share; Holm over the channels of a track), at 5 %.

Left out are runs that no score compares: cured and latent ones, those whose fault is not shown, and those to
calibrate on, which are all healthy. The train split is in, because a detector can learn a leak there. A run that is
under its fault within the rows of a channel shows it by right, and is left out there; the healthy runs of its base
then weigh less, in proportion, so that what is left has the base's own shares.

What most easily leaks is the base. A base with more failing runs than others, and as many healthy ones, is
recognised by its learning rate or by the entropy of its batches, and with it the odds. The cure is in the plan: as
many healthy and look-alike runs as failing ones, for every base; `bases` says how many are lacking.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from trainwreck.evaluation.audits.leak_features import BLIND, CHANNELS, ROWS_READ, features
from trainwreck.evaluation.constants import CALIBRATION, CONFIDENCE, SIGNIFICANCE
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import FAILURES, JOINT, RunKind
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.first_rows import boosted
from trainwreck.evaluation.replay.unlabelled import refuse_imported
from trainwreck.evaluation.scoring.metrics.significance import holm
from trainwreck.evaluation.scoring.run_labels import NEGATIVES
from trainwreck.evaluation.short_forms import AsText

FOLDS = 5
# The folds train on the same runs, so their errors go together (Nadeau and Bengio 2003): tests / trains = 1 / (k - 1).
SHARED_TRAINING = sqrt(1 + FOLDS / (FOLDS - 1))
FEWEST_SEEDS = 5
FEWEST_RUNS = 8  # of each class
PRIOR = 0.5  # balanced accuracy of the majority prior
WITHIN, LEAKS, UNKNOWN = "within", "leaks", "too few"


@dataclass(frozen=True)
class Channel:
    """What was found of one channel.

    accuracy: balanced, with its interval; NaN where there are too few runs. p: one-sided, adjusted for the number
    of channels of its track. verdict: "within" the interval of the majority prior, "leaks", or "too few".
    under_fault: failing and look-alike runs left out because the rows of the channel are under their fault.
    """

    name: str
    track: str
    failing: int
    others: int
    under_fault: int
    accuracy: float
    low: float
    high: float
    p: float
    verdict: str


@dataclass(frozen=True, repr=False)
class Audit(AsText):
    """What was found of a data set. bases: a row a base, the most unbalanced first; cause: see `cause_given_base`."""

    channels: tuple[Channel, ...]
    bases: tuple[dict[str, Any], ...]
    cause: dict[str, float | int | None]
    counts: dict[str, int]

    @property
    def leaks(self) -> bool:
        """Whether anything tells on the blind track."""
        return any(one.track == BLIND and one.verdict == LEAKS for one in self.channels)

    @property
    def advice(self) -> str:
        """What the plan has to do; empty where every base has enough healthy runs."""
        lacking = [base for base in self.bases if base["lacking"]]
        if not lacking:
            return ""
        return (
            "plan: as many healthy and look-alike runs as failing ones for every base; "
            f"{sum(base['lacking'] for base in lacking)} are lacking on {len(lacking)} of {len(self.bases)} bases"
        )

    def __repr__(self) -> str:
        answer = "something tells that a run will fail" if self.leaks else "nothing tells that a run will fail"
        rows = [
            f"  {one.name} ({one.track}): {one.verdict}, balanced accuracy {one.accuracy:.2f}" for one in self.channels
        ]
        return "\n".join([f"{answer} before it does", *rows, *([self.advice] if self.advice else [])])

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        channels = [{k: None if v != v else v for k, v in vars(one).items()} for one in self.channels]
        return {
            "leaks": self.leaks,
            "prior": PRIOR,
            "channels": channels,
            "bases": list(self.bases),
            "cause_given_base": self.cause,
            "counts": self.counts,
            "advice": self.advice,
        }


def audit(dataset: DataSet, tick: Tick | None = None, *, channels: Sequence[str] = tuple(CHANNELS)) -> Audit:
    """Audit the channels of a data set, by default all of them; InputError for imported runs."""
    refuse_imported(dataset, "audited")
    runs = dataset.runs
    measured = runs[runs["split"] != CALIBRATION]
    kept = measured[measured["kind"].isin([*FAILURES, *NEGATIVES])]
    found = features(dataset, kept, channels, tick)
    judged = [_channel(name, found[name], kept) for name in channels]
    return Audit(
        channels=_adjusted(judged),
        bases=tuple(_bases(kept)),
        cause=cause_given_base(kept),
        counts={
            "runs": len(runs),
            "audited": len(kept),
            "calibration": len(runs) - len(measured),
            "cured": int((measured["kind"] == RunKind.CURED.value).sum()),
            "latent": int((measured["kind"] == RunKind.LATENT.value).sum()),
            "not_shown": int((measured["kind"] == RunKind.NOT_SHOWN.value).sum()),
        },
    )


def cause_given_base(runs: pd.DataFrame) -> dict[str, float | int | None]:
    """How far the base alone names the cause of a run that is known to fail.

    from_base: accuracy of the base's most frequent cause among the other seeds; prior: of the most frequent
    cause of all. This is no leak of the label, but a diagnosis that beats the prior by less is none.
    """
    failing = runs[runs["kind"].isin(FAILURES)]
    if failing["seed"].nunique() < 2:
        return {"causes": failing["cause"].nunique(), "from_base": None, "prior": None}
    from_base, prior = [], []
    for seed, held in failing.groupby("seed"):
        others = failing[failing["seed"] != seed]
        commonest = others["cause"].value_counts().index[0]
        by_base = others.groupby("base")["cause"].agg(lambda causes: causes.value_counts().index[0])
        from_base += (held["cause"] == held["base"].map(by_base).fillna(commonest)).tolist()
        prior += (held["cause"] == commonest).tolist()
    return {
        "causes": int(failing["cause"].nunique()),
        "from_base": float(np.mean(from_base)),
        "prior": float(np.mean(prior)),
    }


def _channel(name: str, values: pd.DataFrame, runs: pd.DataFrame) -> Channel:
    onset = pd.to_numeric(runs["onset_step"]).fillna(np.inf)
    clean = (onset >= ROWS_READ.get(name, 0)).to_numpy()
    failing = runs["kind"].isin(FAILURES).to_numpy()
    weight = np.where(failing, 1.0, _share_kept(runs, failing, clean))
    used = clean & (weight > 0)
    label, seed = failing[used], runs["seed"].to_numpy()[used]
    facts = Channel(
        name, CHANNELS[name], int(label.sum()), int((~label).sum()), int((~clean).sum()),
        np.nan, np.nan, np.nan, np.nan, UNKNOWN,
    )  # fmt: skip
    enough = min(label.sum(), (~label).sum()) >= FEWEST_RUNS
    if not enough or min(len(set(seed[label])), len(set(seed))) < FEWEST_SEEDS:
        return facts
    predicted = _predicted(values[used].to_numpy(dtype=np.float64), label, weight[used], seed)
    value, error, seeds = balanced_accuracy(predicted, label, weight[used], seed)
    error *= SHARED_TRAINING
    # With no spread at all, above is above.
    p = float(student.sf((value - PRIOR) / max(error, 1e-12), seeds - 1)) if value != PRIOR else 0.5
    reach = float(student.ppf((1 + CONFIDENCE) / 2, seeds - 1)) * error
    low, high = max(0.0, value - reach), min(1.0, value + reach)
    return replace(facts, accuracy=value, low=low, high=high, p=p, verdict=WITHIN)


def balanced_accuracy(
    predicted: np.ndarray, label: np.ndarray, weight: np.ndarray, seed: np.ndarray
) -> tuple[float, float, int]:
    """Mean of the two classes' accuracies, its standard error over seeds (linearised), and the number of seeds.

    predicted, label: [N] bool. weight: [N].
    """
    parts = np.zeros(len(label))
    value = 0.0
    for one in (True, False):
        share = weight * (label == one) / weight[label == one].sum()
        accuracy = float((share * (predicted == label)).sum())
        value += accuracy / 2
        parts += share * ((predicted == label) - accuracy) / 2
    _, code = np.unique(seed, return_inverse=True)
    sums = np.bincount(code, weights=parts)
    return value, float(np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum())), len(sums)


def _predicted(values: np.ndarray, label: np.ndarray, weight: np.ndarray, seed: np.ndarray) -> np.ndarray:
    """Predictions for each run by a classifier that was not trained on its seed. [N] bool"""
    from sklearn.model_selection import StratifiedGroupKFold

    predicted = np.zeros(len(label), dtype=bool)
    varying = values[:, ~((values == values[:1]) | (np.isnan(values) & np.isnan(values[:1]))).all(0)]
    if not varying.shape[1]:
        return predicted
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0)
    for train, held in folds.split(varying, label, seed):
        predicted[held] = boosted(varying[train], label[train], weight[train]).predict(varying[held])
    return predicted


def _share_kept(runs: pd.DataFrame, failing: np.ndarray, clean: np.ndarray) -> np.ndarray:
    """Share of the failing runs of each run's base that count; 1 for a base without any. [N]"""
    facts = pd.DataFrame({"base": runs["base"].to_numpy(), "failing": failing, "kept": failing & clean})
    sums = facts.groupby("base")[["failing", "kept"]].transform("sum")
    return np.where(sums["failing"] > 0, sums["kept"] / np.maximum(1, sums["failing"]), 1.0)


def _adjusted(judged: Sequence[Channel]) -> tuple[Channel, ...]:
    """Holm's p-values within each track, and the verdicts."""
    p: dict[str, float] = {}
    for track in dict.fromkeys(CHANNELS.values()):
        tested = [one for one in judged if one.track == track and one.verdict != UNKNOWN]
        p |= {one.name: value for one, value in zip(tested, holm([one.p for one in tested]).tolist(), strict=True)}
    return tuple(
        one
        if one.name not in p
        else replace(one, p=p[one.name], verdict=LEAKS if p[one.name] < SIGNIFICANCE else WITHIN)
        for one in judged
    )


def _bases(runs: pd.DataFrame) -> list[dict[str, Any]]:
    rows = []
    for base, its in runs.groupby("base"):
        failing = its["kind"].isin(FAILURES)
        scenarios = {part for name in its.loc[failing, "scenario"] for part in name.split(JOINT)}
        kinds = its["kind"].value_counts()
        rows.append(
            {
                "base": str(base),
                "failing": int(failing.sum()),
                "healthy": int(kinds.get(RunKind.HEALTHY.value, 0)),
                "look_alike": int(kinds.get(RunKind.LOOK_ALIKE.value, 0)),
                "lacking": max(0, int(failing.sum() - (~failing).sum())),
                "scenarios": sorted(scenarios),
            }
        )
    return sorted(rows, key=lambda row: (-row["lacking"], row["base"]))
