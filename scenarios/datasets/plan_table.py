"""What a plan would train: `python -m trainwreck.scenarios.datasets.plan_table standard` prints runs and time.

Runs by split and kind, by what is held out, by measured seed and by base; steps that a leaderboard replays; hours by
`resources.core_seconds`. Nothing is trained.
"""

import sys
from collections.abc import Sequence

import pandas as pd

from trainwreck.evaluation.constants import TUNING_SPLITS
from trainwreck.evaluation.dataset.schema import RunKind
from trainwreck.scenarios.datasets.generate import bundles
from trainwreck.scenarios.datasets.plans import resolve
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, Split

WORKERS = 2
SEARCH = 3.0  # runs that are trained for one point of no return at most: `no_return.BUDGET`
FAILING, HEALTHY = RunKind.FAILING.value, RunKind.HEALTHY.value


def frame(specs: Sequence[RunSpec]) -> pd.DataFrame:
    """A row a run: kind (failing, look-alike, cured or healthy, as planned), split, scenario, base, seed, held_out."""
    rows = [
        (_kind(s), s.split.value, "" if s.role is Role.TWIN else s.scenario, s.base, s.seed, s.held_out) for s in specs
    ]
    return pd.DataFrame(rows, columns=["kind", "split", "scenario", "base", "seed", "held_out"])


def generation_hours(specs: Sequence[RunSpec], workers: int = WORKERS) -> float:
    """What training the runs takes by the estimate of their bundles; labels and checksums are not in it."""
    return sum(bundle.cost for bundle in bundles(list(specs))) / 3600 / workers


def labelling_hours(specs: Sequence[RunSpec], workers: int = WORKERS) -> float:
    """What measuring the points of no return takes: `SEARCH` runs for each failing run that is measured."""
    failing = [s for s in specs if s.split.value not in TUNING_SPLITS and _kind(s) == FAILING]
    return SEARCH * generation_hours(failing, workers)


def text(specs: Sequence[RunSpec]) -> str:
    """The tables."""
    runs = frame(specs)
    test = runs[~runs["split"].isin(TUNING_SPLITS)]
    names = runs[runs["scenario"] != ""].groupby("base")["scenario"].agg(lambda s: " ".join(sorted(set(s))))
    by_base = pd.crosstab(runs["base"], [runs["split"], runs["kind"]])
    by_base["scenarios", ""] = names.reindex(by_base.index).fillna("").str.slice(0, 60)
    by_seed = pd.crosstab(test["seed"], test["kind"])
    by_seed["scenarios"] = test[test["kind"] == FAILING].groupby("seed")["scenario"].nunique()
    by_seed = by_seed[by_seed["scenarios"].notna()].astype(int)
    parts = [
        pd.crosstab(runs["split"], runs["kind"], margins=True, margins_name="all"),
        pd.crosstab(test["held_out"].replace("", "nothing"), test["kind"]),
        by_seed,
        by_base.loc[runs["base"].value_counts().index],
    ]
    replayed = sum(s.setup.steps for s in specs if s.split is not Split.TRAIN)
    hours = (
        f"{len(specs)} runs, {sum(s.setup.steps for s in specs):,} steps, of which a leaderboard replays {replayed:,}\n"
        f"on {WORKERS} cores about {generation_hours(specs):.2f} hours to generate, and apart from that about "
        f"{labelling_hours(specs):.2f} to label what is measured"
    )
    return "\n\n".join([*(part.to_string() for part in parts), hours])


def _kind(spec: RunSpec) -> str:
    if spec.role is Role.FAULTY:
        return RunKind.LOOK_ALIKE.value if spec.entry.look_alike else FAILING
    return RunKind.CURED.value if spec.role is Role.CURED else HEALTHY


if __name__ == "__main__":
    print(text(resolve(sys.argv[1:])[1]))
