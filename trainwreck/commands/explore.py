"""Explore: the catalogue, one scenario at work, and all of them on a page."""

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from trainwreck.commands import choices
from trainwreck.commands.choices import DATA_SET, DETECTOR, PATH, SCENARIO, OneOf
from trainwreck.commands.options import (
    as_backend,
    as_json,
    as_severity,
    as_size,
    backend_options,
    settings,
    severity_option,
    size_option,
    text_option,
    workers_option,
)
from trainwreck.commands.tables import print_json, print_page, print_run, print_table
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import progress

if TYPE_CHECKING:
    from trainwreck.evaluation.pages.live_page import LivePage, Show


@click.command("list")
@click.option("--family", type=OneOf(choices.FAMILIES, shown=False), metavar="FAMILY", help="Only this family.")
@as_json
def list_(family: str | None, as_json: bool) -> None:
    """List the scenarios of the catalogue.

    A failing scenario has a fault; a look-alike is healthy and looks like a failure. Severities and sizes are those
    that it has; it is in data sets where it is proven.
    """
    if "numpy" not in sys.modules:  # nothing is multiplied here, and BLAS's threads cost a tenth of the CPU time
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from trainwreck.scenarios.spec.pages import summary

    rows = [row for row in summary() if family in (None, row["family"])]
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


@click.command()
@click.argument("id", type=SCENARIO)
@as_json
def show(id: str, as_json: bool) -> None:
    """Print the page of a scenario.

    The failure, its mechanism, what is injected, the signature, the cure and the references; the settings in which it
    differs from the default of its size, and the lines of the training program that the fault changes.
    """
    from trainwreck.scenarios.views.page import page

    content = page(id)
    if as_json:
        return print_json(content)
    print_page(content)


@click.command()
@click.argument("id", type=SCENARIO)
@settings
@severity_option
@size_option
@text_option
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--plot", type=PATH, help="Where to write the picture; ID.png by default.")
@click.option("--serve", is_flag=True, help="Show the curves on a page of this machine's own address, until Ctrl-C.")
@click.option("--port", type=click.IntRange(0, 65535), help="Of the page; by default, or with 0, any that is free.")
@click.option("--open/--no-open", "opened", default=True, show_default=True, help="Show the page in a browser.")
@backend_options
@as_json
def run(
    id: str,
    overrides: Sequence[str],
    severity: str | None,
    size: str | None,
    text: Path | None,
    seed: int,
    plot: Path | None,
    serve: bool,
    port: int | None,
    opened: bool,
    device: str | None,
    impl: str | None,
    as_json: bool,
) -> None:
    """Train a scenario with its twin and its cure.

    Settings of the run are given as KEY=VALUE, as in steps=300 or optimizer.lr=0.02. The curves are drawn in the
    terminal, and as a picture at the end. With --serve they are on a page of this machine, which stays when training
    has ended; Ctrl-C then ends with exit code 0, and before with 130.
    """
    if port is not None and not serve:
        raise InputError(f"--port: {port} is not allowed without --serve; allowed: both")
    if serve and as_json:
        raise InputError("--serve: not allowed beside --json; allowed: one of them")
    from trainwreck.scenarios.spec.overrides import on_text
    from trainwreck.scenarios.spec.registry import scenario
    from trainwreck.scenarios.views.session import run_live

    picture = plot or Path(f"{scenario(id).id}.png")
    words = id, seed, as_severity(severity), as_size(size), (*overrides, *on_text(text)), picture
    where = as_backend(device, impl)
    if not serve:
        facts = run_live(*words, quiet=as_json, backend=where)
        return print_json(facts) if as_json else print_run(facts)
    with ExitStack() as stack:

        def begin(show: "Show") -> "LivePage":
            from trainwreck.evaluation.pages.live_page import serve

            page = stack.enter_context(serve(show, port or 0))
            print(f"page: {page.address}", flush=True)
            if opened and sys.stdout.isatty():
                click.launch(page.address)
            return page

        print_run(run_live(*words, backend=where, opened=begin))
        with suppress(KeyboardInterrupt):
            print("the page stays until Ctrl-C", flush=True)
            Event().wait()


@click.command()
@click.argument("id", type=SCENARIO)
@click.option("--out", type=PATH, help="The file; ID.py by default.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@severity_option
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@as_json
def reproducer(id: str, out: Path | None, seed: int, severity: str | None, force: bool, as_json: bool) -> None:
    """Write a scenario as one plain PyTorch program.

    The program needs PyTorch and NumPy alone. It trains the twin, the faulty and the cured run, prints the most
    diagnostic signal, and exits with 0 where the signature is there and the cure works.
    """
    from trainwreck.scenarios.reproducers.export import write

    file = write(id, out or Path(f"{id}.py"), seed=seed, severity=as_severity(severity), force=force)
    print_json({"scenario": id, "file": str(file)}) if as_json else print(file)


@click.command()
@click.argument("dirs", nargs=-1, required=True, type=DATA_SET)
@click.option("--out", type=PATH, help="The page; gallery.html by default, cards.html with --cards.")
@click.option(
    "--cards",
    type=OneOf(("eight", "all")),
    help="Cards to print instead: an A4 page each, of eight well-known failures or of all scenarios.",
)
@click.option(
    "--detector",
    "detectors",
    type=DETECTOR,
    multiple=True,
    help="Whose alarms are marked, in place of the usual eight. May be repeated.",
)
@click.option(
    "--alarms",
    multiple=True,
    type=PATH,
    help="Alarms that `leaderboard --alarms` kept, instead of a replay. May be repeated, one a data set.",
)
@workers_option
@as_json
def gallery(
    dirs: Sequence[Path],
    out: Path | None,
    cards: str | None,
    detectors: Sequence[str],
    alarms: Sequence[Path],
    workers: int | None,
    as_json: bool,
) -> None:
    """Write one page with the curves of every scenario.

    Of each scenario and severity it has one run with its twin and its cure, the scenario's text and the alarms of
    detectors. It is one HTML file that needs no network.
    """
    from joblib import cpu_count

    from trainwreck.evaluation.pages.gallery import write_cards, write_gallery
    from trainwreck.evaluation.pages.gallery.exhibit_facts import Catalogue
    from trainwreck.evaluation.pages.gallery.marks import DETECTORS
    from trainwreck.scenarios.views.symptoms import catalogue_facts

    if detectors and alarms:
        raise InputError("detector: not allowed beside --alarms, which replays nothing; allowed: one of them")
    if cards is not None:
        if detectors or alarms:
            raise InputError("cards: not allowed beside --detector or --alarms, which they do not show; allowed: one")
        printed = write_cards(dirs, out or Path("cards.html"), Catalogue(**catalogue_facts()), cards)
        if as_json:
            return print_json({"cards": str(printed.path), "scenarios": printed.scenarios, "missing": printed.missing})
        print(f"{printed.path}: {len(printed.scenarios)} pages of A4")
        if printed.missing:
            print(f"no run of {', '.join(printed.missing)} in {', '.join(map(str, dirs))}", file=sys.stderr)
        return None
    command = shlex.join(["trainwreck", *sys.argv[1:]])
    with progress("gallery", quiet=as_json) as tick:
        made = write_gallery(
            dirs,
            out or Path("gallery.html"),
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
