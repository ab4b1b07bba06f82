"""Processor time of several subjects, in turn, round after round, in one process."""

from collections.abc import Callable, Mapping
from time import process_time

import numpy as np

from trainwreck.evaluation.progress import Tick


def processor_seconds(subjects: Mapping[str, Callable[[], object]], rounds: int, tick: Tick) -> dict[str, np.ndarray]:
    """Of each round of each subject, [rounds]; one round before them counts for nothing."""
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for done in range(-1, rounds):
        for name, work in subjects.items():
            start = process_time()
            work()
            if done >= 0:
                seconds[name].append(process_time() - start)
        tick(done + 1, rounds, "round")
    return {name: np.array(taken) for name, taken in seconds.items()}


def quartiles(values: np.ndarray, digits: int = 3) -> str:
    """The first and the third, in words."""
    low, high = np.quantile(values, (0.25, 0.75))
    return f"{low:.{digits}f} to {high:.{digits}f}"


def part(tick: Tick, done: int, parts: int) -> Tick:
    """Progress of one of several measurements of as many rounds, of which some are done."""
    return lambda so_far, rounds, what: tick(done * rounds + so_far, parts * rounds, what)
