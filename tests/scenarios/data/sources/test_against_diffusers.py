"""The share of tokens that a timestep masks, against the masked scheduler of diffusers.

Its schedulers of masked tokens have the share and no weights of a loss: those are held against the evidence bound of
the papers in `test_masking`.
"""

import math

import numpy as np
import pytest
import torch

from trainwreck.scenarios.data.masking import masks

pytestmark = [
    pytest.mark.objectives,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

TOKENS, ROWS, HIDDEN = 16, 4000, 7


def test_a_timestep_masks_the_share_that_the_linear_schedule_has():
    diffusers = pytest.importorskip("diffusers")
    scheduler = diffusers.AmusedScheduler(mask_token_id=HIDDEN, masking_schedule="linear")
    scheduler.set_timesteps(TOKENS)
    draw = torch.Generator().manual_seed(0)
    documents = np.zeros((ROWS, TOKENS + 1), int)  # the first token is given
    for step, timestep in enumerate(scheduler.timesteps):
        theirs = scheduler.add_noise(torch.zeros(ROWS, TOKENS, dtype=torch.int64), timestep, draw) == HIDDEN
        t = 1 - (step + 1) / TOKENS
        draws = np.random.default_rng(step).random(documents.shape)
        ours = masks(documents, np.full(ROWS, t), draws)[:, 1:]
        if t > 0:  # at 0 a row has one masked token, so that it counts
            assert ours.mean() == pytest.approx(t)
            spread = 4 * math.sqrt(t * (1 - t) / ROWS)
            assert float(theirs.float().mean()) == pytest.approx(t, abs=spread / math.sqrt(TOKENS))
            for found in (ours.mean(0), theirs.float().mean(0).numpy()):
                assert found == pytest.approx(np.full(TOKENS, t), abs=spread)
