"""Output and gradients of the fused kernels against float64, within twice the error of the same precision."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from trainwreck.kernels.attention import Mask, attention

Fn = Callable[..., Any]
# Lengths around a tile's end, widths that are no power of two, one token.
SHAPES = [
    (1, 1, 1, 1, 16), (2, 2, 2, 33, 48), (2, 1, 2, 63, 100), (1, 2, 1, 64, 64), (1, 1, 2, 111, 16), (1, 1, 1, 65, 128),
    (1, 3, 1, 17, 5),
]  # fmt: skip


def random_table(n: int, t: int, seed: int = 0) -> torch.Tensor:
    """Any keys at all, each query's own among them."""
    table = torch.rand(n, t, t, generator=torch.Generator().manual_seed(seed)) < 0.6
    return table | torch.eye(t, dtype=torch.bool)


MASKS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "plain": lambda n, t: {},
    "one document": lambda n, t: {"documents_NBT": None},
    "leaky table": lambda n, t: {"allowed_NTS": random_table(n, t), "leaky": True},
    "documents ignored": lambda n, t: {"documents_N": torch.arange(n) % 2 == 1, "leaky": True},
}


@pytest.fixture
def compare(
    make_problem: Fn, attended: Fn, plain: Fn, gradients: Fn, magnitudes: Fn, assert_within_budget: Fn
) -> Callable[..., None]:
    """The kernels' output and gradients are within twice the error of the same precision.

    For output and dV that is the reference's error. For dQ and dK of half formats it is that of plain
    PyTorch: the reference doesn't round what it subtracts in the softmax's gradient, nor, for dK, the
    score gradients, as fused kernels have to. With `few` numbers the other's rounding may be lucky: then
    half an ulp of the dtype is allowed as well, what one rounding costs.
    """

    def check(kind: str, dtype: torch.dtype, few: bool = False, **shape: Any) -> None:
        problem = make_problem(dtype=dtype, mask=MASKS[kind](shape["n"], shape["t"]), **shape)
        random = torch.Generator().manual_seed(1)
        d_out = torch.randn(problem.v.shape, generator=random).to(dtype).to(problem.v.device)
        exact = gradients(partial(attended, impl="reference"), problem.to(torch.float64), d_out)
        own = gradients(partial(attended, impl="reference"), problem, d_out)
        if dtype != torch.float32:
            rough = gradients(plain, problem, d_out)
            own |= {name: rough[name] for name in ("q", "k")}
        got = gradients(partial(attended, impl="triton"), problem, d_out)
        assert all(x.dtype == dtype for x in got.values())
        slack = magnitudes(problem, d_out)
        if few and dtype != torch.float32:
            slack = {name: x * torch.finfo(dtype).eps / torch.finfo(torch.float32).eps / 8 for name, x in slack.items()}
        assert_within_budget(got, own, exact, torch.float32, slack)

    return check


@pytest.mark.parametrize(
    ("shape", "kind"),
    [(shape, kind) for shape in SHAPES for kind in ("plain", "leaky table")]
    + [(SHAPES[1], kind) for kind in ("one document", "documents ignored")],
    ids=str,
)
def test_output_and_gradients_are_within_twice_the_error_of_the_same_precision(
    shape: tuple[int, ...], kind: str, dtype: torch.dtype, device: str, compare: Fn
) -> None:
    n, b, h, t, width = shape
    compare(kind, dtype, n=n, b=b, h=h, t=t, width=width, device=device)


@pytest.mark.parametrize("kind", ["plain", "leaky table"])
def test_so_they_are_where_rows_are_all_but_certain(kind: str, dtype: torch.dtype, device: str, compare: Fn) -> None:
    compare(kind, dtype, n=2, b=2, h=1, t=40, width=32, spread=30.0, device=device)


@pytest.mark.parametrize(("kind", "rate"), [("plain", 0.1), ("leaky table", 0.6)])
def test_so_they_are_with_dropout(kind: str, rate: float, dtype: torch.dtype, device: str, compare: Fn) -> None:
    compare(kind, dtype, n=1, b=1, h=2, t=70, width=24, rate=rate, device=device)


@pytest.fixture
def _tf32() -> Iterator[None]:
    """Float32 products may be TF32: PyTorch's, and the kernels'. The interpreter has no such products."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("_tf32")
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["plain", "leaky table"])
@pytest.mark.parametrize("length", [11, 33, 70])
def test_so_they_are_in_tf32(
    length: int, kind: str, rate: float, device: str, make_problem: Fn, attended: Fn, plain: Fn, gradients: Fn,
    magnitudes: Fn, assert_within_budget: Fn,
) -> None:  # fmt: skip
    """Beside a float16's: a factor keeps 10 bits of mantissa in both. A product that mixes up its rows is far off."""
    if device == "cpu" and length > 11:
        pytest.skip("the interpreter has no TF32; one length shows that the test runs")
    problem = make_problem(n=2, b=2, h=2, t=length, width=16, rate=rate, device=device, mask=MASKS[kind](2, length))
    random = torch.Generator().manual_seed(1)
    d_out = torch.randn(problem.v.shape, generator=random).to(device)
    exact = gradients(partial(attended, impl="reference"), problem.to(torch.float64), d_out)
    own = gradients(plain, problem, d_out)
    got = gradients(partial(attended, impl="triton"), problem, d_out)
    assert_within_budget(got, own, exact, torch.float16, magnitudes(problem, d_out))


@settings(
    max_examples=10, deadline=None, derandomize=True, phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    n=st.integers(1, 2), b=st.integers(1, 2), h=st.just(1), t=st.integers(1, 40), width=st.integers(1, 128),
    kind=st.sampled_from(list(MASKS)), rate=st.sampled_from([0.0, 0.2]), seed=st.integers(0, 9),
)  # fmt: skip
def test_so_they_are_for_any_shape(dtype: torch.dtype, device: str, compare: Fn, kind: str, **shape: Any) -> None:
    compare(kind, dtype, few=True, device=device, **shape)


def test_a_negative_scale_and_one_of_zero_are_scales_too(device: str, make_problem: Fn, attended: Fn) -> None:
    problem = make_problem(n=3, t=20, width=16, device=device)
    problem.scale = torch.tensor([-0.4, 0.0, 0.4], device=device)
    got, right = (attended(problem, impl=impl) for impl in ("triton", "reference"))
    torch.testing.assert_close(got[0], right[0])
    torch.testing.assert_close(got[1].logit_max, right[1].logit_max.amax((1, 3), keepdim=True))


def test_inputs_of_any_layout_give_the_same_bits(device: str, make_problem: Fn, attended: Fn, gradients: Fn) -> None:
    problem = make_problem(t=20, width=16, device=device)
    d_out = torch.randn(problem.v.shape, generator=torch.Generator().manual_seed(1))
    fused = partial(attended, impl="triton")
    contiguous = gradients(fused, problem, d_out)
    for name in "qkv":
        tensor = getattr(problem, name).detach().transpose(2, 4).contiguous().transpose(2, 4)
        setattr(problem, name, tensor.requires_grad_())
    other = gradients(fused, problem, d_out.transpose(2, 3).contiguous().transpose(2, 3))
    assert all(torch.equal(contiguous[name], other[name]) for name in contiguous)


@pytest.mark.parametrize("kind", ["plain", "leaky table"])
def test_a_run_has_the_bits_that_it_has_alone_and_twice(
    kind: str, dtype: torch.dtype, device: str, make_problem: Fn, attended: Fn, gradients: Fn
) -> None:
    problem = make_problem(n=2, b=1, h=1, t=36, width=16, dtype=dtype, rate=0.2, device=device, mask=MASKS[kind](2, 36))
    d_out = torch.randn(problem.v.shape, generator=torch.Generator().manual_seed(1))
    fused = partial(attended, impl="triton")
    bundle, again = gradients(fused, problem, d_out), gradients(fused, problem, d_out)
    assert all(torch.equal(bundle[name], again[name]) for name in bundle)
    for i in range(2):
        alone = gradients(fused, problem.run(i), d_out[i : i + 1])
        assert all(torch.equal(bundle[name][i], alone[name][0]) for name in bundle)


def test_no_query_sees_what_comes_after_it_or_belongs_to_another_document(
    device: str, make_problem: Fn, attended: Fn
) -> None:
    problem = make_problem(n=1, b=1, h=1, t=40, width=16, device=device)
    before = attended(problem, impl="triton")[0].detach()
    ids = problem.documents[0, 0]
    for changed in (0, 15, 19, 20, 31, 39):
        other = problem.to(torch.float32)
        with torch.no_grad():
            other.k[..., changed, :] += 1
            other.v[..., changed, :] += 1
        moved = (attended(other, impl="triton")[0] != before)[0, 0, 0].any(-1)
        sees = (torch.arange(40, device=device) >= changed) & (ids == ids[changed])
        assert torch.equal(moved, sees)


def test_arguments_are_left_as_they_were(device: str, make_problem: Fn, attended: Fn, gradients: Fn) -> None:
    problem = make_problem(t=20, width=16, rate=0.2, device=device)
    tensors = (problem.q, problem.k, problem.v, problem.scale, problem.dropout.rate_N, problem.documents)
    held = [x.detach().clone() for x in tensors]
    gradients(partial(attended, impl="triton"), problem, torch.ones_like(problem.v))
    assert all(torch.equal(a, b) for a, b in zip(held, tensors, strict=True))


def test_tensors_that_no_kernel_can_read_are_refused() -> None:
    q = torch.zeros(1, 1, 1, 4, 16, device="meta")
    line = "impl: 'triton' is not allowed for a tensor on meta; allowed: reference, a CUDA tensor, "
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}"):
        attention(q, q, q, mask=Mask(), scale_N=torch.ones(1, device="meta"), impl="triton")
