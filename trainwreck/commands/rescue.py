"""Rescue: policies on runs under way, and what they save."""

import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainwreck.commands.choices import PATH, SPLITS, OneOf, Suggested
from trainwreck.commands.options import as_json, check_weights, data_set, limits_options
from trainwreck.commands.tables import number, print_json, print_table
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import progress
from trainwreck.evaluation.replay.sandbox.limits import Limits

if TYPE_CHECKING:
    from pandas import DataFrame

    from trainwreck.scenarios.rescue.outcomes import Case, Outcome

PROFILES = ("common", "full")
POLICIES = (
    "oracle", "never", "random", "always_roll_back", "stop_at_alarm", "lower_rate", "skip_as_palm", "halve_as_opt",
    "treat_cause", "learned",
)  # fmt: skip
AGENT_SECONDS = 600.0  # by default, for a call of an agent
LIMITS = {
    "--row-seconds": "Time for an answer, of policies of files, plug-ins and commands; with --mcp 600 by default.",
    "--start-seconds": "Time to load a policy, and for its reset.",
    "--minutes": "Time of a policy for all episodes, for each 100 of them and at least once.",
    "--memory-mb": "MiB of memory for a policy's processes in an episode.",
    "--disk-mb": "MiB of files that a policy may write in an episode.",
    "--output-kb": "KiB that a policy may print in an episode.",
    "--readable": "What else policies may read. May be repeated.",
}


@click.command()
@data_set
@click.option(
    "--policy",
    "policies",
    type=Suggested(lambda: POLICIES, files=True),
    metavar="POLICY",
    multiple=True,
    help=f"{', '.join(POLICIES)}, all by default; file.py:Class, a plug-in, 'cmd:PROGRAM WORD ...'. May be repeated.",
)
@click.option("--split", "splits", type=OneOf(SPLITS), multiple=True, help="test by default. May be repeated.")
@click.option("--profile", type=OneOf(PROFILES), default="common", show_default=True)
@click.option("--block", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Steps between decisions.")
@click.option("--runs", type=click.IntRange(1), help="Only the first so many runs of each kind.")
@click.option("--out", type=PATH, help="File to keep the episodes in; where it is there, it is gone on with.")
@click.option("--rescore", type=PATH, help="Score this file of --out again, by DIR's labels; nothing is trained.")
@click.option(
    "--price", "prices", multiple=True, metavar="ACTION=RUNS", help="With --rescore: restore=0.05. May be repeated."
)
@click.option(
    "--mcp",
    is_flag=True,
    help="Let an agent act: tools of the Model Context Protocol on standard input and output. --policy is its name.",
)
@partial(limits_options, texts=LIMITS)
@click.option("--record", is_flag=True, help="Write the board under results/rescue.")
@click.option(
    "--learn",
    "learned",
    type=PATH,
    help="Train the policy `learned` on the train split, into this .npz; --out resumes.",
)
@click.option("--play", "played", is_flag=True, help="Make a page to play in a browser; --out is a file or folder.")
@as_json
@click.pass_context
def rescue(
    context: click.Context,
    dir: Path,
    policies: Sequence[str],
    splits: Sequence[str],
    profile: str,
    block: int,
    runs: int | None,
    out: Path | None,
    rescore: Path | None,
    prices: Sequence[str],
    mcp: bool,
    limits: Limits,
    record: bool,
    learned: Path | None,
    played: bool,
    as_json: bool,
) -> None:
    """Let policies act on runs under way, and score what they save.

    DIR is a labelled data set with a plan, or `sample`. Its failing, healthy and look-alike runs are trained again,
    block by block; before each a policy may act. A policy that is not built in runs in a process of its own, within
    limits. docs/rescue.md has the actions, what they cost, the score and the protocol.
    """
    modes = {
        "play": played, "learn": learned is not None, "rescore": rescore is not None, "mcp": mcp, "record": record,
    }  # fmt: skip
    first, *others = [name for name, wanted in modes.items() if wanted] or [""]
    if others:
        raise InputError(f"{first}: not allowed beside --{others[0]}; allowed: one of them")
    if played:
        if policies:
            raise InputError("policy: not allowed with --play; allowed: one of them")
        return _play(dir, splits or ("test",), profile, block, runs, out, as_json)
    if learned is not None:
        _refuse(context, ("policies", "splits", "runs"), "--learn, which tries every action on the train split")
        return _learn(dir, learned, profile, block, out, as_json)
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.replay.alarms import CONFINEMENT, confined_text
    from trainwreck.scenarios.rescue.actions import with_prices
    from trainwreck.scenarios.rescue.board import Oracle, play_all, read_again, table
    from trainwreck.scenarios.rescue.outcomes import cases
    from trainwreck.scenarios.rescue.policies import BUILT_IN
    from trainwreck.scenarios.rescue.remote.opening import open_policy

    if rescore is not None:
        names = ("policies", "splits", "profile", "block", "runs", "out")
        _refuse(context, names, "--rescore, which takes all of the file")
        outcomes = read_again(rescore, load(dir), with_prices(prices))
        return print_json(_plain(table(outcomes))) if as_json else _print(outcomes)
    if prices:
        raise InputError("price: not allowed without --rescore; allowed: beside a file of --out")
    if mcp:
        from trainwreck.scenarios.rescue.remote.server import agent_of, serve

        if context.get_parameter_source("row_seconds") is click.core.ParameterSource.DEFAULT:
            limits = dataclasses.replace(limits, row_seconds=AGENT_SECONDS)
        agent = agent_of(list(policies), POLICIES, out)
        found = _chosen(cases(load(dir), splits or ("test",), profile, block), splits, runs)
        return serve(agent(found, limits, profile=profile, block=block))
    known: dict[str, Any] = {Oracle.name: Oracle, **{policy.name: policy for policy in BUILT_IN}}
    with ExitStack() as stack:
        playing = []
        for name in dict.fromkeys(policies) or POLICIES:
            if name not in known:
                known[name] = open_policy(name, limits, POLICIES)
                stack.callback(known[name].close)
            playing.append(known[name])
        data = load(dir)
        found = _chosen(cases(data, splits or ("test",), profile, block), splits, runs)
        with progress("rescue") as tick:
            outcomes = play_all(playing, found, profile=profile, block=block, out=out, progress=tick)
    if record:
        from trainwreck.scenarios.bench.claims.policies import board as page
        from trainwreck.scenarios.bench.claims.policies import write_board
        from trainwreck.scenarios.training.environment import RESULTS

        write_board(
            page(outcomes, table(outcomes), data, profile, block),
            outcomes,
            {"profile": profile, "block": block},
            RESULTS,
        )
    if as_json:
        return print_json(_plain(table(outcomes)))
    _print(outcomes)
    for policy in playing:
        if confined := confined_text(getattr(policy, "about", {}).get(CONFINEMENT)):
            print(f"{policy.name}: in a process of its own in each episode, confined by {confined}")


def _plain(board: "DataFrame") -> list[dict[str, Any]]:
    return [{str(k): None if v != v else v for k, v in row.items()} for row in board.to_dict("records")]


def _print(outcomes: "Sequence[Outcome]") -> None:
    """The table, what has to be known to read it, and what failed."""
    from trainwreck.evaluation.replay.alarms import OK
    from trainwreck.scenarios.rescue.board import table

    board = table(outcomes)
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
    for name in board["policy"]:
        failed = [one for one in outcomes if one.policy == name and one.status != OK]
        if failed:
            print(f"{name}: {len(failed)} episodes not ok, the first, {failed[0].run_id}: {failed[0].status}")


def _chosen(found: "list[Case]", splits: Sequence[str], runs: int | None) -> "list[Case]":
    """The runs to act on. Raises InputError where there is none."""
    if runs is not None:
        found = [case for kind in dict.fromkeys(c.kind for c in found) for case in _first(found, kind, runs)]
    if not found:
        raise InputError(f"split: {', '.join(splits) or 'test'} is not allowed; allowed: one with runs to act on")
    return found


def _refuse(context: click.Context, names: Sequence[str], beside: str) -> None:
    """InputError for the first of these options that was given."""
    for name in names:
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            option = {"policies": "policy", "splits": "split"}.get(name, name)
            raise InputError(f"{option}: not allowed beside {beside}; allowed: one of them")


def _learn(dir: Path, weights: Path, profile: str, block: int, out: Path | None, as_json: bool) -> None:
    check_weights(weights, "learn")
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.scenarios.rescue.learned.model import write_model
    from trainwreck.scenarios.rescue.learned.training import kept_episodes, learn, train_cases

    data = load(dir)
    train_cases(data, profile, block)
    kept = None if out is None else kept_episodes(out, profile, block)
    with progress("rescue", quiet=as_json) as tick:
        model = learn(data, profile, block, kept, tick)
    write_model(weights, model)
    about = model.about
    if as_json:
        return print_json({"weights": str(weights), "bytes": weights.stat().st_size, "margin": model.margin, **about})
    judged = {"the best action in hindsight": about["hindsight"]}
    judged |= {f"the policy, {name}s held out": found for name, found in about["held_out"].items()}
    rows = [(what, number(one["earned"]), one["acted"], one["harmed"]) for what, one in judged.items()]
    print_table(("on the train split", "reward, nats", "failing runs acted on", "other runs harmed"), rows)
    runs = ", ".join(f"{count} {kind}" for kind, count in about["runs"].items())
    print(f"{weights}: {weights.stat().st_size / 1024:.0f} KiB, from {about['moments']} moments of {runs} runs")


def _play(
    dir: Path, splits: Sequence[str], profile: str, block: int, runs: int | None, out: Path | None, as_json: bool
) -> None:
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.scenarios.rescue.game.branches import RUNS, courses, drawn, kept_courses
    from trainwreck.scenarios.rescue.game.page import write_page
    from trainwreck.scenarios.rescue.outcomes import cases

    page = out or Path("rescue.html")
    page = page / "rescue.html" if page.is_dir() else page
    data = load(dir)
    chosen = drawn(cases(data, splits, profile, block), block, runs or RUNS)
    kept = kept_courses(page, profile, block)
    with progress("rescue", quiet=as_json) as tick:
        found = courses(chosen, profile, block, tick, kept=kept)
    write_page(page, data, found, profile, block)
    kept.path.unlink()
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
