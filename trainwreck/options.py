"""What several commands take: their options, and the words in them as members and backends."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from trainwreck.evaluation.constants import DEFAULT_PROFILE, DEFAULT_TRACK
from trainwreck.evaluation.replay.sandbox.limits import Limits

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
workers_option = click.option("--workers", type=click.IntRange(1), help="Worker processes; one a core by default.")
minutes_option = click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    help="Begin nothing new after so long; exit code 3, and the same command goes on.",
)
folder = click.argument("dir", type=click.Path(path_type=Path))


def named_folder(context: click.Context, parameter: click.Parameter, folder: Path) -> Path:
    """A data set, which may be `sample`."""
    from trainwreck.evaluation.dataset.sample import named

    return named(folder)


def named_folders(context: click.Context, parameter: click.Parameter, folders: tuple[Path, ...]) -> tuple[Path, ...]:
    """Data sets, of which one may be `sample`."""
    from trainwreck.evaluation.dataset.sample import named

    return tuple(map(named, folders))


data_set = click.argument("dir", type=click.Path(path_type=Path), callback=named_folder)
settings = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE ...]")
device_option = click.option("--device", help="cpu or cuda; cpu by default.")
impl_option = click.option("--impl", help="Kernels: reference or triton; triton on cuda, reference on cpu by default.")
severity_option = click.option("--severity", help="subtle, clear or severe; clear by default.")
size_option = click.option("--size", help="micro, deep or small; the scenario's own by default.")
labels_option = click.option(
    "--labels", type=click.Path(path_type=Path), help="Of imported runs: CSV with run, status, step, cause, cluster."
)
profile_option = click.option(
    "--profile", default=DEFAULT_PROFILE, show_default=True, help="full, standard, minimal or filtered."
)
track_option = click.option("--track", default=DEFAULT_TRACK, show_default=True, help="blind or informed.")

alarms_option = click.option(
    "--alarms", type=click.Path(path_type=Path), help="Folder to keep each detector's alarms in, for `rescore`."
)
isolate_option = click.option("--isolate", is_flag=True, help="Run built-in detectors in processes of their own too.")


def limits_options(command: Callable[..., Any]) -> Any:
    """Options of what a detector in a process of its own may take; the command gets them as `limits`."""

    @wraps(command)
    def limited(
        *words: Any,
        row_seconds: float,
        start_seconds: float,
        memory_mb: float,
        output_kb: float,
        batch: int,
        **others: Any,
    ) -> Any:
        limits = Limits(
            row_seconds=row_seconds,
            start_seconds=start_seconds,
            memory_mb=memory_mb,
            output_kb=output_kb,
            batch=batch,
        )
        return command(*words, limits=limits, **others)

    for option, default, text in (
        ("--batch", Limits.batch, "Rows handed to a Python detector's process at a time; 1: no later row is in it."),
        ("--output-kb", Limits.output_kb, "KiB that a detector may print in a run."),
        ("--memory-mb", Limits.memory_mb, "MiB of memory for a detector's process."),
        ("--start-seconds", Limits.start_seconds, "Time to load a detector, and for each reset."),
        ("--row-seconds", Limits.row_seconds, "Time for a row, of detectors of files, plug-ins and commands."),
    ):
        limited = click.option(option, type=type(default), default=default, show_default=True, help=text)(limited)
    return limited


def backend_options(command: Callable[..., Any]) -> Any:
    """--device and --impl, for `as_backend`."""
    return device_option(impl_option(command))


def as_severity(text: str | None) -> Any:
    """The member, None for None; InputError with the nearest."""
    from trainwreck.scenarios.datasets.plans import member
    from trainwreck.scenarios.spec.scenario import Severity

    return member(Severity, "severity", text)


def as_size(text: str | None) -> Any:
    """The member, None for None; InputError with the nearest."""
    from trainwreck.scenarios.config.sizes import Size
    from trainwreck.scenarios.datasets.plans import member

    return member(Size, "size", text)


def as_backend(device: str | None, impl: str | None) -> Any:
    """The backend; InputError for one that is not here."""
    from trainwreck.scenarios.training.backend import backend

    return backend(device, impl)


def default_workers(device: str) -> int:
    """Workers by default: one a core, and one for a GPU."""
    from trainwreck.scenarios.training.environment import cores

    return cores() if device == "cpu" else 1
