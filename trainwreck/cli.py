"""The command line: thin, and imports what a command needs only when it runs."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from trainwreck.auditing import audit, compare, equivalence
from trainwreck.evaluation.errors import InputError, UnfinishedError, WorkerLostError, unknown
from trainwreck.evaluation.progress import progress
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.exporting import export
from trainwreck.gallery import gallery
from trainwreck.generating import generate, label, reproduce, train_plan
from trainwreck.learning import learn
from trainwreck.logs import full_and_blind, import_, print_alarms
from trainwreck.options import (
    alarms_option,
    as_backend,
    as_json,
    backend_options,
    data_set,
    isolate_option,
    labels_option,
    limits_options,
    profile_option,
    track_option,
    workers_option,
)
from trainwreck.preflight import preflight
from trainwreck.proving import verify
from trainwreck.quizzing import class_, quiz
from trainwreck.real_runs import print_real, write_real
from trainwreck.releasing import release
from trainwreck.running import run
from trainwreck.standing import leaderboard, replayed, rescore, submit
from trainwreck.tables import print_board, print_json, print_page, print_table
from trainwreck.watching import watch

MEASUREMENTS = (
    "train",
    "generate",
    "score",
    "attention",
    "cuda",
    "reliability",
    "reproducers",
    "fidelity",
    "language",
)
INTERRUPTED = 130  # as shells report SIGINT
RESUMING = {"demo", "generate", "label", "verify"}  # commands that keep what they have done
UNFINISHED = 3


class Group(click.Group):
    """Commands with "did you mean"."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None:
            raise unknown("command", args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # as they are defined, not by the alphabet


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="trainwreck")
def cli() -> None:
    """Labelled transformer-training failures, and the scoreboard for detectors."""


def main() -> None:
    """Run the command line; bad input is one line on stderr and exit code 2."""
    try:
        sys.exit(cli.main(standalone_mode=False) or 0)
    except InputError as error:
        print(f"trainwreck: {error}", file=sys.stderr)
        sys.exit(2)
    except click.UsageError as error:
        print(f"trainwreck: {' '.join(error.format_message().split())}", file=sys.stderr)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        resumes = not RESUMING.isdisjoint(sys.argv[1:2])
        print(f"trainwreck: interrupted{'; the same command goes on from here' if resumes else ''}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except (WorkerLostError, UnfinishedError) as error:
        print(f"trainwreck: {error}", file=sys.stderr)
        sys.exit(UNFINISHED if isinstance(error, UnfinishedError) else 1)


@cli.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("demo"), help="Folder of the data set.")
@workers_option
@backend_options
@as_json
def demo(out: Path, workers: int | None, device: str | None, impl: str | None, as_json: bool) -> None:
    """The main job, small: plan, train, label, score, report.

    Scored are the detectors that need no other library: importing and fitting those would take as long as all else.
    """
    from trainwreck.evaluation.detectors.registry import without_libraries
    from trainwreck.scenarios.datasets.plans import resolve

    name, specs = resolve(["demo"])
    train_plan(specs, out, name, workers, as_backend(device, impl), quiet=as_json)
    with without_libraries():
        rows = replayed(out, (), ("full",), None, quiet=as_json)["rows"]
        page = _report(out, out / "report.html", quiet=as_json)
    if as_json:
        print_json({"data_set": str(out), "report": str(page), "leaderboard": rows})
    else:
        print_board(rows)
        print(f"data set: {out}\nreport:   {page}")


@cli.command("list")
@click.option("--family", help="Only this family.")
@as_json
def list_(family: str | None, as_json: bool) -> None:
    """The catalogue."""
    from trainwreck.scenarios.spec.pages import summary

    rows = summary()
    families = list(dict.fromkeys(row["family"] for row in rows))
    if family is not None:
        if family not in families:
            raise unknown("family", family, families)
        rows = [row for row in rows if row["family"] == family]
    if as_json:
        return print_json(rows)
    print_table(
        ("id", "family", "kind", "severities", "sizes", "proven at", "what happens"),
        [
            (r["id"], r["family"], r["kind"], ", ".join(r["severities"]) or "-", ", ".join(r["sizes"]),
             ", ".join(r["proven"]) or "-", r["title"])
            for r in rows
        ],
    )  # fmt: skip


@cli.command()
@click.argument("id")
@as_json
def show(id: str, as_json: bool) -> None:
    """One scenario as a page."""
    from trainwreck.scenarios.spec.pages import page

    content = page(id)
    if as_json:
        return print_json(content)
    print_page(content)


cli.add_command(run)
cli.add_command(verify)
cli.add_command(preflight)


cli.add_command(generate)
cli.add_command(label)


@cli.command()
@data_set
@click.option(
    "--detector",
    "detectors",
    multiple=True,
    required=True,
    help="A name, file.py:Class, or 'cmd:PROGRAM WORD ...'. May be repeated.",
)
@labels_option
@profile_option
@track_option
@click.option(
    "--detector-seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Replay each with seed=0, 1, ... and tell how far its scores lie apart.",
)
@isolate_option
@limits_options
@alarms_option
@as_json
def score(
    dir: Path,
    detectors: Sequence[str],
    labels: Path | None,
    profile: str,
    track: str,
    detector_seeds: int,
    isolate: bool,
    limits: Limits,
    alarms: Path | None,
    as_json: bool,
) -> None:
    """Score detectors on a data set; on imported logs list their alarms, or with --labels what these allow.

    DIR may be `sample`, which ships with the package. A detector that is not built in (of a file, an installed plug-in,
    or a command in any language: docs/protocol.md) runs in a process of its own, within limits.
    """
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.detectors.plugins import clashes
    from trainwreck.evaluation.leaderboard.run import score_all

    dataset = load(dir)
    if dataset.imported and detector_seeds > 1:
        raise InputError("detector-seeds: not allowed for imported runs; allowed: 1")
    for clash in clashes(detectors):
        print(f"note: {clash}", file=sys.stderr)
    if dataset.imported:
        full_and_blind(profile, track)
        if alarms is not None:
            raise InputError("alarms: not allowed for imported runs, which have no label to score by; allowed: --json")
    if labels:
        return print_real(dataset, labels, detectors, limits, as_json)
    if dataset.imported:
        return print_alarms(dataset, detectors, limits, as_json)
    with progress("score", quiet=as_json) as tick:
        cards = score_all(
            dataset,
            list(detectors),
            profiles=[profile],
            track=track,
            limits=limits,
            isolate=isolate,
            seeds=detector_seeds,
            progress=tick,
        )
    if alarms is not None:
        from trainwreck.evaluation.leaderboard.rescore import keep_alarms

        keep_alarms(alarms, dataset, cards)
    if as_json:
        print_json([card.to_dict() for card in cards])
    else:
        for card in cards:
            print(card.text())
    crashes = [(card.detector, said) for card in cards for said in card.alarms if said.crashed]
    if crashes:
        name, said = crashes[0]
        last = f"; it printed last: {said.stderr[-1]}" if said.stderr else ""
        raise InputError(f"detector {name}: {said.status} (on {len(crashes)} runs, first {said.run_id}){last}")


cli.add_command(rescore)
cli.add_command(leaderboard)
cli.add_command(submit)


@cli.command()
@data_set
@click.option(
    "--out", type=click.Path(path_type=Path), help="The page; DIR/report.html by default, sample.html for the sample."
)
@click.option("--record", is_flag=True, help="Also write leaderboard and pictures under results/PLAN/.")
@labels_option
@click.option("--detector", "detectors", multiple=True, help="With --labels, beside the built-in ones: file.py:Class.")
@as_json
def report(
    dir: Path, out: Path | None, record: bool, labels: Path | None, detectors: Sequence[str], as_json: bool
) -> None:
    """One self-contained HTML file: every scenario's picture, the labels, the leaderboard.

    Of imported runs, with --labels: what can be said of detectors on them, and what not.
    """
    from trainwreck.evaluation.dataset.sample import SAMPLE, is_sample

    if labels:
        page = write_real(dir, labels, out or dir / "report.html", detectors, quiet=as_json)
        return print(json.dumps({"report": str(page)}) if as_json else page)
    if detectors:
        raise InputError(f"--detector: {detectors[0]!r} is not allowed without --labels; allowed: in `leaderboard`")
    page = _report(dir, out or (Path(f"{SAMPLE}.html") if is_sample(dir) else dir / "report.html"), quiet=as_json)
    if record:
        from trainwreck.evaluation.dataset.dataset import load
        from trainwreck.evaluation.pages.report import write_record

        write_record(dir, Path("results") / load(dir).manifest["plan"])
    print(json.dumps({"report": str(page)}) if as_json else page)


cli.add_command(gallery)
cli.add_command(learn)
cli.add_command(release)
cli.add_command(audit)
cli.add_command(compare)
cli.add_command(equivalence)


cli.add_command(reproduce)
cli.add_command(import_)
cli.add_command(export)
cli.add_command(watch)
cli.add_command(quiz)
cli.add_command(class_)


@cli.command()
@click.argument("what", type=click.Choice(MEASUREMENTS))
@click.option("--record", is_flag=True, help="Write the result under results/.")
@as_json
def bench(what: str, record: bool, as_json: bool) -> None:
    """Measure speed against a named peer, or a claim under results/ again.

    Speed: train is steps a second, with telemetry and without; generate a whole sweep, against trainers that do one
    run at a time; score goes from files to a scorecard, against TSB-AD's metrics; attention is attention with its
    statistics against PyTorch's, on the CUDA device if there is one; cuda is training there, and needs one.

    Claims: reliability kills workers and parents, fills the disk and takes memory away in the middle of `generate`;
    reproducers runs every scenario's exported program and, stopped, goes on where it was; fidelity puts mechanisms
    beside the numbers of the literature; language is what the model loses without each part.
    """
    from trainwreck.scenarios.bench import measure

    with progress(f"bench {what}", quiet=as_json) as tick:
        table = measure(what, tick, record=record)
    if as_json:
        print_json(table.to_dict())
    else:
        print(table.text())


@cli.command()
@as_json
def doctor(as_json: bool) -> None:
    """The environment, and what will run here."""
    from trainwreck.scenarios.doctor import examine

    facts = examine()
    if as_json:
        return print_json(facts)
    print_table(("what", "found"), [(k, v if isinstance(v, str) else json.dumps(v)) for k, v in facts.items()])


def _report(dir: Path, out: Path, quiet: bool) -> Path:
    from joblib import cpu_count

    from trainwreck.evaluation.pages.report import write_report

    with progress("report", quiet=quiet) as tick:
        return write_report(dir, out, tick, cpu_count())


if __name__ == "__main__":
    main()
