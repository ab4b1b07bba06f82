"""The C++ attention against float64, within twice the reference's error; statistics; what it does with NaN."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from trainwreck.kernels.attention import Mask, attention, reduce
from trainwreck.kernels.selection import CPP_DTYPES

pytestmark = pytest.mark.usefixtures("compiler")

Fn = Callable[..., Any]
# Places around a block of 8 and a vector of 16, features around each number that there are kernels for.
SHAPES = [
    (1, 1, 1, 1, 2), (2, 2, 2, 33, 48), (2, 1, 2, 63, 100), (1, 2, 1, 64, 64), (1, 1, 2, 111, 16), (3, 3, 2, 17, 5),
    (2, 2, 4, 40, 32),
]  # fmt: skip


def table(n: int, t: int) -> torch.Tensor:
    """Any keys at all, each query's own among them."""
    drawn = torch.rand(n, t, t, generator=torch.Generator().manual_seed(0)) < 0.6
    return drawn | torch.eye(t, dtype=torch.bool)


MASKS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "plain": lambda n, t: {},
    "one document": lambda n, t: {"documents_NBT": None},
    "leaky table": lambda n, t: {"allowed_NTS": table(n, t), "leaky": True},
    "documents ignored": lambda n, t: {"documents_N": torch.arange(n) % 2 == 1, "leaky": True},
}


@pytest.fixture
def compare(
    make_problem: Fn, attended: Fn, gradients: Fn, magnitudes: Fn, assert_within_budget: Fn
) -> Callable[..., None]:
    def check(kind: str, dtype: torch.dtype, **shape: Any) -> None:
        problem = make_problem(dtype=dtype, mask=MASKS[kind](shape["n"], shape["t"]), **shape)
        d_out = torch.randn(problem.v.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        exact = gradients(partial(attended, impl="reference"), problem.to(torch.float64), d_out)
        own, got = (gradients(partial(attended, impl=impl), problem, d_out) for impl in ("reference", "cpp"))
        assert all(x.dtype == dtype for x in got.values())
        # Few numbers in bfloat16 may be luckily rounded: half an ulp of it is allowed as well.
        slack = magnitudes(problem, d_out)
        slack = {
            name: x * max(torch.finfo(dtype).eps / torch.finfo(torch.float32).eps / 8, 1) for name, x in slack.items()
        }
        assert_within_budget(got, own, exact, torch.float32, slack)

    return check


@pytest.mark.parametrize("dtype", CPP_DTYPES, ids=str)
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_output_and_gradients_are_within_twice_the_error_of_the_reference(
    shape: tuple[int, ...], kind: str, dtype: torch.dtype, compare: Fn
) -> None:
    compare(kind, dtype, **dict(zip(("n", "b", "h", "t", "width"), shape, strict=True)))


@pytest.mark.parametrize("dtype", CPP_DTYPES, ids=str)
@pytest.mark.parametrize("kind", ["plain", "leaky table"])
def test_so_they_are_where_rows_are_all_but_certain_and_with_dropout(
    kind: str, dtype: torch.dtype, compare: Fn
) -> None:
    compare(kind, dtype, n=2, b=2, h=1, t=40, width=32, spread=30.0)
    compare(kind, dtype, n=1, b=1, h=2, t=70, width=24, rate=0.3)


@settings(
    max_examples=25, deadline=None, derandomize=True, phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    n=st.integers(1, 2), b=st.integers(1, 2), h=st.integers(1, 2), t=st.integers(1, 40), width=st.integers(1, 70),
    kind=st.sampled_from(list(MASKS)), rate=st.sampled_from([0.0, 0.2]), seed=st.integers(0, 9),
)  # fmt: skip
def test_so_they_are_for_any_shape(compare: Fn, kind: str, **shape: Any) -> None:
    compare(kind, torch.float32, **shape)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("t", [1, 7, 33, 64])
def test_statistics_are_the_references(t: int, kind: str, make_problem: Fn, attended: Fn) -> None:
    problem = make_problem(n=2, t=t, width=16, spread=3.0, mask=MASKS[kind](2, t))
    got, right = (attended(problem, impl=impl)[1] for impl in ("cpp", "reference"))
    for name, value in right._asdict().items():
        if value is None:
            assert getattr(got, name) is None, name
        else:
            torch.testing.assert_close(getattr(got, name), value, msg=name, rtol=1e-5, atol=2e-5)
    assert set(reduce([got])) == set(reduce([right]))
    assert attended(problem, impl="cpp", stats=False)[1] is None


def test_statistics_are_of_the_probabilities_before_dropout(make_problem: Fn, attended: Fn) -> None:
    problem = make_problem(n=1, t=36, width=16, rate=0.5)
    dropped, whole = attended(problem, impl="cpp")[1], attended(replace(problem, dropout=None), impl="cpp")[1]
    assert all(a is b or torch.equal(a, b) for a, b in zip(dropped, whole, strict=True))


@pytest.mark.parametrize("dtype", CPP_DTYPES, ids=str)
@pytest.mark.parametrize("kind", ["plain", "leaky table"])
def test_a_run_has_the_bits_that_it_has_alone_beside_others_and_with_a_rate_of_zero(
    kind: str, dtype: torch.dtype, make_problem: Fn, attended: Fn, gradients: Fn
) -> None:
    problem = make_problem(n=3, t=36, width=16, dtype=dtype, rate=0.2, mask=MASKS[kind](3, 36))
    problem.dropout.rate_N[1] = 0.0
    d_out = torch.randn(problem.v.shape, generator=torch.Generator().manual_seed(1))
    compiled = partial(attended, impl="cpp")
    bundle = gradients(compiled, problem, d_out)
    for i in range(3):
        alone = gradients(compiled, problem.run(i), d_out[i : i + 1])
        assert all(torch.equal(bundle[name][i], alone[name][0]) for name in bundle)
    alone = gradients(compiled, replace(problem.run(1), dropout=None), d_out[1:2])
    assert all(torch.equal(bundle[name][1], alone[name][0]) for name in bundle)


def test_inputs_of_any_layout_give_the_same_bits(make_problem: Fn, attended: Fn, gradients: Fn) -> None:
    problem = make_problem(t=20, width=16)
    d_out = torch.randn(problem.v.shape, generator=torch.Generator().manual_seed(1))
    contiguous = gradients(partial(attended, impl="cpp"), problem, d_out)
    for name in "qkv":
        tensor = getattr(problem, name).detach().transpose(2, 4).contiguous().transpose(2, 4)
        setattr(problem, name, tensor.requires_grad_())
    other = gradients(partial(attended, impl="cpp"), problem, d_out.transpose(2, 3).contiguous().transpose(2, 3))
    assert all(torch.equal(contiguous[name], other[name]) for name in contiguous)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_what_is_not_finite_stays_in_its_run_and_in_queries_that_see_it(
    name: str, value: float, make_problem: Fn, attended: Fn
) -> None:
    problem = make_problem(n=2, b=1, t=40, width=16, mask={"documents_NBT": None})
    clean = attended(problem, impl="cpp")
    with torch.no_grad():
        getattr(problem, name)[0, :, :, 17, 3] = value
    got, right = attended(problem, impl="cpp"), attended(problem, impl="reference")
    assert torch.equal(got[0][1], clean[0][1])
    assert torch.equal(got[0][0, :, :, :16], clean[0][0, :, :, :16])  # whole blocks of queries before it
    after = slice(17, 18) if name == "q" else slice(17, None)
    assert torch.equal(torch.isfinite(got[0][0, :, :, after]), torch.isfinite(right[0][0, :, :, after]))
    if name != "v":
        assert torch.equal(
            torch.isnan(got[1].logit_max[0, :, :, after]), torch.isnan(right[1].logit_max[0, :, :, after])
        )


def test_half_floats_doubles_and_wrong_variants_are_the_references(make_problem: Fn, attended: Fn) -> None:
    for dtype, variant in ((torch.float16, "reference"), (torch.float64, "reference"), (torch.float32, "fp16_scores")):
        problem = make_problem(dtype=dtype)
        got, right = (attended(problem, impl=impl, variant=variant)[0] for impl in ("cpp", "reference"))
        assert torch.equal(got, right)


def test_scores_of_ten_thousand_keep_their_entropy() -> None:
    q, k = torch.randn(2, 1, 1, 2, 49, 16, generator=torch.Generator().manual_seed(0))
    q[..., 0], k[..., 0] = 100.0, 100.0
    got = attention(q, k, k, mask=Mask(), scale_N=torch.ones(1), impl="cpp")[1]
    exact = attention(*(x.double() for x in (q, k, k)), mask=Mask(), scale_N=torch.ones(1).double())[1]
    torch.testing.assert_close(got.entropy.double(), exact.entropy, rtol=0, atol=5e-3)
