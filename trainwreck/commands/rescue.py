"""Rescue: policies on runs under way, and what they save."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainwreck.commands.choices import PATH, SPLITS, OneOf, Suggested
from trainwreck.commands.options import as_json, data_set
from trainwreck.commands.tables import number, print_json, print_table
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.progress import progress

if TYPE_CHECKING:
    from trainwreck.scenarios.rescue.outcomes import Case

PROFILES = ("common", "full")
POLICIES = (
    "oracle", "never", "random", "always_roll_back", "stop_at_alarm", "lower_rate", "skip_as_palm", "halve_as_opt",
    "treat_cause",
)  # fmt: skip


@click.command()
@data_set
@click.option(
    "--policy",
    "policies",
    type=Suggested(lambda: POLICIES),
    metavar="POLICY",
    multiple=True,
    help=f"{', '.join(POLICIES)}; all by default. May be repeated.",
)
@click.option("--split", "splits", type=OneOf(SPLITS), multiple=True, help="test by default. May be repeated.")
@click.option("--profile", type=OneOf(PROFILES), default="common", show_default=True)
@click.option("--block", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Steps between decisions.")
@click.option("--runs", type=click.IntRange(1), help="Only the first so many runs of each kind.")
@click.option("--out", type=PATH, help="File to keep the episodes in; where it is there, it is gone on with.")
@click.option("--play", "played", is_flag=True, help="Make a page to play in a browser; --out is a file or folder.")
@as_json
def rescue(
    dir: Path,
    policies: Sequence[str],
    splits: Sequence[str],
    profile: str,
    block: int,
    runs: int | None,
    out: Path | None,
    played: bool,
    as_json: bool,
) -> None:
    """Let policies act on runs under way, and score what they save.

    DIR is a labelled data set with a plan, or `sample`. Its failing, healthy and look-alike runs are trained again,
    block by block; before each a policy may act. docs/rescue.md has the actions, what they cost and the score.
    """
    if played:
        if policies:
            raise InputError("policy: not allowed with --play; allowed: one of them")
        _play(dir, splits or ("test",), profile, block, runs, out, as_json)
        return
    wanted = list(dict.fromkeys(policies)) or list(POLICIES)
    for name in wanted:
        if name not in POLICIES:
            raise unknown("policy", name, POLICIES)
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.scenarios.rescue.board import Oracle, play_all, table
    from trainwreck.scenarios.rescue.outcomes import cases
    from trainwreck.scenarios.rescue.policies import BUILT_IN

    known: dict[str, Any] = {Oracle.name: Oracle, **{policy.name: policy for policy in BUILT_IN}}
    found = cases(load(dir), splits or ("test",), profile, block)
    if runs is not None:
        found = [case for kind in dict.fromkeys(c.kind for c in found) for case in _first(found, kind, runs)]
    if not found:
        raise InputError(f"split: {', '.join(splits) or 'test'} is not allowed; allowed: one with runs to act on")
    with progress("rescue") as tick:
        outcomes = play_all(
            [known[name] for name in wanted], found, profile=profile, block=block, out=out, progress=tick
        )
    board = table(outcomes)
    if as_json:
        print_json([{k: None if v != v else v for k, v in row.items()} for row in board.to_dict("records")])
        return
    columns = ("recovered", "rescued", "harmed", "diagnosed", "spent")
    cells = [
        [row["policy"], *(_with_interval(row, name) for name in columns), number(row["delay"]).removesuffix(".000")]
        for row in board.to_dict("records")
    ]
    print_table(("policy", *columns, "delay"), cells)
    first = board.iloc[0]
    print(
        f"\n{first['episodes']} runs, {first['rescuable']} of them rescuable. recovered: net nats saved over those "
        "that could be, of rescuable runs; rescued: share of these that end as their twin; harmed: share of healthy "
        "runs and look-alikes; spent: runs, of steps trained again and prices; delay: steps, median. 95 % intervals."
    )


def _play(
    dir: Path, splits: Sequence[str], profile: str, block: int, runs: int | None, out: Path | None, as_json: bool
) -> None:
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.scenarios.rescue.game.branches import RUNS, courses, drawn
    from trainwreck.scenarios.rescue.game.page import write_page
    from trainwreck.scenarios.rescue.outcomes import cases

    page = out or Path("rescue.html")
    page = page / "rescue.html" if page.is_dir() else page
    data = load(dir)
    chosen = drawn(cases(data, splits, profile, block), block, runs or RUNS)
    with progress("rescue", quiet=as_json) as tick:
        found = courses(chosen, profile, block, tick)
    write_page(page, data, found, profile, block)
    trained = sum(len(one.branches) for one in found)
    if as_json:
        print_json({"page": str(page), "runs": len(found), "branches": trained})
        return
    print(f"page: {page} ({len(found)} runs, {trained} branches, {page.stat().st_size / 1e6:.1f} MB)")


def _first(found: "list[Case]", kind: str, runs: int) -> "list[Case]":
    return [case for case in found if case.kind == kind][:runs]


def _with_interval(row: dict[Any, Any], name: str) -> str:
    value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    return number(value) if low != low else f"{number(value)} ({number(low)} to {number(high)})"
