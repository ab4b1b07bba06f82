"""Training used as many threads as the caller had set since the first run: one thread was set once a process."""

import torch

from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.loop import train
from trainwreck.scenarios.views.session import run

SHORT = ("steps=16", "evaluation.rows=4")


def test_threads_set_between_two_runs_are_not_used():
    used = []
    for threads in (2, 4):
        torch.set_num_threads(threads)
        run("fp16_attention_overflow", *SHORT, roles=("twin",))
        used.append(torch.get_num_threads())
    assert used == [1, 1]


def test_every_training_uses_one_thread():
    (spec,) = family_of("mask_missing", [0], roles=(Role.TWIN,))
    torch.set_num_threads(4)
    seen = []
    train([spec.job()], stop=2, watch=lambda block: seen.append(torch.get_num_threads()))
    assert set(seen) == {1}
