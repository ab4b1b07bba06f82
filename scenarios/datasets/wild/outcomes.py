"""How scenarios end: `python -m trainwreck.scenarios.datasets.wild.outcomes DIR ...` renews the file.

Every run under a single fault of a labelled data set has one of five outcomes:

    non-finite   harmed, and its last loss is not finite
    stuck        harmed, and it ends half or more of its twin's progress above the twin; progress is from ln(vocabulary)
                 on, of rewards (whose validation loss is 1 less the true reward) from 1 on
    quiet        harmed, and neither
    latent       not harmed, its signature holds
    not shown    not harmed, and no signature

From the counts comes how often each scenario is drawn, for a mix of the first three: the distribution over scenarios
that is nearest to the even one (least relative entropy) among those whose expected shares are the mix. It is the even
one times exp(lambda . shares), as of any distribution under constraints on means (Jaynes 1957). Where few setups were
tried, a scenario's shares lean on those of all: `PRIOR` runs of the average scenario are added. The mix is the default
once scenarios were tried `ENOUGH` times in the mean.
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from trainwreck.evaluation.dataset.dataset import load_labels
from trainwreck.evaluation.dataset.schema import FAILURES, JOINT, UNDER_FAULT, Outcome, RunKind
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json, sha256, write_json
from trainwreck.evaluation.intervals import binomial_interval
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.datasets.wild.draw import leaders
from trainwreck.scenarios.spec.registry import scenario

FILE = Path(__file__).with_name("outcomes.json")
HARMED = ("non-finite", "stuck", "quiet")
OUTCOMES = (*HARMED, "latent", "not shown")
MIX = (0.4, 0.3, 0.3)  # of public logs of failed runs, rounded: the share of each of `HARMED`
STUCK = 0.5  # of the twin's progress
PRIOR = 2.0  # runs
ENOUGH = 3.0  # runs of a scenario, in the mean over all: with fewer the shares are the prior's, and no mix is met
EVEN = "even"  # every scenario as often as any other
Mix = tuple[float, float, float]


def outcomes(runs: pd.DataFrame) -> pd.Series:
    """Outcome of each run under a fault of a runs table, by run_id."""
    faulty = runs[runs["kind"].isin(UNDER_FAULT)]
    twins = runs["final_loss"].reindex(faulty["twin_id"]).to_numpy(float)
    start = np.array([_at_the_start(json.loads(context)) for context in faulty["context"]])
    with np.errstate(invalid="ignore"):
        stuck = faulty["final_gap"].to_numpy(float) >= STUCK * (start - twins)
    harmed = faulty["kind"].isin(FAILURES).to_numpy()
    ended = faulty["outcome"].eq(Outcome.NON_FINITE.value).to_numpy()
    latent = faulty["kind"].eq(RunKind.LATENT.value).to_numpy()
    found = np.select([harmed & ended, harmed & stuck, harmed, latent], OUTCOMES[:4], OUTCOMES[4])
    return pd.Series(found, faulty.index, name="outcome")


def _at_the_start(context: Mapping[str, Any]) -> float:
    """Validation loss of a model that knows nothing."""
    rewarded = context.get("objective") == ObjectiveKind.POLICY.value  # data sets from before objectives lack it
    return 1.0 if rewarded else math.log(context["model"]["vocab_size"])


def table(runs: pd.DataFrame) -> pd.DataFrame:
    """Counts of the outcomes, a row a scenario; runs under two faults are left out."""
    found = outcomes(runs[~runs["scenario"].str.contains(JOINT, regex=False) | ~runs["kind"].isin(UNDER_FAULT)])
    counts = pd.crosstab(runs.loc[found.index, "scenario"], found)
    return counts.reindex(columns=list(OUTCOMES), fill_value=0)


def shares_of(mix: str | None) -> Mix | None:
    """The mix that a text states: shares of non-finite, stuck and quiet failures, or "even"; the default for None."""
    if mix is None:
        return MIX if _tried() >= ENOUGH else None
    if mix == EVEN:
        return None
    try:
        shares = tuple(float(part) for part in mix.split(","))
    except ValueError:
        shares = ()
    if len(shares) != len(HARMED) or not all(0 < share < math.inf for share in shares):
        raise InputError(
            f"mix: {mix!r} is not allowed; allowed: {EVEN}, or shares of {', '.join(HARMED)}, as 0.4,0.3,0.3"
        )
    if not _counts():
        raise InputError(f"mix: {mix!r} is not allowed, since no outcomes are measured; allowed: {EVEN}")
    return shares[0], shares[1], shares[2]


def weights(mix: Mix, ids: Sequence[str]) -> dict[str, float]:
    """How often each of these failing scenarios is drawn, so that harmed runs have this mix.

    InputError where no shares of them give it.
    """
    wanted = np.array(mix) / sum(mix)
    shares = np.array([_shares(id) for id in ids])  # [scenarios, outcomes]

    def gap(excess: np.ndarray) -> np.ndarray:
        return np.asarray(excess[:, :3] - wanted * excess[:, :3].sum(1, keepdims=True))

    moments = gap(shares)[:, :2]  # the third follows

    def potential(point: np.ndarray) -> float:
        return float(np.logaddexp.reduce(moments @ point))

    found = minimize(potential, np.zeros(2), method="BFGS")
    tilted = np.exp(moments @ found.x - potential(found.x))
    if np.abs(tilted @ moments).max() > 0.01:
        raise InputError(f"mix: {mix} is not allowed; allowed: shares that the scenarios measured can have together")
    return dict(zip(ids, tilted.tolist(), strict=True))


@cache
def _counts() -> Mapping[str, Mapping[str, int]]:
    counts: Mapping[str, Mapping[str, int]] = read_json(FILE)["counts"] if FILE.exists() else {}
    return counts


def _tried() -> float:
    """How often a failing scenario that can be drawn was tried, in the mean."""
    failing = [id for id in leaders() if not scenario(id).look_alike]
    return sum(sum(_counts().get(id, {}).values()) for id in failing) / len(failing)


def _shares(id: str) -> np.ndarray:
    """Shares of the outcomes of a scenario, with what is added of the average one."""
    rows = np.array([[row.get(name, 0) for name in OUTCOMES] for row in _counts().values()], float)
    usual = rows.sum(0) / rows.sum()
    own = np.array([_counts().get(id, {}).get(name, 0) for name in OUTCOMES], float)
    return np.asarray((own + PRIOR * usual) / (own.sum() + PRIOR))


def families(counts: pd.DataFrame) -> pd.DataFrame:
    """Counts of the outcomes, a row a family and one for `all`, the most tried first; look-alikes are left out.

    runs: under a fault. harmed, low, high: share that the fault harmed, with its exact interval of 95 %.
    """
    failing = counts[[not scenario(id).look_alike for id in counts.index]]
    found = failing.groupby([scenario(id).family.value for id in failing.index]).sum()
    found = pd.concat([found, failing.sum().to_frame("all").T]).astype(int)
    runs, harmed = found.sum(axis=1), found[list(HARMED)].sum(axis=1)
    limits = [binomial_interval(int(k), int(n)) for k, n in zip(harmed, runs, strict=True)]
    low, high = zip(*limits, strict=True)
    found = found.assign(runs=runs, harmed=harmed / runs, low=low, high=high)
    return found.sort_values("runs", ascending=False, kind="stable")[["runs", *OUTCOMES, "harmed", "low", "high"]]


def measure(folders: list[Path]) -> pd.DataFrame:
    """Count the outcomes of labelled data sets, and write the file; counts by scenario."""
    tables = [table(load_labels(folder).runs) for folder in folders]
    counts = pd.concat(tables).groupby(level=0).sum().astype(int)
    digits = families(counts).round(3)
    write_json(
        FILE,
        {
            "counts": {id: {k: int(v) for k, v in row.items()} for id, row in counts.iterrows()},
            "families": digits.to_dict("index"),
            "data_sets": {folder.name: sha256(folder / "manifest.json") for folder in folders},
        },
    )
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="labelled data sets")
    measured = measure(parser.parse_args().folders)
    print(measured.to_string(), families(measured).to_string(float_format="{:.2f}".format), sep="\n\n")
