"""The float16-scores variant: right while nothing overflows, NaN rows from 65520 on."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from trainwreck.kernels.attention import Mask, attention

# Scores from here on round to inf: the largest float16 is 65504, the next would be 65536.
OVERFLOW = 65520.0


def ours(problem: Any) -> tuple[torch.Tensor, Any]:
    return attention(
        problem.q, problem.k, problem.v, mask=problem.mask, scale_N=problem.scale.float(), variant="fp16_scores",
        impl="reference",
    )  # fmt: skip


def eager(problem: Any) -> tuple[torch.Tensor, None]:
    """Eager float16 attention: scores formed in float16, scaled afterwards; float64 inputs stay float64."""
    low = (lambda x: x) if problem.q.dtype == torch.float64 else (lambda x: x.half())
    scores = (low(problem.q) @ low(problem.k).transpose(-1, -2)).to(problem.q.dtype)
    scores = scores * problem.scale.to(scores.dtype).view(-1, 1, 1, 1, 1)
    probs = torch.softmax(scores.masked_fill(~problem.allowed.unsqueeze(2), -torch.inf), -1)
    return probs.to(problem.v.dtype) @ problem.v, None


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 1), (2, 2, 2, 7, 6), (1, 1, 1, 63, 5)])
def test_without_overflow_it_is_attention_with_the_error_of_float16_scores(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    make_problem: Callable[..., Any],
    plain: Callable[..., Any],
    gradients: Callable[..., Any],
    assert_within_budget: Callable[..., None],
) -> None:
    n, b, h, t, width = shape
    problem = make_problem(n=n, b=b, h=h, t=t, width=width, dtype=dtype)
    d_out = torch.randn(problem.v.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    got, own = gradients(ours, problem, d_out), gradients(eager, problem, d_out)
    # The formats that scores pass through, not the inputs', decide what rounding there is.
    assert_within_budget(got, own, gradients(plain, problem.to(torch.float64), d_out), torch.float16)


def scored(score: float, dtype: torch.dtype, scale: float = 1.0) -> tuple[torch.Tensor, Any]:
    """Attention over 4 keys in which the score of query 2 with key 1 is as given, all others 0."""
    q, k, v = torch.zeros(1, 1, 1, 4, 2), torch.zeros(1, 1, 1, 4, 2), torch.eye(4).view(1, 1, 1, 4, 4)[..., :2]
    q[..., 2, 0], k[..., 1, 0] = 256.0, score / 256.0
    args = (q.to(dtype), k.to(dtype), v.to(dtype).contiguous())
    return attention(*args, mask=Mask(), scale_N=torch.tensor([scale]), variant="fp16_scores", impl="reference")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("scale", [1.0, 1e-4])
@pytest.mark.parametrize("score", [OVERFLOW - 32, OVERFLOW - 16, OVERFLOW + 16, 2 * OVERFLOW])
def test_a_row_is_nan_exactly_from_where_float16_overflows(score: float, scale: float, dtype: torch.dtype) -> None:
    overflows = bool(torch.isinf(torch.tensor(score).half()))
    out, stats = scored(score, dtype, scale)
    assert torch.isnan(out[..., 2, :]).all() == overflows
    assert torch.isfinite(out[..., [0, 1, 3], :]).all()
    assert torch.isnan(stats.entropy[..., 2]).all() == overflows
    assert torch.isfinite(stats.entropy[..., [0, 1, 3]]).all()
    assert torch.isinf(stats.logit_max[..., 2]).all() == overflows


def test_the_scale_comes_too_late_to_help_and_the_reference_needs_no_help() -> None:
    late, _ = scored(2 * OVERFLOW, torch.float16, scale=1e-4)
    assert torch.isnan(late[..., 2, :]).all()
    q, k = torch.zeros(1, 1, 1, 4, 2).half(), torch.zeros(1, 1, 1, 4, 2).half()
    q[..., 2, 0], k[..., 1, 0] = 256.0, 2 * OVERFLOW / 256.0
    out, _ = attention(q, k, torch.ones_like(q), mask=Mask(), scale_N=torch.tensor([1e-4]), impl="reference")
    assert torch.isfinite(out).all()


def test_a_score_far_below_zero_overflows_to_no_attention_and_no_nan() -> None:
    out, stats = scored(-2 * OVERFLOW, torch.float32)
    assert torch.isfinite(stats.entropy).all()
    assert out[..., 2, :].tolist() == [[[[0.5, 0.0]]]]


def test_an_overflow_stays_in_its_run_and_its_head(make_problem: Callable[..., Any]) -> None:
    problem = make_problem(n=3, h=2, t=7)
    calm = ours(problem)[0].detach()
    with torch.no_grad():
        problem.q[1, :, 0], problem.k[1, :, 0] = 300.0, 300.0
    out = ours(problem)[0].detach()
    assert torch.isnan(out[1, :, 0]).all()
    assert torch.equal(out[[0, 2]], calm[[0, 2]])
    assert torch.equal(out[1, :, 1], calm[1, :, 1])
