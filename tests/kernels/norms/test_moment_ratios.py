"""The mean of g^2 / max(v, least), by each implementation, against float64 and with broken numbers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from trainwreck.kernels.norms import moment_ratios

LEAST = torch.tensor([1e-37, 0.3])


@pytest.mark.parametrize("widths", [[1], [1, 15], [5, 1, 17], [8191, 8193, 20_000]], ids=str)
def test_it_is_the_formula(widths: list[int], kernel: Any, cut: Callable, poisoned: Callable) -> None:
    grads, second = kernel.drawn((2, sum(widths))), kernel.drawn((2, sum(widths)), 1).square()
    least = LEAST.to(kernel.device)
    with poisoned():
        got = moment_ratios(grads, second, least, cut(widths), kernel.impl)
    ratio = grads.double() ** 2 / second.double().clamp(min=least.double()[:, None])
    means = torch.stack([ratio[:, a:b].mean(1) for a, b in cut(widths)], 1)
    torch.testing.assert_close(got.double(), means, rtol=1e-5, atol=0)
    assert torch.equal(moment_ratios(grads[1:], second[1:], least[1:], cut(widths), kernel.impl), got[1:])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter's, by NumPy
@pytest.mark.parametrize("where", ["grads", "second"])
def test_what_is_nan_is_so_in_its_segment_and_run_alone(where: str, kernel: Any, cut: Callable) -> None:
    parts = {"grads": torch.ones(2, 70), "second": torch.ones(2, 70)}
    parts[where][1, 31] = torch.nan
    grads, second = (x.to(kernel.device) for x in parts.values())
    got = moment_ratios(grads, second, LEAST.to(kernel.device), cut([30, 40]), kernel.impl)
    assert got.isnan().tolist() == [[False, False], [False, True]]
