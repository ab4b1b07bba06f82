"""Attention with the split and rotation before it: the two of them in turn, and in C++ all in one pass."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from trainwreck.kernels.attention import AttentionStats, Dropout, Mask, attention, rotary_attention
from trainwreck.kernels.random import run_keys
from trainwreck.kernels.rotary import split_and_rotate
from trainwreck.kernels.selection import CPP_DTYPES
from trainwreck.models.rotary import rotary_table

# N, B, T, H, K around a block of 8 queries and vectors of 8 and 16 features.
SHAPES = [(1, 1, 1, 1, 2), (2, 3, 7, 2, 6), (3, 2, 33, 5, 16), (1, 2, 9, 4, 64), (1, 1, 17, 3, 18), (2, 2, 40, 2, 32)]
WIDE = {torch.complex64: torch.complex128, torch.int64: torch.int64}


@pytest.fixture(params=["reference", "cpp"])
def impl(request: pytest.FixtureRequest) -> str:
    if request.param == "cpp":
        request.getfixturevalue("compiler")
    return request.param


def problem(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    """Arguments; every run has tables and a bias of its own, every second row two documents."""
    n, b, t, h, k = shape
    random = torch.Generator().manual_seed(0)
    q, key = (torch.stack([rotary_table(t, k, base + i) for i in range(n)]) for base in (100.0, 50.0))
    documents = torch.zeros(n, b, t, dtype=torch.int64)
    documents[:, ::2, t // 2 :] = 1
    return {
        "qkv_NBTD": torch.randn(n, b, t, 3 * h * k, generator=random).to(dtype),
        "rotary_q_NTK": q,
        "rotary_k_NTK": key,
        "heads": h,
        "bias_ND": torch.randn(n, 3 * h * k, generator=random).to(dtype),
        "mask": Mask(documents_NBT=documents),
        "scale_N": torch.linspace(0.5, 1.0, n) / k**0.5,
    }


def results(given: dict[str, Any], impl: str) -> dict[str, Tensor]:
    """The output and the gradients."""
    names = ("qkv_NBTD", "bias_ND")
    leaves = {name: given[name].detach().clone().requires_grad_() for name in names if given[name] is not None}
    out, _ = rotary_attention(**given | leaves, impl=impl)
    d_out = torch.randn(out.shape[1:], generator=torch.Generator().manual_seed(1)).to(out).expand(out.shape)
    found = dict(zip(leaves, torch.autograd.grad(out, list(leaves.values()), d_out), strict=True)) | {"out": out}
    assert all(x.dtype == given["qkv_NBTD"].dtype for x in found.values())
    return {name: x.detach() for name, x in found.items()}


def doubled(given: dict[str, Any]) -> dict[str, Any]:
    tensors = {name: x for name, x in given.items() if isinstance(x, Tensor)}
    return given | {name: x.to(WIDE.get(x.dtype, torch.float64)) for name, x in tensors.items()}


@pytest.mark.parametrize("variant", ["fp16_scores", "softmax_unshifted"])
def test_of_wrong_attention_it_is_the_two_in_turn(variant: str, impl: str) -> None:
    given = problem(SHAPES[2])
    tables = given["rotary_q_NTK"], given["rotary_k_NTK"]
    moved = given["qkv_NBTD"] + given["bias_ND"][:, None, None]
    parts = split_and_rotate(moved, *tables, given["heads"], impl=impl)
    how = {"mask": given["mask"], "scale_N": given["scale_N"], "variant": variant, "impl": impl}
    right, statistics = attention(*parts, **how)
    got, own = rotary_attention(**given, variant=variant, impl=impl)
    assert torch.equal(got, right)
    assert all(a is b or torch.equal(a, b) for a, b in zip(own, statistics, strict=True))


def test_without_a_bias_none_is_added() -> None:
    given = problem(SHAPES[1])
    none = results(given | {"bias_ND": None}, "reference")
    zero = results(given | {"bias_ND": torch.zeros_like(given["bias_ND"])}, "reference")
    assert all(torch.equal(none[name], zero[name]) for name in none)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("dtype", CPP_DTYPES, ids=str)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "none"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_in_cpp_it_is_within_twice_the_error_of_the_reference(
    shape: tuple[int, ...], bias: bool, dtype: torch.dtype, poisoned: Callable, within_budget: Callable
) -> None:
    given = problem(shape, dtype) | ({} if bias else {"bias_ND": None})
    with poisoned():
        got = results(given, "cpp")
    within_budget(got, results(given, "reference"), results(doubled(given), "reference"))


@pytest.mark.usefixtures("compiler")
def test_in_cpp_a_run_has_the_bits_that_it_has_alone() -> None:
    given = problem(SHAPES[2])
    bundle = results(given, "cpp")
    for i in range(3):
        own = {name: x[i : i + 1] if isinstance(x, Tensor) else x for name, x in given.items()}
        alone = results(own | {"mask": Mask(documents_NBT=given["mask"].documents_NBT[i : i + 1])}, "cpp")
        assert all(torch.equal(bundle[name][i], alone[name][0]) for name in bundle)


@pytest.mark.usefixtures("compiler")
def test_in_cpp_statistics_and_dropout_are_those_of_the_two_in_turn() -> None:
    given = problem(SHAPES[2])
    dropout = Dropout(run_keys((0, 1, 2), "here", torch.device("cpu")), 3, torch.full((3,), 0.2))
    (got, own), (right, statistics) = (
        rotary_attention(**given, dropout=dropout, impl=impl) for impl in ("cpp", "reference")
    )
    torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-5)
    assert isinstance(own, AttentionStats)
    for a, b in zip(own, statistics, strict=True):
        assert a is b or torch.allclose(a, b, rtol=1e-5, atol=2e-5)
    assert rotary_attention(**given, stats=False, impl="cpp")[1] is None


@pytest.mark.usefixtures("compiler")
def test_in_cpp_tables_may_be_shared_and_conjugated_and_qkv_a_view() -> None:
    given = problem(SHAPES[1])
    shared = given["rotary_q_NTK"][:1].expand(2, -1, -1)
    view = torch.cat((given["qkv_NBTD"], given["qkv_NBTD"]), -1)[..., : given["qkv_NBTD"].shape[-1]]
    got = results(given | {"qkv_NBTD": view, "rotary_q_NTK": shared, "rotary_k_NTK": shared.conj()}, "cpp")
    own = {"rotary_q_NTK": shared.clone(), "rotary_k_NTK": shared.conj().resolve_conj()}
    right = results(given | own, "cpp")
    assert all(torch.equal(got[name], right[name]) for name in right)


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"bias_ND": torch.zeros(2, 35)}, "bias: shape (2, 35) is not allowed; allowed: [2, 36]"),
        ({"heads": 5}, "heads: 5 is not allowed for a width of 36; allowed: 1 or more, with 6 * heads in the width"),
        ({"scale_N": torch.ones(3)}, "scale: shape (3,) is not allowed; allowed: [2]"),
        (
            {"rotary_k_NTK": torch.ones(2, 7, 2, dtype=torch.complex64)},
            "rotary_k: shape (2, 7, 2) is not allowed; allowed: (2, 7, 3)",
        ),
    ],
)
def test_what_does_not_fit_is_an_error(changed: dict[str, Any], line: str, impl: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        rotary_attention(**problem(SHAPES[1]) | changed, impl=impl)
