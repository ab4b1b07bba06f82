"""What a bundle is said to take is what it takes, and memory decides how many of its runs are held side by side."""

import dataclasses
import pickle
import subprocess
import sys

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.datasets.resources import FACTOR, MIB, PROCESS, SOURCES, core_seconds, needed, width_within
from trainwreck.scenarios.spec.run_spec import Role, family_of

MICRO, CHAIN = healthy(Size.MICRO), bases.chain(healthy(Size.MICRO))
# Setup, runs, steps.
SHAPES = {
    "chain, 1": (CHAIN, 1, 60),
    "chain, 16": (CHAIN, 16, 60),
    "chain, 64": (CHAIN, 64, 20),
    "chain, rows of 128": (replaced(CHAIN, model__context=128), 16, 20),
    "micro, 1": (MICRO, 1, 30),
    "micro, 16": (MICRO, 16, 10),
    "micro, 48 rows": (replaced(MICRO, data__rows=48), 4, 30),
    "deep, 16": (healthy(Size.DEEP), 16, 20),
    "small, 1": (healthy(Size.SMALL), 1, 3),
    "small, 2": (healthy(Size.SMALL), 2, 3),
}
# Trains a bundle as a worker does, and prints the most memory that the process ever had: on Linux not by getrusage,
# which begins at the size of the process that started this one.
CHILD = """
import pickle, resource, sys
from pathlib import Path

from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.datasets import generate
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.loop import train

prepare()
setups = pickle.load(sys.stdin.buffer)
train([Job("first", 0, replaced(setups[0], steps=1))])
jobs = [Job(f"run{i}", i, setup) for i, setup in enumerate(setups)]
kept = train(jobs, keep={job.run_id: range(2, 2 + int(sys.argv[1])) for job in jobs})
if sys.platform == "linux":
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    print(int(line.split()[1]) * 1024)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.fixture(scope="module")
def specs():
    return family_of("mask_missing", range(16), roles=[Role.FAULTY])


def setups_of(setup, runs, steps):
    """Of a bundle of healthy runs, evaluated on few rows: these runs are short, and evaluated twice at least."""
    return [replaced(setup, steps=steps, evaluation__rows=setup.data.rows)] * runs


def peak_of(setups, states=0):
    """Bytes of a process that trains a bundle and keeps so many states of each run."""
    words = [sys.executable, "-P", "-c", CHILD, str(states)]
    done = subprocess.run(words, input=pickle.dumps(setups), capture_output=True, check=True)
    return int(done.stdout.splitlines()[-1])


def test_the_peak_of_a_bundle_is_as_estimated():
    setups = setups_of(MICRO, 4, 20)
    peak, estimate = peak_of(setups), needed(setups, 4)
    assert 1 / FACTOR < estimate / peak < FACTOR
    own = PROCESS + SOURCES
    assert (peak - own) > 50 * MIB
    assert 1 / FACTOR < (estimate - own) / (peak - own) < FACTOR


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_the_peak_of_bundles_of_other_shapes_is_as_estimated(shape):
    setup, runs, steps = SHAPES[shape]
    setups = setups_of(setup, runs, steps)
    assert 1 / FACTOR < needed(setups, runs) / peak_of(setups) < FACTOR


def test_the_peak_with_states_held_is_as_estimated():
    """A run of many parameters and few tokens, whose states are kept as a search for its p keeps them."""
    setup = replaced(
        MICRO, model__width=256, model__heads=4, model__context=16, data__rows=2, steps=30, evaluation__rows=2
    )
    peak, estimate = peak_of([setup] * 2, states=12), needed([setup] * 2, 2, states=12)
    own = PROCESS + SOURCES
    assert needed([setup] * 2, 2, states=12) - needed([setup] * 2, 2) > 0.5 * (estimate - own)
    assert 1 / FACTOR < (estimate - own) / (peak - own) < FACTOR


def test_more_of_anything_takes_more():
    setup = healthy(Size.MICRO)
    base = needed([setup] * 4, 4)
    for path, value in {
        "model.width": 128, "model.layers": 4, "model.context": 128, "model.vocab_size": 256, "data.rows": 48,
        "distributed.ranks": 2, "steps": 4000,
    }.items():  # fmt: skip
        assert needed([replaced(setup, **{path.replace(".", "__"): value})] * 4, 4) > base
        assert core_seconds([replaced(setup, **{path.replace(".", "__"): value})] * 4) >= core_seconds([setup] * 4)
    assert needed([setup] * 8, 8) > base > needed([setup] * 4, 2) > needed([setup] * 4, 1)


def test_the_width_is_the_largest_half_that_fits(specs):
    setups = [spec.setup for spec in specs]
    for width in (16, 8, 4, 2, 1):
        assert width_within(specs, needed(setups, width)) == width
        assert needed(setups, width_within(specs, needed(setups, width) + MIB)) <= needed(setups, width) + MIB
    assert width_within(specs, None) == 16


def test_no_room_for_one_run_is_one_line(specs):
    with pytest.raises(InputError, match=r"^memory: 0\.10 GiB a worker is not allowed for a run of mask_missing at"):
        width_within(specs, int(0.1 * 2**30))


def test_estimates_weigh_the_runs_of_a_bundle(specs):
    setup = specs[0].setup
    assert core_seconds([setup] * 8) > core_seconds([setup] * 4) > core_seconds([setup])
    longer = dataclasses.replace(setup, steps=2 * setup.steps)
    assert core_seconds([longer] * 4) == pytest.approx(2 * core_seconds([setup] * 4))
