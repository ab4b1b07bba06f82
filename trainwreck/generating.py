"""`trainwreck generate`, `label` and `reproduce`: data sets made, labelled, and made again."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from trainwreck.engines import EngineWords, engine_options
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import progress
from trainwreck.options import (
    as_backend,
    as_json,
    backend_options,
    data_set,
    default_workers,
    folder,
    minutes_option,
    workers_option,
)
from trainwreck.tables import number, print_json, print_table


@click.command()
@click.argument("plan", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the data set.")
@click.option("--salt", help="Of the plan `private`: draws its seeds; keep it to yourself.")
@minutes_option
@engine_options
@backend_options
@as_json
def generate(
    plan: Sequence[str],
    out: Path,
    salt: str | None,
    minutes: float | None,
    engine: EngineWords,
    device: str | None,
    impl: str | None,
    as_json: bool,
) -> None:
    """A labelled data set from a plan.

    PLAN is demo, standard, full, private, a plan.json, or a sweep such as scenario=A,B seed=range(8).
    A data set begun on one engine goes on on another, and ends with the same bytes (docs/engines.md).
    """
    from trainwreck.scenarios.datasets.plans import resolve

    name, specs = resolve(plan, salt)
    where = as_backend(device, impl)
    chosen = engine.settings(out, where.device, minutes)
    dataset = train_plan(specs, out, name, None, where, quiet=as_json, minutes=minutes, engine=chosen)
    kinds = dataset.runs["kind"].value_counts().to_dict()
    if as_json:
        return print_json({"data_set": str(out), "runs": len(dataset), "kinds": kinds})
    print(f"{out}: {len(dataset)} runs ({', '.join(f'{v} {k}' for k, v in kinds.items())})")


@click.command()
@folder
@click.option("--split", "splits", multiple=True, help="Points of no return of this split only; may be given again.")
@click.option("--visible", is_flag=True, help="Only the visible steps, from telemetry alone: nothing is trained.")
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing: how often healthy runs would be called visible, and how "
    "far visible steps move with the healthy runs that they rest on.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="Take over points of no return that were measured on another copy, the same to the bit; its manifest.json "
    "and runs.parquet are enough.",
)
@minutes_option
@workers_option
@as_json
def label(
    dir: Path,
    splits: Sequence[str],
    visible: bool,
    check: bool,
    source: Path | None,
    minutes: float | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Measure when each failure becomes visible, and until when its cure saves the run.

    The second takes branches: for each failing run that ends badly, about as much training as three such
    runs. It resumes when called again.
    """
    if splits and (visible or check):
        raise InputError("split: not allowed beside --visible or --check, which train nothing; allowed: one of them")
    if check and source:
        raise InputError("--from: not allowed beside --check, which writes nothing; allowed: one of them")
    if check:
        from trainwreck.evaluation.dataset.dataset import load
        from trainwreck.evaluation.labels.stability import stability

        found = stability(load(dir))
        return print_json(found.to_dict()) if as_json else print(found.text())
    if source:
        from trainwreck.evaluation.labels.transfer_labels import adopt

        count = adopt(dir, source)
        print(f"{count} points of no return taken over from {source}", file=sys.stderr)
    if visible:
        from trainwreck.evaluation.labels.labelling import relabel

        rows = relabel(dir)
    else:
        from trainwreck.scenarios.proof.no_return_dataset import measure

        with progress("points of no return", quiet=as_json) as tick:
            rows = measure(
                dir,
                splits=splits,
                workers=workers or default_workers("cpu"),
                progress=lambda done, total: tick(done, total, f"run {done}/{total}"),
                minutes=minutes,
            )
    shown = [r for r in rows if r["onset_step"] is not None]
    if as_json:
        columns = ("run_id", "kind", "onset_step", "visible_step", "no_return_step", "no_return_monotone", "outcome")
        return print_json([{k: r[k] for k in columns} for r in rows])
    print_table(
        ("run", "scenario", "kind", "onset", "visible", "no return", "outcome", "gap (nats)"),
        [
            (r["run_id"], r["scenario"], r["kind"], r["onset_step"], r["visible_step"], r["no_return_step"],
             r["outcome"], number(r["final_gap"], "+"))
            for r in shown
        ],
    )  # fmt: skip


@click.command()
@data_set
@click.argument("run_id")
@as_json
def reproduce(dir: Path, run_id: str, as_json: bool) -> None:
    """Train a run of a data set again and compare bit by bit."""
    from trainwreck.scenarios.datasets.reproduce import reproduce as again

    found = again(dir, run_id)
    if as_json:
        print_json(found.to_dict())
    else:
        print(found.text())
    if not found.identical:
        sys.exit(1)


def train_plan(
    specs: Any,
    out: Path,
    name: str,
    workers: int | None,
    where: Any,
    quiet: bool,
    minutes: float | None = None,
    engine: Any = None,
) -> Any:
    """The data set of a plan, with progress. where: a backend. engine: so many workers of this machine by default."""
    from trainwreck.scenarios.datasets.generate import generate as run_plan

    engine = engine or EngineWords(workers=workers).settings(out, where.device)
    with progress(f"train {len(specs)} runs", quiet=quiet) as tick:

        def told(done: int, total: int, steps: int, all_steps: int, left: float | None) -> None:
            tick(steps, all_steps, f"bundle {done}/{total}", left)

        return run_plan(specs, out, engine=engine, name=name, backend=where, progress=told, minutes=minutes)
