"""A small setup, jobs made from it, and bitwise comparison."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import At, State
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.loop import Result, train


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    prepare()


@pytest.fixture(scope="session")
def tiny() -> Setup:
    """Two layers of width 32, four rows of 32 tokens, 20 steps."""
    return replaced(
        Setup(),
        model__width=32, model__heads=2, model__context=32, data__rows=4, steps=20,
        evaluation__every=7, evaluation__rows=6, schedule__warmup_steps=5, tail=3,
    )  # fmt: skip


@pytest.fixture(scope="session")
def make_job() -> Callable[..., Job]:
    """A job named by its seed."""

    def make(seed: int, setup: Setup, *changes: At, name: str = "") -> Job:
        return Job(name or f"run-{seed}", seed, setup, changes)

    return make


def _differing(a: Result, b: Result, first: int = 0, last: int | None = None) -> list[str]:
    rows = slice(first, last)
    return [
        name
        for name, values in a.trace.signals.items()
        if not np.array_equal(values[rows], b.trace[name][rows], equal_nan=True)
    ]


def _equal_states(a: State, b: State) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name].nan_to_num(7.0), b[name].nan_to_num(7.0)) for name in a)


@pytest.fixture(scope="session")
def differing() -> Callable[..., list[str]]:
    """Names of the signals that are not bitwise the same in rows first:last of two results."""
    return _differing


@pytest.fixture(scope="session")
def equal_states() -> Callable[[State, State], bool]:
    """Whether two states are bitwise the same."""
    return _equal_states


@pytest.fixture(scope="session")
def train_together_and_alone() -> Callable[[list[Job], int], list[Result]]:
    """Trains jobs in one bundle and each alone: telemetry, and the state at a step, are bitwise the same."""

    def trained(jobs: list[Job], step: int) -> list[Result]:
        together = train(jobs, keep={job.run_id: [step] for job in jobs})
        for job, beside in zip(jobs, together, strict=True):
            (alone,) = train([job], keep={job.run_id: [step]})
            assert not _differing(alone, beside), job.run_id
            assert _equal_states(alone.states[step], beside.states[step]), job.run_id
        return together

    return trained


class _Noted:
    """In place of a CUDA graph: work that is noted is done again as it was, whatever has become of the step by then."""

    def __init__(self):
        self.work, self.done = None, []

    def warm_up(self, work):
        self.done.append("warm up")
        work()

    def capture(self, work):
        self.done.append("capture")
        self.work = work

    def replay(self):
        self.done.append("replay")
        self.work()


@pytest.fixture(scope="session")
def noted() -> type[_Noted]:
    """What stands in for `captured.CudaGraph` without a device; `done` is what was asked of it."""
    return _Noted
