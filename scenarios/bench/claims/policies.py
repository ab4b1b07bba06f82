"""The board of policies as it is committed: the table, who was harmed, and what the oracle did not rescue."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.files import sha256
from trainwreck.scenarios.bench.table import Limit, Table
from trainwreck.scenarios.rescue.board import ORACLE
from trainwreck.scenarios.rescue.kept import write
from trainwreck.scenarios.rescue.outcomes import Outcome
from trainwreck.scenarios.spec.registry import scenario

NAME = "rescue"
WITH_INTERVALS = ("recovered", "rescued", "harmed", "diagnosed", "spent")


def board(outcomes: Sequence[Outcome], table: pd.DataFrame, data: DataSet, profile: str, block: int) -> Table:
    """The record. table: of `board.table`. data: whose runs were played."""
    first = [one for one in outcomes if one.policy == outcomes[0].policy]
    kinds = Counter(one.kind for one in first)
    plan = data.manifest.get("plan", "")
    policies = " ".join(f"--policy {name}" for name in dict.fromkeys(one.policy for one in outcomes))
    oracle = [one for one in outcomes if one.policy == ORACLE and one.rescuable]
    missed = [one for one in oracle if not one.within]
    return Table(
        name=NAME,
        title="Rescue: policies on failing, healthy and look-alike runs",
        how=(
            f"Plan `{plan}` (manifest {sha256(data.path / 'manifest.json')[:12]}): "
            + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            + f" runs of {len({one.scenario for one in first})} scenarios, {len({one.seed for one in first})} seeds; "
            f"{sum(one.rescuable for one in first)} of them rescuable. Profile `{profile}`, blocks of {block} steps. "
            "Columns are those of [docs/rescue.md](../../docs/rescue.md#score), with 95 % intervals by scenario and "
            "seed. `outcomes.jsonl` has every episode and what was done in it. The two columns on the right are "
            "counts: of healthy runs, and of look-alikes, harmed."
            + ("" if missed or not oracle else " The oracle rescued every rescuable run.")
        ),
        command=(
            f"trainwreck generate {plan} --out runs/{plan}`, `trainwreck label runs/{plan} --split test` and "
            f"`trainwreck rescue runs/{plan} {policies} --out outcomes.jsonl --record"
        ),
        columns=("policy", *WITH_INTERVALS, "delay", "healthy harmed", "look-alikes harmed"),
        rows=tuple(_row(row, outcomes) for row in table.to_dict("records")),
        limit=Limit(
            text=(
                "These are rescuable by their point of no return, which was measured by training cured branches to the "
                "end: a branch was saved where it ended within tolerance of the twin."
            ),
            columns=("scenario", "seed", "visible", "cured at", "ended above the twin by, nats", "tolerance"),
            rows=tuple(
                (one.scenario, one.seed, one.visible, one.acted, one.recoverable - one.saved, _tolerance(one))
                for one in missed
            ),
            heading="Rescuable runs that the oracle did not rescue",
        )
        if missed
        else None,
    )


def write_board(found: Table, outcomes: Sequence[Outcome], head: dict[str, Any], results: Path) -> None:
    """Write the page, its numbers, and the outcomes beside them."""
    found.record(results)
    write(results / NAME / "outcomes.jsonl", head, outcomes)


def _row(row: dict[Any, Any], outcomes: Sequence[Outcome]) -> tuple[Any, ...]:
    mine = [one for one in outcomes if one.policy == row["policy"]]
    values = [_with_interval(row, name) for name in WITH_INTERVALS]
    counts = []
    for kind in ("healthy", "look-alike"):
        some = [one.harmed for one in mine if one.kind == kind]
        counts.append(f"{sum(some)} of {len(some)}")
    return (row["policy"], *values, "" if np.isnan(row["delay"]) else f"{row['delay']:g}", *counts)


def _with_interval(row: dict[Any, Any], name: str) -> str:
    value, low, high = (row[key] for key in (name, f"{name}_low", f"{name}_high"))
    return f"{value:.3f}" if np.isnan(low) else f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _tolerance(one: Outcome) -> float:
    return scenario(one.scenario).tolerance
