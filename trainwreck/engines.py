"""The options of `generate` that say where runs are trained."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from trainwreck.evaluation.errors import InputError
from trainwreck.options import workers_option

GIB = 2**30


@dataclass(frozen=True)
class EngineWords:
    """What was said of an engine, None where nothing was. Settings of one engine alone begin with its name."""

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
        """The engine's settings; InputError for a word that does not go with it. out: the data set's folder."""
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


OPTIONS = (
    workers_option,
    click.option("--engine", default="local", show_default=True, help="local, ray or slurm."),
    click.option(
        "--memory",
        type=click.FloatRange(0, min_open=True),
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
    click.option("--slurm-cluster", help="slurm, or local: tasks as processes of this machine, to try it out."),
)


def engine_options(command: Callable[..., Any]) -> Any:
    """Options of the engine; the command gets them as `engine`, an `EngineWords`."""
    names = [f.name for f in fields(EngineWords)]

    @wraps(command)
    def chosen(*words: Any, **options: Any) -> Any:
        said = EngineWords(**{name: options.pop(name) for name in names})
        return command(*words, engine=said, **options)

    for option in reversed(OPTIONS):
        chosen = option(chosen)
    return chosen
