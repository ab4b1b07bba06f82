"""`trainwreck gallery`: every scenario of some data sets on one page."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from trainwreck.evaluation.progress import progress
from trainwreck.options import as_json, named_folders, workers_option
from trainwreck.tables import print_json


@click.command()
@click.argument("dirs", nargs=-1, required=True, type=click.Path(path_type=Path), callback=named_folders)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("gallery.html"), show_default=True, help="The page."
)
@click.option(
    "--detector",
    "detectors",
    multiple=True,
    help="Whose alarms are marked, in place of the usual eight. May be repeated.",
)
@click.option(
    "--alarms",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Alarms that `leaderboard --alarms` kept, instead of a replay. May be repeated, one a data set.",
)
@workers_option
@as_json
def gallery(
    dirs: Sequence[Path],
    out: Path,
    detectors: Sequence[str],
    alarms: Sequence[Path],
    workers: int | None,
    as_json: bool,
) -> None:
    """One page with every scenario's curves, text and alarms, to look at in a browser without a network.

    Of each scenario and severity it shows one run with its twin and its cure. DIR may be `sample`.
    """
    from joblib import cpu_count

    from trainwreck.evaluation.errors import InputError
    from trainwreck.evaluation.pages.gallery import write_gallery
    from trainwreck.evaluation.pages.gallery.exhibit_facts import Catalogue
    from trainwreck.evaluation.pages.gallery.marks import DETECTORS
    from trainwreck.scenarios.views.symptoms import catalogue_facts

    if detectors and alarms:
        raise InputError("detector: not allowed beside --alarms, which replays nothing; allowed: one of them")
    command = shlex.join(["trainwreck", *sys.argv[1:]])
    with progress("gallery", quiet=as_json) as tick:
        made = write_gallery(
            dirs,
            out,
            Catalogue(**catalogue_facts()),
            detectors=detectors or DETECTORS,
            alarms=alarms,
            command=command,
            workers=workers or cpu_count(),
            tick=tick,
        )
    if as_json:
        return print_json(
            {"gallery": str(made.path), "scenarios": made.scenarios, "runs": made.runs, "bytes": made.bytes}
        )
    print(f"{made.path}: {made.scenarios} scenarios, {made.runs} runs, {made.bytes / 1e6:.1f} MB")
