"""Which runs a quiz asks about, and in which order.

Half of them fail, a quarter are look-alikes and the rest healthy, so that neither "never" nor "always" does well.
Drawn are measured runs alone (no calibration or training ones), of failing runs those that the profile shows while they
can still be saved.
Every draw is a SHA-256 of seed and run_id: it depends on no library's random numbers and on no order of the table.
"""

import hashlib
import json
from collections import Counter

import numpy as np
import pandas as pd

from trainwreck.evaluation.constants import TUNING_SPLITS
from trainwreck.evaluation.dataset.schema import FAILURES, JOINT, RunKind
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.pages.quiz.recipe import FEWEST, Recipe
from trainwreck.evaluation.scoring.run_labels import scored

PRIVATE = "private"
HEALTHY, LOOK_ALIKE = RunKind.HEALTHY.value, RunKind.LOOK_ALIKE.value


def draw(runs: pd.DataFrame, recipe: Recipe) -> list[str]:
    """run_ids in the order of play. runs: the runs table.

    InputError where the table has too few runs of a kind, no such family, or private runs to be dealt.
    """
    if recipe.part is not None:
        return _dealt(runs, recipe)
    pools = _pools(runs, recipe)
    wanted = _wanted(pools, recipe.runs)
    used: Counter[tuple[str, object]] = Counter()
    chosen: list[str] = []
    for kind in (LOOK_ALIKE, "failing", HEALTHY):
        left = {run["run_id"]: _marks(run) for _, run in pools[kind].iterrows()}
        for _ in range(wanted[kind]):
            best = min(left, key=lambda run_id: ([used[mark] for mark in left[run_id]], _order(recipe, run_id)))
            used.update(left.pop(best))
            chosen.append(best)
    return sorted(chosen, key=lambda run_id: _order(recipe, f"place {run_id}"))


def shares(runs: int) -> dict[str, int]:
    """How many runs of each kind a quiz asks for.

    >>> shares(12)
    {'failing': 6, 'look-alike': 3, 'healthy': 3}
    """
    failing, look_alike = (runs + 1) // 2, runs // 4
    return {"failing": failing, LOOK_ALIKE: look_alike, HEALTHY: runs - failing - look_alike}


def families_of(runs: pd.DataFrame) -> list[str]:
    """Families of the failing runs, sorted."""
    failing = runs[runs["kind"].isin(FAILURES)]
    return sorted({name for names in failing["family"].dropna() for name in names.split(JOINT)})


def _dealt(runs: pd.DataFrame, recipe: Recipe) -> list[str]:
    assert recipe.part is not None
    runs = runs[scored(runs) & (runs["kind"] != RunKind.NOT_SHOWN.value)]
    if (runs["split"] == PRIVATE).any():
        raise InputError("part: not allowed for a data set with private runs; allowed: one without them")
    if recipe.part.of > len(runs):
        raise InputError(f"part: {recipe.part} is not allowed; allowed: up to {len(runs)} parts, a run each")
    order = sorted(runs["run_id"], key=lambda run_id: _order(recipe, run_id))
    return order[recipe.part.number - 1 :: recipe.part.of]


def _pools(runs: pd.DataFrame, recipe: Recipe) -> dict[str, pd.DataFrame]:
    known = families_of(runs)
    for name in recipe.families:
        if name not in known:
            raise unknown("family", name, known)
    open_runs = runs[~runs["split"].isin([*TUNING_SPLITS, PRIVATE])]
    failing = open_runs[open_runs["kind"].isin(FAILURES)]
    cells = zip(failing["visible_profiles"], failing["no_return_step"], strict=True)
    seen = [_in_time(recipe.profile, visible, no_return) for visible, no_return in cells]
    requested = [not recipe.families or not set(recipe.families).isdisjoint(f.split(JOINT)) for f in failing["family"]]
    return {
        "failing": failing[np.array(seen, dtype=bool) & np.array(requested, dtype=bool)],
        LOOK_ALIKE: open_runs[open_runs["kind"] == LOOK_ALIKE],
        HEALTHY: open_runs[open_runs["kind"] == HEALTHY],
    }


def _in_time(profile: str, visible: str | None, no_return: float | None) -> bool:
    """Whether the profile shows the failure, and before the point of no return, where that was measured."""
    shown = json.loads(visible or "{}").get(profile)
    return shown is not None and (pd.isna(no_return) or shown < no_return)


def _wanted(pools: dict[str, pd.DataFrame], runs: int) -> dict[str, int]:
    """Shares as they can be had: healthy runs stand in for look-alikes that are missing."""
    most = 0
    for count in range(FEWEST, runs + 1):
        wanted = shares(count)
        wanted[LOOK_ALIKE] = min(wanted[LOOK_ALIKE], len(pools[LOOK_ALIKE]))
        wanted[HEALTHY] = count - wanted["failing"] - wanted[LOOK_ALIKE]
        if any(wanted[kind] > len(pools[kind]) for kind in wanted):
            break
        most = count
    if most < runs:
        counts = ", ".join(f"{len(pool)} {kind}" for kind, pool in pools.items())
        up_to = f"up to {most}" if most else "another data set, profile or family"
        raise InputError(f"runs: {runs} is not allowed; allowed: {up_to}; there are {counts} runs to ask about")
    return wanted


def _marks(run: pd.Series) -> list[tuple[str, object]]:
    """What of a run should not come twice: its scenario, its family, its twin set, whose runs begin alike."""
    return [("scenario", run["scenario"]), ("family", run["family"]), ("twin set", (run["base"], run["seed"]))]


def _order(recipe: Recipe, text: str) -> str:
    return hashlib.sha256(f"{recipe.seed} {text}".encode()).hexdigest()
