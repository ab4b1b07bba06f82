"""Inputs sampled ahead by a thread or by processes are bitwise those that are sampled when they are needed."""

import os
import signal
import threading
from collections import Counter
from pickle import PicklingError

import numpy as np
import pytest
import torch

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import At, Scaled, Setting
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.run_spec import family_of
from trainwreck.scenarios.training import loop
from trainwreck.scenarios.training.inputs import Ahead, ahead, inputs, processes
from trainwreck.scenarios.training.loop import train

SHORT = ("steps=24", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=4")


@pytest.fixture
def sampled(monkeypatch):
    """Blocks sampled, by whom: (first step, whether by the thread)."""
    seen = Counter()

    def counted(jobs, steps, rank, dtype):
        seen[steps.start, threading.current_thread() is not threading.main_thread()] += 1
        return inputs(jobs, steps, rank, dtype)

    monkeypatch.setattr(ahead, "inputs", counted)
    monkeypatch.setattr(loop, "BLOCK", 4)
    return seen


def same(found, expected, differing, equal_states):
    for a, b in zip(found, expected, strict=True):
        assert differing(a, b) == []
        assert all(equal_states(state, b.states[step]) for step, state in a.states.items())


def test_every_block_but_the_first_of_a_stretch_is_ready(tiny, make_job, sampled, differing, equal_states):
    jobs = [make_job(seed, tiny) for seed in range(3)]
    keep = {job.run_id: [20] for job in jobs}
    expected = train(jobs, keep=keep, ahead=False)
    assert sampled == {(step, False): 1 for step in range(0, 20, 4)}
    sampled.clear()
    found = train(jobs, keep=keep, ahead=True)
    assert sampled == {(0, False): 1} | {(step, True): 1 for step in range(4, 20, 4)}
    same(found, expected, differing, equal_states)


def test_runs_that_part_end_and_change_programs(tiny, make_job, sampled, differing, equal_states, monkeypatch):
    monkeypatch.setattr(loop, "BLOCK", 2)
    jobs = [
        make_job(0, tiny),
        make_job(0, tiny, At(6, Scaled("optimizer.lr", 1e6)), name="blows up"),
        make_job(1, tiny, At(9, Setting("dropout", 0.2), until=15), name="other program"),
        make_job(1, replaced(tiny, steps=11), name="short"),
    ]
    keep = {job.run_id: [7, job.setup.steps] for job in jobs}
    expected, found = (train(jobs, keep=keep, ahead=ahead) for ahead in (False, True))
    assert min(len(result.trace) for result in found) < 20
    assert sum(count for (_, by_thread), count in sampled.items() if by_thread) > 3
    same(found, expected, differing, equal_states)


@pytest.mark.parametrize("name", ["corrupt_tokens", "unshuffled_epochs", "resume_skips_data"])
def test_faults_of_the_data(name, sampled, differing, equal_states):
    jobs = [spec.job() for spec in family_of(name, [3, 4], overrides=SHORT)]
    expected, found = (train(jobs, ahead=ahead) for ahead in (False, True))
    same(found, expected, differing, equal_states)


def test_on_a_cpu_nothing_is_sampled_ahead_unless_asked_for(tiny, make_job, sampled):
    train([make_job(0, tiny)])
    assert not any(by_thread for _, by_thread in sampled)


def test_what_was_begun_for_others_is_not_taken(tiny, make_job):
    jobs, others = [make_job(0, tiny)], [make_job(1, tiny)]
    for begun, steps in ((others, range(4)), (jobs, range(4, 8)), ([*jobs, *others], range(4))):
        ahead = Ahead()
        ahead.begin(begun, steps, 0, torch.float32)
        found = ahead.take(jobs, range(4), 0, torch.float32)
        assert torch.equal(found.inputs, inputs(jobs, range(4), 0, torch.float32).inputs)
        assert ahead.taken == 0
    ahead.begin(jobs, range(4), 0, torch.float32)
    ahead.take(jobs, range(4), 0, torch.float32)
    assert ahead.taken == 1


def test_bad_data_is_said_when_its_block_is_trained(tiny, make_job):
    bad = [make_job(0, replaced(tiny, model__vocab_size=7))]
    ahead = Ahead()
    ahead.begin(bad, range(4), 0, torch.float32)
    with pytest.raises(InputError, match=r"^model\.vocab_size: 7 is not allowed"):
        ahead.take(bad, range(4), 0, torch.float32)


@pytest.fixture
def apart(monkeypatch):
    """Two processes, each of which samples the runs of two seeds at a time."""
    monkeypatch.setattr(ahead, "MANY", 3)
    monkeypatch.setattr(processes, "SEEDS", 2)
    monkeypatch.setattr(processes, "cores", lambda: 3)
    yield
    processes.pool().shutdown()
    processes.pool.cache_clear()


def test_processes_sample_what_one_would(tiny, make_job, apart):
    """Each seed's runs by one of them; in their places whatever the order, and with data of their own."""
    late = At(2, Setting("data.rows", 3))
    jobs = [make_job(seed, tiny, *changes) for changes in ((), (late,)) for seed in (4, 1, 3)]
    assert processes.shared(jobs) == [[0, 1, 3, 4], [2, 5]]
    for steps in (range(2), range(2)):  # the second time with jobs that the processes know
        ahead = Ahead(apart=True)
        ahead.begin(jobs, steps, 0, torch.float32)
        found, right = ahead.take(jobs, steps, 0, torch.float32), inputs(jobs, steps, 0, torch.float32)
        for name in processes.TENSORS:
            assert torch.equal(getattr(found, name).to(getattr(right, name).dtype), getattr(right, name)), name
        assert np.array_equal(found.tokens, right.tokens)
        for one, other in zip(found.host, right.host, strict=True):
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


def test_runs_of_many_seeds_are_the_same(tiny, make_job, apart, differing, equal_states, monkeypatch):
    monkeypatch.setattr(loop, "BLOCK", 5)
    jobs = [
        make_job(seed, tiny, *changes) for seed in range(3) for changes in ((), (At(9, Scaled("optimizer.lr", 9.0)),))
    ]
    jobs = [Job(f"run{i}", job.seed, job.setup, job.changes) for i, job in enumerate(jobs)]
    expected, found = (train(jobs, ahead=ahead) for ahead in (False, True))
    same(found, expected, differing, equal_states)


def test_a_killed_process_is_done_without(tiny, make_job, apart):
    jobs = [make_job(seed, tiny) for seed in range(4)]
    right = inputs(jobs, range(3), 0, torch.float32)
    for _ in range(2):  # and the next block has processes again
        ahead = Ahead(apart=True)
        ahead.begin(jobs, range(3), 0, torch.float32)
        for process in processes.pool()._processes.values():
            os.kill(process.pid, signal.SIGKILL)
        assert torch.equal(ahead.take(jobs, range(3), 0, torch.float32).inputs.long(), right.inputs)


def test_bad_data_is_said_by_a_process_too(tiny, make_job, apart):
    jobs = [make_job(seed, replaced(tiny, model__vocab_size=7)) for seed in range(4)]
    ahead = Ahead(apart=True)
    ahead.begin(jobs, range(4), 0, torch.float32)
    with pytest.raises(InputError, match=r"^model\.vocab_size: 7 is not allowed"):
        ahead.take(jobs, range(4), 0, torch.float32)


def test_a_change_that_processes_cannot_have_is_sampled_here(tiny, make_job, apart, monkeypatch):
    def refused(job):
        raise PicklingError("not found as __main__.Mine")

    monkeypatch.setattr(processes, "packed", refused)
    jobs = [make_job(seed, tiny) for seed in range(4)]
    ahead = Ahead(apart=True)
    ahead.begin(jobs, range(3), 0, torch.float32)
    right = inputs(jobs, range(3), 0, torch.float32)
    assert torch.equal(ahead.take(jobs, range(3), 0, torch.float32).inputs, right.inputs)
