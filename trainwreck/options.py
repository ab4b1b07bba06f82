"""What several commands take: their options, and the words in them as members and backends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
workers_option = click.option("--workers", type=click.IntRange(1), help="Worker processes; one a core by default.")
minutes_option = click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    help="Begin nothing new after so long; exit code 3, and the same command goes on.",
)
folder = click.argument("dir", type=click.Path(path_type=Path))


def _data_set(context: click.Context, parameter: click.Parameter, folder: Path) -> Path:
    from trainwreck.evaluation.shipped import named

    return named(folder)


data_set = click.argument("dir", type=click.Path(path_type=Path), callback=_data_set)
settings = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE ...]")
device_option = click.option("--device", help="cpu or cuda; cpu by default.")
impl_option = click.option("--impl", help="Kernels: reference or triton; triton on cuda, reference on cpu by default.")
severity_option = click.option("--severity", help="subtle, clear or severe; clear by default.")
size_option = click.option("--size", help="micro, deep, small or nano; the scenario's own by default.")
profile_option = click.option(
    "--profile", default="full", show_default=True, help="full, standard, minimal or filtered."
)
track_option = click.option("--track", default="blind", show_default=True, help="blind or informed.")

alarms_option = click.option(
    "--alarms", type=click.Path(path_type=Path), help="Folder to keep each detector's alarms in, for `rescore`."
)


def backend_options(command: Callable[..., Any]) -> Any:
    """--device and --impl, for `as_backend`."""
    return device_option(impl_option(command))


def as_severity(text: str | None) -> Any:
    """The member, None for None; InputError with the nearest."""
    from trainwreck.scenarios.plans import member
    from trainwreck.scenarios.spec import Severity

    return member(Severity, "severity", text)


def as_size(text: str | None) -> Any:
    """The member, None for None; InputError with the nearest."""
    from trainwreck.scenarios.plans import member
    from trainwreck.scenarios.sizes import Size

    return member(Size, "size", text)


def as_backend(device: str | None, impl: str | None) -> Any:
    """The backend; InputError for one that is not here."""
    from trainwreck.scenarios.backend import backend

    return backend(device, impl)


def default_workers(device: str) -> int:
    """Workers by default: one a core, and one for a GPU."""
    from trainwreck.scenarios.process import cores

    return cores() if device == "cpu" else 1
