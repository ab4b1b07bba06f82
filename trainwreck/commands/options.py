"""Options that several commands take, and the objects that their values stand for."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from trainwreck.commands import choices
from trainwreck.commands.choices import DATA_SET, PATH, WORKERS, Number, OneOf
from trainwreck.evaluation.constants import DEFAULT_PROFILE, DEFAULT_TRACK
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.sandbox.limits import Limits

GIB = 2**30

data_set = click.argument("dir", type=DATA_SET)
settings = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE ...]")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
workers_option = click.option("--workers", type=WORKERS, help="Worker processes; one a core by default.")
minutes_option = click.option(
    "--minutes",
    type=Number(min_open=True),
    help="Begin nothing new after so long; exit code 3, and the same command goes on.",
)
device_option = click.option("--device", type=OneOf(choices.DEVICES), help="cpu by default.")
impl_option = click.option(
    "--impl", type=OneOf(choices.IMPLS), help="Kernels; triton on cuda, reference on cpu by default, cpp faster there."
)
severity_option = click.option("--severity", type=OneOf(choices.SEVERITIES), help="clear by default.")
size_option = click.option("--size", type=OneOf(choices.SIZES), help="The scenario's own by default.")
text_option = click.option(
    "--text", type=PATH, help="Train on the bytes of this file: sets data.source, data.text and model.vocab_size."
)
log_format_option = click.option(
    "--format",
    type=OneOf(choices.LOG_FORMATS, shown=False),
    metavar="FORMAT",
    help=f"{', '.join(choices.LOG_FORMATS)}; by default what it looks like.",
)
map_option = click.option(
    "--map", "mapping", multiple=True, metavar="COLUMN=SIGNAL", help="What a column is. May be repeated."
)
blank_option = click.option(
    "--blank",
    type=OneOf(choices.BLANKS),
    help="What blank cells stand for: NaN, or not logged; by default those at the end for NaN, by a stated rule.",
)
every_option = click.option(
    "--every", type=int, metavar="N", help="Number the rows: N steps from one to the next, the first at N."
)
pattern_option = click.option(
    "--pattern", metavar="REGEX", help="Lines of a text log, with groups (?P<step>...), (?P<loss>...) ..."
)


def log_limits_options(command: Callable[..., Any]) -> Any:
    """Options of what a log may take; the command gets them as `limits`."""

    @wraps(command)
    def limited(*words: Any, log_mb: float, log_columns: int, log_line_kb: float, **others: Any) -> Any:
        from trainwreck.evaluation.logs.limits import LogLimits

        return command(*words, limits=LogLimits(log_mb, log_columns, log_line_kb), **others)

    for option, kind, default, text in (
        ("--log-line-kb", Number(min_open=True), choices.LOG_LINE_KB, "KiB that a line of a log may have."),
        ("--log-columns", click.IntRange(1), choices.LOG_COLUMNS, "Columns that a log may have."),
        ("--log-mb", Number(min_open=True), choices.LOG_MB, "MiB of memory that reading a log may take."),
    ):
        limited = click.option(option, type=kind, default=default, show_default=True, help=text)(limited)
    return limited


labels_option = click.option(
    "--labels", type=PATH, help="Of imported runs: CSV with run, status, step, cause, cluster."
)
profile_option = click.option("--profile", type=OneOf(choices.ALL_PROFILES), default=DEFAULT_PROFILE, show_default=True)
profiles_option = click.option(
    "--profile",
    "profiles",
    type=OneOf(choices.ALL_PROFILES),
    multiple=True,
    default=(DEFAULT_PROFILE,),
    show_default=True,
    help="May be repeated.",
)
board_profiles_option = click.option(
    "--profile",
    "profiles",
    type=OneOf(choices.ALL_PROFILES),
    multiple=True,
    default=(),
    show_default="full and common; of a release of logs common",
    help="May be repeated.",
)
track_option = click.option("--track", type=OneOf(choices.TRACKS), default=DEFAULT_TRACK, show_default=True)
stored_option = click.option(
    "--from",
    "stored",
    multiple=True,
    type=PATH,
    help="Stored alarms or submissions, instead of a replay. May be repeated.",
)
confirmed_option = click.option(
    "--confirmed",
    multiple=True,
    type=PATH,
    help="Records of `trainwreck confirm`, or folders of them: which submissions were run again.",
)
alarms_option = click.option("--alarms", type=PATH, help="Folder to keep each detector's alarms in, for `rescore`.")
isolate_option = click.option("--isolate", is_flag=True, help="Run built-in detectors in processes of their own too.")


_LIMITS = (
    ("--row-seconds", Limits.row_seconds, "Time for a row, of detectors of files, plug-ins and commands."),
    ("--start-seconds", Limits.start_seconds, "Time to load a detector, and for each reset."),
    ("--minutes", Limits.minutes, "Time of a detector for all runs, for each 1,000 of them and at least once."),
    ("--memory-mb", Limits.memory_mb, "MiB of memory for a detector's processes."),
    ("--disk-mb", Limits.disk_mb, "MiB of files that a detector may write."),
    ("--output-kb", Limits.output_kb, "KiB that a detector may print in a run."),
)
_UNRANKED = (
    click.option(
        "--batch",
        type=int,
        default=Limits.batch,
        show_default=True,
        help="Rows handed to a detector's process at a time: 32 take half the time, and later rows are in it.",
    ),
    click.option("--no-confine", "unconfined", is_flag=True, help="Let detectors have your files and network."),
)


def limits_options(command: Callable[..., Any], *, ranked: bool = True, texts: Mapping[str, str] | None = None) -> Any:
    """Options of what a detector in a process of its own may take; the command gets them as `limits`.

    ranked: detectors get one row at a time and are confined as far as the system can; else there are options for both.
    texts: help by option, where it is not a detector that runs.
    """
    others = texts or {}
    names = [option.removeprefix("--").replace("-", "_") for option, _, _ in _LIMITS]

    @wraps(command)
    def limited(
        *words: Any, readable: Sequence[str], batch: int = Limits.batch, unconfined: bool = False, **others: Any
    ) -> Any:
        given = {name: others.pop(name) for name in names}
        limits = Limits(**given, readable=tuple(readable), batch=batch, confined=not unconfined)
        return command(*words, limits=limits, **others)

    options = [
        click.option(option, type=float, default=default, show_default=True, help=others.get(option, text))
        for option, default, text in _LIMITS
    ]
    readable = click.option(
        "--readable",
        multiple=True,
        type=PATH,
        default=(),
        help=others.get("--readable", "What else detectors may read. May be repeated."),
    )
    for option in reversed((*options, readable, *(() if ranked else _UNRANKED))):
        limited = option(limited)
    return limited


@dataclass(frozen=True)
class EngineOptions:
    """The options of an engine, None where one was not given. Settings of one engine alone begin with its name."""

    engine: str = "local"
    workers: int | None = None
    memory: float | None = None  # GiB
    ray_address: str | None = None
    ray_gpus: int | None = None
    slurm_partition: str | None = None
    slurm_account: str | None = None
    slurm_cpus: int | None = None
    slurm_gpus: int | None = None
    slurm_minutes: int | None = None
    slurm_cluster: str | None = None

    def settings(self, out: Path, device: str, minutes: float | None = None) -> Any:
        """The engine's settings; InputError for an option that does not go with it. out: the data set's folder."""
        from trainwreck.scenarios.datasets.engines import engine

        if minutes is not None and self.engine == "slurm":
            raise InputError(
                f"minutes: {minutes:g} is not allowed with the engine slurm, which has taken all bundles by then; "
                "allowed: --slurm-minutes, for each of its tasks"
            )
        workers = 1 if self.workers is None and self.engine == "local" and device != "cpu" else self.workers
        memory = None if self.memory is None else int(self.memory * GIB)
        own = {f.name: getattr(self, f.name) for f in fields(self) if "_" in f.name}
        return engine(self.engine, out, workers, memory, own)


_ENGINE = (
    workers_option,
    click.option(
        "--engine",
        type=OneOf(choices.ENGINES),
        default="local",
        show_default=True,
        help="Where runs are trained: worker processes, Ray actors or SLURM tasks.",
    ),
    click.option(
        "--memory",
        type=Number(min_open=True),
        help="GiB for all workers of this machine, by default three quarters of what it has; with ray and slurm "
        "for each actor or task.",
    ),
    click.option("--ray-address", help="Of a running cluster; one is started on this machine by default."),
    click.option("--ray-gpus", type=click.IntRange(0), help="GPUs of an actor; none by default."),
    click.option("--slurm-partition", help="As sbatch takes it."),
    click.option("--slurm-account", help="As sbatch takes it."),
    click.option("--slurm-cpus", type=click.IntRange(1), help="Cores of a task; 1 by default."),
    click.option("--slurm-gpus", type=click.IntRange(0), help="GPUs of a task; none by default."),
    click.option("--slurm-minutes", type=click.IntRange(1), help="Time of a task, which is one bundle; 60 by default."),
    click.option(
        "--slurm-cluster",
        type=OneOf(choices.SLURM_CLUSTERS),
        help="local: tasks as processes of this machine, to try it out.",
    ),
)


def engine_options(command: Callable[..., Any]) -> Any:
    """Options of the engine; the command gets them as `engine`, an `EngineOptions`."""
    names = [f.name for f in fields(EngineOptions)]

    @wraps(command)
    def chosen(*words: Any, **options: Any) -> Any:
        engine = EngineOptions(**{name: options.pop(name) for name in names})
        return command(*words, engine=engine, **options)

    for option in reversed(_ENGINE):
        chosen = option(chosen)
    return chosen


def backend_options(command: Callable[..., Any]) -> Any:
    """--device and --impl, for `as_backend`."""
    return device_option(impl_option(command))


def as_severity(text: str | None) -> Any:
    """The member, None for None."""
    from trainwreck.scenarios.datasets.plans import member
    from trainwreck.scenarios.spec.scenario import Severity

    return member(Severity, "severity", text)


def as_size(text: str | None) -> Any:
    """The member, None for None."""
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


def one_blas_thread() -> None:
    """To be called before numpy is loaded: products of a score are small, and more threads cost more than they give."""
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def check_weights(out: Path, name: str) -> None:
    """InputError for a file that could not be written at the end, before minutes of work. name: of the option."""
    if out.suffix != ".npz" or out.is_dir():
        raise InputError(f"{name}: {str(out)!r} is not allowed; allowed: a file that ends in .npz")
    parent = next(folder for folder in out.absolute().parents if folder.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise InputError(f"{name}: {str(out)!r} can't be written; allowed: a file in a folder that can be")
