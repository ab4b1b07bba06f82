"""Training used as many threads as the caller had set since the first run: one thread was set once a process."""

import os
import subprocess
import sys

import torch

from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.loop import train
from trainwreck.scenarios.views.session import run

SHORT = ("steps=16", "evaluation.rows=4")
# Threads change the last bits of a gradient norm in a few steps.
HASHED = f"""
import hashlib
from trainwreck.scenarios.views.session import run

traces = run("fp16_attention_overflow", *{SHORT}).traces
kept = [(role, name, trace[name].tobytes()) for role, trace in traces.items() for name in sorted(trace.signals)]
print(len(kept), hashlib.sha256(repr(kept).encode()).hexdigest())
"""


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


def test_a_run_has_the_same_numbers_for_any_number_of_threads_offered():
    words = [sys.executable, "-c", HASHED]
    offered = [os.environ | {"OMP_NUM_THREADS": str(n), "MKL_NUM_THREADS": str(n)} for n in (1, 2, 4)]
    started = [subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) for env in offered]
    printed = {process.communicate(timeout=600)[0] for process in started}
    assert len(printed) == 1
    assert int(printed.pop().split()[0]) > 100
