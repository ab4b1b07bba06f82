"""Real rounding of bfloat16 and float16, and linear layers within twice the error of PyTorch's own."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trainwreck.kernels.dtypes import widen
from trainwreck.models.config import Format
from trainwreck.models.precision import linear, lower

# Outside of the products that `float8` scales, FP8 is float32.
DTYPE = {
    Format.FP32: torch.float32, Format.BF16: torch.bfloat16, Format.FP16: torch.float16, Format.FP8: torch.float32,
}  # fmt: skip
HALF = [Format.BF16, Format.FP16]
SHAPES = [(1, 1, 1, 1), (2, 7, 5, 3), (3, 63, 100, 9), (2, 16, 64, 32)]


@pytest.mark.parametrize("format", Format)
def test_lowering_rounds_as_the_dtype_does(format: Format) -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0)) * 10.0 ** torch.linspace(-9, 6, 1000)
    assert torch.equal(lower(x, format), x.to(DTYPE[format]))
    assert torch.equal(widen(lower(x, format)), x.to(DTYPE[format]).float())
    assert lower(x.double(), Format.FP32).dtype == widen(x.double()).dtype == torch.float64


def test_halfway_cases_go_to_even_and_float16_ends_at_65504() -> None:
    bf16 = lower(torch.tensor([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, 1e38]), Format.BF16)
    assert bf16.tolist() == [1.0, 1 + 2.0**-6, 1 + 2.0**-7, float(torch.tensor(1e38).bfloat16())]
    fp16 = lower(torch.tensor([65504.0, 65519.0, 65520.0, -65520.0, 2.0**-24, 2.0**-26]), Format.FP16)
    assert fp16.tolist() == [65504.0, 65504.0, torch.inf, -torch.inf, 2.0**-24, 0.0]


def results(
    fn: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None, d_out: Tensor
) -> dict[str, Tensor]:
    given = {"x": x, "weight": weight} | ({} if bias is None else {"bias": bias})
    leaves = {name: value.detach().clone().requires_grad_() for name, value in given.items()}
    out = fn(leaves["x"], leaves["weight"], leaves.get("bias"))
    grads = torch.autograd.grad(out, list(leaves.values()), d_out.to(out.dtype))
    return {"out": out.detach()} | dict(zip(leaves, grads, strict=True))


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("format", Format)
def test_linear_is_within_twice_the_error_of_a_plain_layer_of_that_dtype(
    format: Format, shape: tuple[int, ...], biased: bool
) -> None:
    n, m, i, o = shape
    dtype = DTYPE[format]
    totals = torch.zeros(2, 4, dtype=torch.float64)
    for seed in range(8):
        random = torch.Generator().manual_seed(seed)
        x, weight = torch.randn(n, m, i, generator=random), torch.randn(n, i, o, generator=random) / i**0.5
        bias = torch.randn(n, o, generator=random) if biased else None
        d_out = torch.randn(n, m, o, generator=random).to(dtype)
        got = results(lambda x, w, b: linear(x, w, b, format), x, weight, bias, d_out)
        assert got["out"].dtype == dtype
        assert all(value.dtype == torch.float32 for name, value in got.items() if name != "out")
        for run in range(n):
            args = (x[run], weight[run], None if bias is None else bias[run], d_out[run])
            plain = results(
                lambda x, w, b: F.linear(x.to(dtype), w.T.to(dtype), None if b is None else b.to(dtype)), *args
            )
            exact = results(lambda x, w, b: F.linear(x, w.T, b), *(None if a is None else a.double() for a in args))
            for k, name in enumerate(got):
                for row, value in enumerate((got[name][run], plain[name])):
                    totals[row, k] += (value.double() - exact[name]).norm() ** 2
    error, own = totals.sqrt()
    assert bool((error <= 2 * own).all()), f"{error.tolist()}, plain: {own.tolist()}"


@pytest.mark.parametrize("format", HALF)
def test_operands_are_rounded_before_and_sums_are_not_rounded_on_the_way(format: Format) -> None:
    dtype = DTYPE[format]
    random = torch.Generator().manual_seed(0)
    x, weight = torch.randn(1, 5, 4096, generator=random), torch.randn(1, 4096, 3, generator=random)
    exact = x.to(dtype).double() @ weight.to(dtype).double()
    got = linear(x, weight, None, format).double()
    # Half an ulp from rounding the result, and float32's error of a sum of 4096 numbers.
    slack = 4096 * torch.finfo(torch.float32).eps * (x.abs().double() @ weight.abs().double())
    assert bool(((got - exact).abs() <= exact.abs() * torch.finfo(dtype).eps / 2 + slack).all())


def test_float16_products_overflow_at_65520_and_not_below() -> None:
    x, weight = torch.full((1, 1, 4), 128.0), torch.full((1, 4, 2), 128.0)
    weight[..., 1] = 127.75  # 65408 in all
    assert linear(x, weight, None, Format.FP16).tolist() == [[[torch.inf, 65408.0]]]
    assert linear(x, weight, None, Format.BF16).tolist() == [[[65536.0, 65536.0]]]


@pytest.mark.parametrize("format", Format)
def test_every_run_has_its_own_weights(format: Format) -> None:
    x, weight = torch.ones(3, 2, 4), torch.arange(3.0).view(3, 1, 1).expand(3, 4, 5)
    out = linear(x, weight, torch.tensor([[0.5], [0.25], [0.0]]).expand(3, 5), format)
    assert out[:, 0, 0].tolist() == [0.5, 4.25, 8.0]
