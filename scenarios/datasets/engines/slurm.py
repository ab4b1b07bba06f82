"""Tasks of a SLURM array, through submitit. Needs the extra `slurm`.

    OUT/.slurm/           what submitit hands to the tasks and gets back, and their logs; gone at the end unless a task
                          was lost
    OUT/.slurm/jobs.json  jobs under way: those that a killed parent left are cancelled by the next one

OUT must be on a file system that the nodes share. A task that dies or runs over its time is lost, and is submitted
again. submitit's documentation, "API reference", has the executors and their parameters.
"""

import contextlib
import math
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.files import read_json, write_json
from trainwreck.scenarios.datasets.engines.call import Call, End, Ended, attempt
from trainwreck.scenarios.datasets.engines.engine import Engine

FOLDER = ".slurm"
MOST = 1000  # tasks of an array: SLURM's own default of MaxArraySize allows 1001
ENDING = 10.0  # seconds that a process of this machine has to end in
POLLS = {"slurm": 5.0, "local": 0.1}  # seconds between two looks at what has come back


@dataclass(frozen=True)
class Slurm:
    """folder: of the data set. workers: tasks of an array that run at once.

    partition, account: as sbatch takes them. cpus, gpus, minutes, memory (bytes): of each task, which trains one
    bundle. cluster: `local` runs the tasks as processes of this machine, by submitit's local executor.
    """

    folder: Path
    workers: int = 256
    partition: str | None = None
    account: str | None = None
    cpus: int = 1
    gpus: int = 0
    minutes: int = 60
    memory: int | None = None
    cluster: str = "slurm"
    name: str = "slurm"

    def __post_init__(self) -> None:
        if self.cluster not in POLLS:
            raise unknown("slurm-cluster", self.cluster, POLLS)

    def check(self) -> None:
        _library()
        if self.cluster == "slurm" and shutil.which("sbatch") is None:
            raise InputError("engine: 'slurm' is not allowed without sbatch; allowed: on a machine that submits jobs")

    def fit(self, least: int, device: str) -> "Slurm":
        return self

    def share(self, device: str) -> int | None:
        return self.memory

    def start(self, pieces: int) -> Engine:
        return Array(self)


class Array:
    """Each lot of calls is one array, the first the costliest; the next lot goes in when half of it is done."""

    doubles = False

    def __init__(self, settings: Slurm) -> None:
        self.submitit = _library()
        self.settings = settings
        on_slurm = settings.cluster == "slurm"
        self.slots = MOST if on_slurm else settings.workers
        self.refill = MOST // 2 if on_slurm else settings.workers - 1
        self.workers = None if on_slurm else settings.workers
        self.folder = settings.folder.absolute() / FOLDER
        self._jobs: dict[int, Any] = {}
        self._lost = False
        self._cancel_left()
        # -P: of the folder that a task starts in nothing is imported; a checkout has this package's name.
        python = {f"{name}_python": f"{shlex.quote(sys.executable)} -P" for name in POLLS}
        executor = self.submitit.AutoExecutor(folder=self.folder / "%j", cluster=settings.cluster, **python)
        executor.update_parameters(**_parameters(settings))
        self.executor = executor

    def submit(self, calls: Sequence[Call]) -> None:
        """InputError with sbatch's own words where it refuses."""
        try:
            with self.executor.batch():
                jobs = [self.executor.submit(attempt, call) for call in calls]
        except self.submitit.core.utils.FailedJobError as error:
            raise InputError(f"engine: sbatch refuses the array: {' '.join(str(error).split())}") from None
        self._jobs |= dict(zip((call.ticket for call in calls), jobs, strict=True))
        self._note()

    def ended(self, seconds: float | None) -> list[Ended]:
        until = None if seconds is None else monotonic() + seconds
        while True:
            done = [ticket for ticket, job in self._jobs.items() if job.done()]
            if done or (until is not None and monotonic() >= until):
                found = [self._end(ticket) for ticket in done]
                self._note()
                return found
            sleep(POLLS[self.settings.cluster])

    def _end(self, ticket: int) -> Ended:
        job = self._jobs.pop(ticket)
        try:
            ended: Ended = job.result()
        except (self.submitit.core.utils.UncompletedJobError, self.submitit.core.utils.FailedJobError) as error:
            self._lost = True
            words = [line for line in str(error).splitlines() if line.strip("- ")]
            return Ended(ticket, End.LOST, why=f"lost its task, job {job.job_id} ({words[-1].strip()})")
        return ended

    def cancel(self, ticket: int) -> None:
        job = self._jobs.pop(ticket, None)
        if job is not None:
            job.cancel(check=False)
            self._note()

    def close(self) -> None:
        jobs = list(self._jobs.values())
        for ticket in list(self._jobs):
            self.cancel(ticket)
        until = monotonic() + ENDING
        while self.settings.cluster == "local" and not all(job.done() for job in jobs) and monotonic() < until:
            sleep(POLLS["local"])
        if not self._lost:  # else the logs tell why
            with contextlib.suppress(OSError):  # a task that is being cancelled may still write there
                shutil.rmtree(self.folder)

    def _note(self) -> None:
        write_json(
            self.folder / "jobs.json",
            {"cluster": self.settings.cluster, "jobs": sorted({job.job_id for job in self._jobs.values()})},
        )

    def _cancel_left(self) -> None:
        """Jobs of a parent that is gone: what they train is submitted again. (A local one has no number to keep.)"""
        noted = self.folder / "jobs.json"
        if self.settings.cluster == "slurm" and noted.exists():
            left = read_json(noted)
            for number in left["jobs"] if left["cluster"] == "slurm" else ():
                self.submitit.SlurmJob(self.folder / "%j", number).cancel(check=False)


def _parameters(settings: Slurm) -> dict[str, Any]:
    """By submitit's names; its other executors ignore those that begin with `slurm_`."""
    requested: dict[str, Any] = {
        "name": "trainwreck",
        "timeout_min": settings.minutes,
        "cpus_per_task": settings.cpus,
        "gpus_per_node": settings.gpus or None,
        "mem_gb": None if settings.memory is None else math.ceil(settings.memory / 2**28) / 4,
        "slurm_partition": settings.partition,
        "slurm_account": settings.account,
        "slurm_array_parallelism": settings.workers,
    }
    return {name: value for name, value in requested.items() if value is not None}


def _library() -> Any:
    try:
        import submitit
    except ImportError:
        raise InputError(
            "engine: 'slurm' is not allowed without submitit; allowed: pip install 'trainwreck[slurm]', or local"
        ) from None
    return submitit
