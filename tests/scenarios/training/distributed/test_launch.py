"""The processes of a group: what they cannot do, what happens when one dies, and that none stays."""

import os
import select
import signal
import subprocess
import sys

import pytest
import torch

from trainwreck.evaluation.errors import InputError, WorkerLostError
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import At, DataTransform, Setting
from trainwreck.scenarios.training.distributed import launch
from trainwreck.scenarios.training.loop import train

ENDLESS = 10**6
PARENT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs the tests may ignore it
from trainwreck.scenarios.training.distributed import launch
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.config.settings import Setup, replaced
setup = replaced(Setup(), steps=10**6, distributed__ranks=2)
work = {"jobs": [Job("run", 0, setup)], "device": "cpu"}
with launch.started(2, work) as (processes, messages):
    for _, kind, _ in messages:
        print(*(process.pid for process in processes), flush=True)
"""


def ended(pid, seconds=60):
    """Whether a process ends within some seconds."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def working(ranks, jobs):
    """Processes of a group that is at work on jobs, and what they say; at work from the first message on."""
    return launch.started(ranks, {"jobs": jobs, "device": "cpu"})


def test_a_rank_that_is_killed_is_one_clear_error_and_none_stays(tiny, make_job):
    job = make_job(0, replaced(tiny, distributed__ranks=2, steps=ENDLESS))
    with working(2, [job]) as (processes, messages):
        next(messages)
        processes[1].kill()
        with pytest.raises(WorkerLostError, match=r"^rank 1 of 2 was killed by signal 9[^\n]*$"):
            list(messages)
    assert all(process.poll() is not None for process in processes)


def test_a_rank_that_ends_by_itself_says_its_last_words(tiny, make_job):
    def leave(batch, since, draw):
        print("no more rows", file=sys.stderr, flush=True)
        os._exit(3)

    job = make_job(0, replaced(tiny, distributed__ranks=2), At(5, DataTransform(leave, "test")))
    with pytest.raises(WorkerLostError, match=r"^rank \d of 2 ended with status 3: no more rows$"):
        train([job])


def test_bad_input_that_a_rank_meets_is_raised_here(tiny, make_job):
    def stray(batch, since, draw):
        return type(batch)(batch.inputs + 1000, batch.targets, batch.weights, batch.documents)

    job = make_job(0, replaced(tiny, distributed__ranks=2), At(5, DataTransform(stray, "test")))
    with pytest.raises(InputError, match=r"^model.vocab_size: 64 is not allowed with this data"):
        train([job])


def test_ranks_whose_telemetry_nobody_asks_for_end_where_they_do_with_it(tiny, make_job):
    """Points of no return are searched for so, and checks before a run."""
    job = make_job(0, replaced(tiny, distributed__ranks=2))
    keep = {job.run_id: [3]}
    silent, told = (train([job], keep=keep, stop=3, record=record)[0] for record in (False, True))
    for name, value in told.states[3].items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(silent.states[3][name], value)
    assert len(told.trace) == 3


def test_the_number_of_ranks_stays(tiny, make_job):
    job = make_job(0, tiny, At(5, Setting("distributed.ranks", 2)))
    with pytest.raises(ValueError, match=r"^distributed.ranks: 2 is not allowed in mid-run"):
        train([job])


def test_rows_are_shared_evenly(tiny, make_job):
    with pytest.raises(InputError, match=r"^data.rows: 4 is not allowed; allowed: multiples of distributed.ranks, 3$"):
        train([make_job(0, replaced(tiny, distributed__ranks=3))])


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="has the devices")
def test_a_rank_needs_a_device_of_its_own(tiny, make_job):
    with pytest.raises(InputError, match=r"^distributed.ranks: 2 is not allowed with [01] devices; allowed: "):
        train([make_job(0, replaced(tiny, distributed__ranks=2))], device="cuda")


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for processes as Linux lets it")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_rank_outlives_who_started_it(how):
    with subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        ranks = [int(pid) for pid in parent.stdout.readline().split()]
        parent.send_signal(how)
        try:
            parent.communicate(timeout=60)
        finally:
            parent.kill()
    assert len(ranks) == 2
    assert all(ended(pid) for pid in ranks)
