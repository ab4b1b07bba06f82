"""`trainwreck run`: one scenario with its twin and its cure, in the terminal or on a page."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from trainwreck.evaluation.errors import InputError
from trainwreck.options import (
    as_backend,
    as_json,
    as_severity,
    as_size,
    backend_options,
    settings,
    severity_option,
    size_option,
)
from trainwreck.tables import print_json, print_run

if TYPE_CHECKING:
    from trainwreck.evaluation.pages.live_page import LivePage, Show


@click.command()
@click.argument("id")
@settings
@severity_option
@size_option
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--plot", type=click.Path(path_type=Path), help="Where to write the picture; ID.png by default.")
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
    seed: int,
    plot: Path | None,
    serve: bool,
    port: int | None,
    opened: bool,
    device: str | None,
    impl: str | None,
    as_json: bool,
) -> None:
    """One scenario with its twin and cure, live, with a plot at the end.

    With --serve the curves move on a page, which stays when training has ended; Ctrl-C then ends with exit code 0, and
    before with 130.
    """
    if port is not None and not serve:
        raise InputError(f"--port: {port} is not allowed without --serve; allowed: both")
    if serve and as_json:
        raise InputError("--serve: not allowed beside --json; allowed: one of them")
    from trainwreck.scenarios.spec.registry import scenario
    from trainwreck.scenarios.views.session import run_live

    picture = plot or Path(f"{scenario(id).id}.png")
    words = id, seed, as_severity(severity), as_size(size), overrides, picture
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
