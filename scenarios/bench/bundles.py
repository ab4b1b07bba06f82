"""Bundles of healthy runs of size micro, and subjects that train in turn."""

from collections.abc import Callable, Mapping
from time import perf_counter

import numpy as np
import torch

from trainwreck.evaluation.progress import Tick
from trainwreck.models.precision import Format
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.bundle import Lane, Place
from trainwreck.scenarios.training.loop import fresh_state

ROUNDS = 15
STEPS = 25  # of a run, a round

Work = Callable[[], object]
Subjects = Mapping[str, tuple[Work, int]]  # what a round does by name, and of how many runs


def bundle(
    runs: int,
    *,
    record: bool,
    validate: bool = True,
    device: str = "cpu",
    impl: str | None = None,
    fmt: Format = Format.FP32,
    graphs: bool = False,
) -> Work:
    """A function that trains a bundle for STEPS steps, the last with validation; its batches are sampled here."""
    setup = replaced(healthy(Size.MICRO), evaluation__every=STEPS if validate else 10**6, precision__format=fmt)
    steps = range(1, STEPS + 1)
    jobs = [Job(f"run{i}", i, setup) for i in range(runs)]
    for job in jobs:
        training_block(setup, job.seed, steps)
    place = Place(torch.device(device), impl=impl, graphs=graphs)
    lane = Lane(jobs, [fresh_state(job) for job in jobs], 0, place)
    return lambda: lane.run(steps, record)


def seconds_in_turn(
    subjects: Subjects, tick: Tick, settle: Callable[[], object] = lambda: None
) -> dict[str, np.ndarray]:
    """Seconds that each subject takes for STEPS steps of one run, by round (the first is not counted).

    settle: called before each reading of the clock, for a device that works on by itself.
    """
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for done in range(ROUNDS + 1):
        for name, (work, runs) in subjects.items():
            settle()
            began = perf_counter()
            work()
            settle()
            if done:
                seconds[name].append((perf_counter() - began) / runs)
        tick(done, ROUNDS, "round")
    return {name: np.array(values) for name, values in seconds.items()}
