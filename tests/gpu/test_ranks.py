"""Ranks on GPUs of their own, over NCCL: against one process, and a second time."""

import numpy as np
import pytest
import torch

from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.loop import train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices"),
]


def test_two_devices_are_one_but_for_rounding():
    setup = replaced(healthy(Size.MICRO), steps=20)
    one = train([Job("one", 0, setup)], device="cuda")[0].trace
    runs = [train([Job("two", 0, replaced(setup, distributed__ranks=2))], device="cuda")[0].trace for _ in range(2)]
    for name, values in runs[0].signals.items():
        assert np.array_equal(values, runs[1][name], equal_nan=True), name
    for name in ("loss", "validation_loss", "grad_norm", "layer_weight_norm"):
        np.testing.assert_allclose(runs[0][name], one[name], rtol=1e-3, err_msg=name)
    assert (runs[0]["rank_weight_hash"][:, 0] == runs[0]["rank_weight_hash"][:, 1]).all()
