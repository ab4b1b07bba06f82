"""Which failures need which setup: what is recorded of `wild` and `coverage`, counted by scenario, and what harmed
setups share.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import pearsonr, rankdata

from trainwreck.evaluation.dataset.dataset import load_labels
from trainwreck.evaluation.dataset.schema import FAILURES, UNDER_FAULT
from trainwreck.evaluation.intervals import binomial_interval, interval_text, number_text
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.scoring.metrics.significance import holm
from trainwreck.scenarios.bench.table import Limit, Table
from trainwreck.scenarios.datasets.wild import outcomes
from trainwreck.scenarios.datasets.wild.draw import leaders
from trainwreck.scenarios.datasets.wild.outcomes import HARMED, OUTCOMES
from trainwreck.scenarios.spec.registry import scenario

RECORD = Path("results/wild")
DATA, COVERAGE = "data", "coverage"  # data sets of the record; the second may be lacking
NEAREST = 5  # effects that are shown where none stands
FEWEST = 20  # setups with runs of a family, for its factors to be tested
SIGNIFICANT = 0.05
ALL = "all"

Context = Mapping[str, Any]
# Of a setup, from what a run declares: a number each, of which more is more.
FACTORS: dict[str, Callable[[Context, float], float]] = {
    "layers": lambda c, steps: c["model"]["layers"],
    "width": lambda c, steps: c["model"]["width"],
    "context": lambda c, steps: c["model"]["context"],
    "vocabulary": lambda c, steps: c["model"]["vocab_size"],
    "rows a batch": lambda c, steps: c["data"]["rows"],
    "steps": lambda c, steps: steps,
    "rate, times sqrt(width / 64)": lambda c, steps: c["optimizer"]["lr"] * math.sqrt(c["model"]["width"] / 64),
    "warm-up, share of the steps": lambda c, steps: c["schedule"]["warmup_steps"] / steps,
    "rate stays (constant or WSD)": lambda c, steps: c["schedule"]["decay"] in {"constant", "wsd"},
    "beta2": lambda c, steps: c["optimizer"]["beta2"],
    "weight decay": lambda c, steps: c["optimizer"]["weight_decay"],
    "no clipping": lambda c, steps: c["optimizer"]["clip"] is None,
    "dropout": lambda c, steps: c["dropout"],
    "RMSNorm": lambda c, steps: c["model"]["norm"] == "rms",
    "norms on queries and keys": lambda c, steps: c["model"]["qk_norm"],
    "SwiGLU": lambda c, steps: c["model"]["activation"] == "swiglu",
    "real text": lambda c, steps: c["data"]["source"] == "text",
    "not AdamW": lambda c, steps: c["optimizer"]["kind"] != "adamw",
}
HOW = (
    "Runs under a fault of {sets}. Setups are drawn and tuned to no fault: {scenarios} scenarios on {setups} "
    "setups, trained on {processors}. Harmed: the run ends worse than "
    "its twin by more than healthy runs of the setup differ, or is not finite. Latent: not harmed, though the "
    "signature holds. Of the harmed runs, {ends}. Intervals of shares are exact ones of 95 %. First all faults, then "
    "families, then scenarios, of each those that harm most often first. {without}"
)
TESTED = (
    "{stand} of {tests} effects stand at 5 % after Holm's correction over all of them; {shown}. Less and more: the "
    "setups up to the median and those over it, or without and with. Tested is the correlation, over setups, of the "
    "rank of the factor with by how much more of a setup's runs were harmed than their scenarios are in the mean: so "
    "runs of one setup count as one observation, and which scenarios a setup happens to have is no effect. Families "
    "with runs on fewer than {fewest} setups are not tested."
)


@dataclass(frozen=True)
class Effect:
    """A factor of setups and how often faults of a family are harmful with less of it and with more.

    less, more: shares of harmed runs on the setups with up to the median, and over it.
    """

    family: str
    factor: str
    less: float
    more: float
    setups: int
    p: float


def which_setups(tick: Tick) -> Table:
    """Count the data sets of the record; InputError where there is none."""
    sets = {DATA: load_labels(RECORD / DATA)}
    if (RECORD / COVERAGE).exists():
        sets[COVERAGE] = load_labels(RECORD / COVERAGE)
    tick(0, 1, "counting")
    runs = pd.concat([one.runs for one in sets.values()])
    found = table(
        runs[~runs.index.duplicated()],  # a setup that both have has its calibration runs in both
        [(RECORD / name).as_posix() for name in sets],
        sorted({str(one.manifest["environment"]["processor"]) for one in sets.values()}),
    )
    tick(1, 1, "done")
    return found


def table(runs: pd.DataFrame, sets: Sequence[str], processors: Sequence[str]) -> Table:
    """A row for all faults, for each family and for each scenario, and the factors of the setups beside them.

    sets, processors: where the runs are, and what trained them.
    """
    faulty = tried(runs)
    counts = outcomes.table(runs)
    counts = counts[[not scenario(id).look_alike for id in counts.index]]
    families = outcomes.families(counts)
    parts = families.loc[[ALL]], families.drop(ALL), counts.assign(runs=counts.sum(axis=1))
    harmed = counts[list(HARMED)].sum()
    ends = ", ".join(f"{name} {_share(int(harmed[name]), int(harmed.sum()))}" for name in HARMED)
    without = [f"`{id}`" for id in sorted(leaders()) if not scenario(id).look_alike and id not in counts.index]
    return Table(
        name="wild/scenarios",
        title=f"Which failures need which setup: {int(harmed.sum())} of {len(faulty)} runs under a fault are harmed",
        how=HOW.format(
            sets=" and ".join(f"`{name}`" for name in sets),
            scenarios=faulty["scenario"].nunique(),
            setups=faulty["base"].nunique(),
            processors=" and ".join(processors),
            ends=ends,
            without=f"{len(without)} more failing scenarios have no run: {', '.join(without)}." if without else "",
        ).strip(),
        command="trainwreck bench wild --record",
        columns=("faults", "runs", *OUTCOMES, "harmed"),
        rows=tuple(row for part in parts for row in _rows(part)),
        limit=_factors(effects(faulty)),
    )


def tried(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs under a fault, look-alikes left out: scenario, family, base, whether it was harmful, and each factor."""
    faulty = runs[runs["kind"].isin(UNDER_FAULT)]
    faulty = faulty[[not scenario(id).look_alike for id in faulty["scenario"]]]
    contexts = [json.loads(text) for text in faulty["context"]]
    steps = faulty["planned_steps"].to_numpy(float)
    return pd.DataFrame(
        {
            "scenario": faulty["scenario"],
            "family": [scenario(id).family.value for id in faulty["scenario"]],
            "base": faulty["base"],
            "harmed": faulty["kind"].isin(FAILURES).to_numpy(float),
            **{name: [float(of(c, s)) for c, s in zip(contexts, steps, strict=True)] for name, of in FACTORS.items()},
        }
    )


def effects(faulty: pd.DataFrame) -> list[Effect]:
    """Every factor that differs between setups, for all faults together and for each family with enough setups."""
    residual = faulty["harmed"] - faulty.groupby("scenario")["harmed"].transform("mean")
    faulty = faulty.assign(residual=residual)
    parts = [(ALL, faulty), *faulty.groupby("family", sort=True)]
    return [
        effect
        for family, part in parts
        if part["base"].nunique() >= FEWEST
        for factor in FACTORS
        if (effect := _effect(str(family), factor, part)) is not None
    ]


def _effect(family: str, factor: str, part: pd.DataFrame) -> Effect | None:
    """None where all setups, or all runs, are alike."""
    by_setup = part.groupby("base").agg(x=(factor, "first"), s=("residual", "sum"))
    if by_setup["x"].nunique() < 2 or not by_setup["s"].abs().max() > 1e-12:
        return None
    tested = pearsonr(rankdata(by_setup["x"]), by_setup["s"])
    middle = float(by_setup["x"].median())
    over = part[factor] > middle if (by_setup["x"] > middle).any() else part[factor] >= middle
    return Effect(
        family,
        factor,
        float(part["harmed"][~over].mean()),
        float(part["harmed"][over].mean()),
        len(by_setup),
        float(tested.pvalue),
    )


def _factors(found: Sequence[Effect]) -> Limit:
    """The effects that stand after Holm's correction, or those that are nearest to it."""
    corrected = holm([effect.p for effect in found])
    order = np.argsort([effect.p for effect in found], kind="stable")
    stand = [i for i in order if corrected[i] < SIGNIFICANT]
    return Limit(
        text=TESTED.format(
            stand=len(stand),
            tests=len(found),
            shown="they are shown" if stand else "the nearest are shown",
            fewest=FEWEST,
        ),
        columns=(
            "faults",
            "what setups have more or less of",
            "harmed with less",
            "harmed with more",
            "setups",
            "p",
            "Holm",
        ),
        rows=tuple(_row(found[i], corrected[i]) for i in (stand or order[:NEAREST])),
        heading="What it takes of a setup",
    )


def _row(effect: Effect, corrected: float) -> tuple[Any, ...]:
    return (
        effect.family,
        effect.factor,
        number_text(effect.less, ".0%"),
        number_text(effect.more, ".0%"),
        effect.setups,
        f"{effect.p:.2g}",
        f"{corrected:.2g}",
    )


def _rows(counts: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Outcomes and the share of harmed runs, those that are harmful most often first."""
    found = []
    for name, row in counts.iterrows():
        harmed, runs = int(row[list(HARMED)].sum()), int(row["runs"])
        found.append((harmed / runs, (name, runs, *(int(row[what]) for what in OUTCOMES), _share(harmed, runs))))
    return [row for _, row in sorted(found, key=lambda one: -one[0])]


def _share(count: int, of: int) -> str:
    return interval_text(count / of, *binomial_interval(count, of), ".0%") if of else "-"
