"""What a guess is compared with: a run of each cause that is not asked about; and the four causes for a beginner."""

import hashlib
from collections.abc import Iterable
from typing import Any

import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import JOINT, RunKind
from trainwreck.evaluation.pages.quiz.curves import curves
from trainwreck.evaluation.pages.quiz.draw import PRIVATE
from trainwreck.evaluation.pages.quiz.quiz import Quiz, label
from trainwreck.evaluation.scoring.equivalence_sets import shipped
from trainwreck.evaluation.scoring.metrics.diagnosis import allowed

CHOICES = 4
PLAINEST = ("clear", "", "severe", "subtle")  # severities, the one to show first


def examples(dataset: DataSet, quiz: Quiz, causes: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Cause to a failing run of it: its onset, its steps, and its loss and most diagnostic signal as `curves` has them.

    A cause is left out of which the data set has no run besides those asked about.
    """
    runs = dataset.runs
    free = runs[
        (runs["kind"] == RunKind.FAILING.value) & (runs["split"] != PRIVATE) & ~runs.index.isin(quiz.runs.index)
    ]
    pages = dataset.pages
    found = {}
    for cause in causes:
        own = free[free["cause"] == cause]
        if len(own):
            row = min((row for _, row in own.iterrows()), key=_plain)
            found[cause] = _example(dataset, row, pages[cause]["telling"], quiz.recipe.profile)
    return found


def four(quiz: Quiz, dataset: DataSet, run_id: str) -> list[str]:
    """Four causes to choose from for one run, the true one among them where it fails; sorted.

    The others are of the data set, before others of the catalogue, each of another family as long as there is one, and
    none that the profile does not tell from the true cause. Drawn by SHA-256 of the quiz's seed and the run.
    """
    row = quiz.runs.loc[run_id]
    cause = label(row["cause"]) or ""
    true = cause.split(JOINT)[0]
    shown = {name for names in dataset.runs["cause"].dropna() for name in str(names).split(JOINT)}
    refused = allowed(cause, shipped(quiz.recipe.profile)) if true else set()
    order = {name: hashlib.sha256(f"{quiz.recipe.seed} {run_id} {name}".encode()).hexdigest() for name in quiz.families}
    left = sorted((name for name in quiz.families if name not in refused), key=lambda name: order[name])
    chosen = [true] if true else []
    while left and len(chosen) < CHOICES:
        families = [quiz.families[name] for name in chosen if name in quiz.families]
        best = min(left, key=lambda name: (name not in shown, families.count(quiz.families[name]), order[name]))
        left.remove(best)
        chosen.append(best)
    return sorted(chosen)


def _plain(row: pd.Series) -> tuple[int, int, str]:
    return PLAINEST.index(label(row["severity"]) or ""), int(row["seed"]), str(row["run_id"])


def _example(dataset: DataSet, row: pd.Series, telling: str, profile: str) -> dict[str, Any]:
    seen = curves(dataset.trace(row["run_id"]), profile)
    names = ("loss", telling if telling != "loss" else "grad_norm")
    return {
        "onset": label(row["onset_step"]),
        "severity": label(row["severity"]) or "",
        "steps": seen["steps"],
        "signals": {name: seen["signals"][name] for name in names if name in seen["signals"]},
    }
