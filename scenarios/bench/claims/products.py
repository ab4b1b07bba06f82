"""What labels of bfloat16 products agree in with those of float32: one plan, trained and labelled with each here."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.diff import NO_RETURN_WITHIN, VISIBLE_WITHIN
from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.bench.claims.machines import line_tick, made
from trainwreck.scenarios.bench.table import Table

KEPT = Path("results/runs/products")
PLAN = "sample"
FLOAT32, BFLOAT16 = "fp32", "bf16"
SETTING = f"precision.format={BFLOAT16}"
HOW = (
    "The plan {plan} with `--products fp32` and with `--products bf16`, each trained and labelled on {processor}: "
    "{runs} runs, of which {changed} have bfloat16 products in the second; the others have a format of their own in "
    "both. The same kind: as the labels call a run, whether the fault harmed it and its signature held. First visible "
    "steps are the same within {steps} steps and points of no return within {share:.0%} of the run, of the runs that "
    "have one in either. Final loss: the median and the largest difference of the last validation loss, in nats, of "
    "runs whose loss is finite in both. `bench train` has the speed."
)


def beside_float32(tick: Tick) -> Table:
    """Train and label the plan with either, and compare. What is there is not made again.

    InputError where `generate` or `label` ends with an error.
    """
    sets = {}
    for done, side in enumerate((FLOAT32, BFLOAT16)):
        sets[side] = made((PLAN, "--products", side), KEPT / side, {}, line_tick(tick, done, 2, side))
    tick(2, 2, "compared")
    return table(sets[FLOAT32], sets[BFLOAT16])


def table(before: DataSet, after: DataSet) -> Table:
    """A row for each kind that runs have with float32 products."""
    pairs = paired(before.runs, after.runs)
    kinds = [(kind, of_it) for kind, of_it in pairs.groupby("kind", sort=True)]
    environment = before.manifest["environment"]
    same = int((pairs["kind"] == pairs["kind_after"]).sum())
    return Table(
        name="products",
        title=f"With bfloat16 products {same} of {len(pairs)} runs of the plan {PLAN} have the kind that float32 gives",
        how=HOW.format(
            plan=PLAN,
            processor=environment["processor"],
            runs=len(pairs),
            changed=int(pairs["changed"].sum()),
            steps=VISIBLE_WITHIN,
            share=NO_RETURN_WITHIN,
        ),
        command="trainwreck bench products --record",
        columns=("kind in float32", "runs", "same kind", "visible step", "point of no return", "final loss apart"),
        rows=tuple(_row(str(kind), of_it) for kind, of_it in (*kinds, ("all", pairs))),
    )


def paired(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Runs tables side by side, the second's columns with `_after`; ValueError where their plans are not the same."""
    sides = [frame.assign(place=[_place(spec) for spec in frame["spec"]]) for frame in (before, after)]
    found = sides[0].merge(sides[1], on="place", suffixes=("", "_after"), validate="one_to_one")
    if not len(found) == len(before) == len(after):
        raise ValueError(f"{len(before)} and {len(after)} runs, of which {len(found)} are of one plan")
    return found.assign(changed=found["run_id"] != found["run_id_after"])


def _place(spec: str) -> str:
    content: dict[str, Any] = json.loads(spec)
    content["overrides"] = [text for text in content["overrides"] if text != SETTING]
    return json.dumps(content, sort_keys=True)


def _row(kind: str, pairs: pd.DataFrame) -> tuple[Any, ...]:
    apart = (pairs["final_loss"] - pairs["final_loss_after"]).abs()
    apart = apart[apart.notna()]
    return (
        kind,
        len(pairs),
        f"{int((pairs['kind'] == pairs['kind_after']).sum())} of {len(pairs)}",
        _within(pairs["visible_step"], pairs["visible_step_after"], [VISIBLE_WITHIN] * len(pairs)),
        _within(pairs["no_return_step"], pairs["no_return_step_after"], NO_RETURN_WITHIN * pairs["planned_steps"]),
        f"{apart.median():.2g}, {apart.max():.2g} at most" if len(apart) else "-",
    )


def _within(one: Iterable[float], other: Iterable[float], allowed: Iterable[float]) -> str:
    """Of the pairs that have a step on either side, how many have it on both and near each other."""
    either = [(a, b, c) for a, b, c in zip(one, other, allowed, strict=True) if pd.notna(a) or pd.notna(b)]
    near = sum(pd.notna(a) and pd.notna(b) and abs(a - b) <= c for a, b, c in either)
    return f"{near} of {len(either)}" if either else "-"
