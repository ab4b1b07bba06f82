"""What attention refuses, and what masks and variants are made of."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from trainwreck.kernels.attention import MASKED, VARIANTS, attention, document_bias, load_variant, mask_bias

SHAPE = (2, 3, 1, 4, 5)


def arguments(**changed: torch.Tensor) -> dict[str, Any]:
    good = {
        "q": torch.zeros(SHAPE), "k": torch.zeros(SHAPE), "v": torch.zeros(SHAPE),
        "bias": torch.zeros(2, 3, 4, 4), "scale": torch.ones(2),
    }  # fmt: skip
    return good | changed


def call(*, q: Any, k: Any, v: Any, bias: Any, scale: Any, variant: str = "reference") -> torch.Tensor:
    return attention(q, k, v, bias_NBTS=bias, scale_N=scale, variant=variant)[0]


BAD = [
    ({"q": torch.zeros(SHAPE, dtype=torch.int64)}, "q: dtype torch.int64 is not allowed; allowed: (torch.float16, "),
    ({"q": torch.zeros(SHAPE[1:])}, "q: shape (3, 1, 4, 5) is not allowed; allowed: [N, B, H, T, K]"),
    ({"k": torch.zeros(2, 3, 1, 5, 5)}, "k: shape (2, 3, 1, 5, 5) is not allowed; allowed: (2, 3, 1, 4, 5)"),
    ({"v": torch.zeros(2, 3, 1, 4, 6)}, "v: shape (2, 3, 1, 4, 6) is not allowed; allowed: (2, 3, 1, 4, 5)"),
    ({"k": torch.zeros(SHAPE).half()}, "k: torch.float16 on cpu is not allowed; allowed: torch.float32 on cpu"),
    ({"v": torch.zeros(SHAPE).double()}, "v: torch.float64 on cpu is not allowed; allowed: torch.float32 on cpu"),
    ({"bias": torch.zeros(4, 4)}, "bias: shape (4, 4) is not allowed; allowed: [2 or 1, 3 or 1, 4, 4]"),
    ({"bias": torch.zeros(3, 3, 4, 4)}, "bias: shape (3, 3, 4, 4) is not allowed; allowed: [2 or 1, 3 or 1, 4, 4]"),
    ({"bias": torch.zeros(2, 2, 4, 4)}, "bias: shape (2, 2, 4, 4) is not allowed; allowed: [2 or 1, 3 or 1, 4, 4]"),
    ({"bias": torch.zeros(2, 3, 4, 5)}, "bias: shape (2, 3, 4, 5) is not allowed; allowed: [2 or 1, 3 or 1, 4, 4]"),
    ({"scale": torch.ones(3)}, "scale: shape (3,) is not allowed; allowed: [2]"),
    ({"scale": torch.ones(())}, "scale: shape () is not allowed; allowed: [2]"),
]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("changed", "line"), BAD)
def test_an_argument_that_does_not_fit_is_refused_in_one_line(
    changed: dict[str, torch.Tensor], line: str, variant: str
) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}[^\n]*$"):
        call(**arguments(**changed), variant=variant)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("lead", [(1, 1), (1, 3), (2, 1), (2, 3)])
def test_a_bias_may_be_shared_by_runs_and_by_rows(
    lead: tuple[int, int], variant: str, make_problem: Callable[..., Any]
) -> None:
    p = make_problem(n=2, b=3, t=4)
    bias = mask_bias(torch.rand(*lead, 4, 4, generator=torch.Generator().manual_seed(0)) < 0.7)
    shared = call(q=p.q, k=p.k, v=p.v, bias=bias, scale=p.scale, variant=variant)
    spelt_out = bias.expand(2, 3, 4, 4).contiguous()
    assert torch.equal(shared, call(q=p.q, k=p.k, v=p.v, bias=spelt_out, scale=p.scale, variant=variant))


@pytest.mark.parametrize("name", ["", "triton", "Reference", "api"])
def test_an_unknown_variant_is_refused(name: str) -> None:
    line = f"attention variant: {name!r} is not allowed; allowed: {', '.join(VARIANTS)}"
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}$"):
        call(**arguments(), variant=name)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_its_own_module(name: str) -> None:
    assert load_variant(name).__module__ == f"trainwreck.kernels.attention.{name}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masks_add_nothing_where_allowed_and_erase_every_score_elsewhere(dtype: torch.dtype) -> None:
    allowed = torch.tensor([[True, False], [True, True]])
    bias = mask_bias(allowed, dtype)
    assert bias.dtype == dtype
    assert torch.equal(bias == 0, allowed)
    assert bool((bias[~allowed] == MASKED).all())
    assert torch.exp(torch.tensor(MASKED, dtype=dtype)) == 0
    # Whatever a finite score of ordinary size was, masked it is the same number.
    assert torch.tensor(1e6, dtype=dtype) + MASKED == torch.tensor(-1e6, dtype=dtype) + MASKED


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_documents_see_their_own_tokens_only(dtype: torch.dtype) -> None:
    ids = torch.tensor([[[0, 0, 1, 7, -1, -1], [3, 3, 3, 3, 3, 3]], [[2, 1, 2, 1, 0, 100000], [5, 4, 3, 2, 1, 0]]])
    bias = document_bias(ids, dtype)
    assert bias.dtype == dtype
    other = ids[..., :, None] != ids[..., None, :]
    assert torch.equal(bias, torch.zeros(other.shape, dtype=dtype).masked_fill(other, MASKED))
