"""What a float8 run logs and keeps, and what a history that stands still does to it."""

import numpy as np
import torch

from trainwreck.models.config import Format
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.training.loop import train

SETUP = replaced(bases.echo_fp8(healthy(Size.MICRO)), data__rows=2, evaluation__rows=2, evaluation__every=2, steps=12)
NAMES = ("float8_saturated", "float8_flushed")


def test_signals_are_of_runs_in_float8(make_job):
    with_, without = train([make_job(3, SETUP), make_job(3, replaced(SETUP, precision__format=Format.FP32))])
    for name in NAMES:
        assert (with_.trace[name] >= 0).all()
        assert (with_.trace[name] <= 1).all()
        assert np.isnan(without.trace[name]).all()


def test_the_history_is_that_of_the_weights_and_evaluation_adds_nothing(make_job):
    state = train([make_job(3, SETUP)], keep={"run-3": range(1, 13)})[0].states
    for step in range(1, 12):  # at step 0 there is none yet
        older, newer = (state[s]["amax_history"] for s in (step, step + 1))
        assert torch.equal(newer[..., :-1], older[..., 1:])
        assert (newer[..., -1] > 0).all()
        # The second operand of the first product is the first layer's qkv.
        size, width = SETUP.model.vocab_size * SETUP.model.width, SETUP.model.width
        start = size + 2 * width  # past the token table and the norm's gain and bias
        qkv = state[step]["parameters"][start : start + 3 * width * width]
        assert newer[0, 1, -1] == qkv.abs().max()


def test_stale_scales_stay_those_of_the_first_step_until_the_cure(make_job):
    entry = scenario("fp8_scale_stale")
    changes = entry.changes_at(entry.knobs, SETUP, 6, 9)
    states = train([make_job(3, SETUP, *changes)], keep={"run-3": range(1, 13)})[0].states
    first = states[1]["amax_history"]
    for step in (7, 8, 9):
        assert torch.equal(states[step]["amax_history"], first)
    assert torch.equal(states[10]["amax_history"][..., :-1], first[..., 1:])
