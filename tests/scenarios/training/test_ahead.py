"""Inputs sampled ahead by a thread are bitwise those that are sampled when they are needed."""

import threading
from collections import Counter

import pytest
import torch

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import At, Scaled, Setting
from trainwreck.scenarios.spec.run_spec import family_of
from trainwreck.scenarios.training import inputs as module
from trainwreck.scenarios.training import loop
from trainwreck.scenarios.training.inputs import Ahead, inputs
from trainwreck.scenarios.training.loop import train

SHORT = ("steps=24", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=4")


@pytest.fixture
def sampled(monkeypatch):
    """Blocks sampled, by whom: (first step, whether by the thread)."""
    seen = Counter()

    def counted(jobs, steps, rank, dtype):
        seen[steps.start, threading.current_thread() is not threading.main_thread()] += 1
        return inputs(jobs, steps, rank, dtype)

    monkeypatch.setattr(module, "inputs", counted)
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
