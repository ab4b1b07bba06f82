"""What attention refuses, in one line and before any work, whatever implementation is asked."""

import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from trainwreck.kernels.attention import VARIANTS, Dropout, Mask, attention
from trainwreck.kernels.selection import IMPLS

SHAPE = (2, 3, 1, 4, 5)
DOCUMENTS = torch.zeros(2, 3, 4, dtype=torch.int64)
FLAGS = torch.ones(3, dtype=torch.bool)
DROPOUT = Dropout(torch.zeros(2, dtype=torch.int64), 0, torch.zeros(2))


def arguments(**changed: Any) -> dict[str, Any]:
    good = {
        "q": torch.zeros(SHAPE), "k": torch.zeros(SHAPE), "v": torch.zeros(SHAPE),
        "mask": Mask(DOCUMENTS), "scale": torch.ones(2), "dropout": None,
    }  # fmt: skip
    return good | changed


def call(*, q: Any, k: Any, v: Any, mask: Any, scale: Any, dropout: Any, **how: str) -> torch.Tensor:
    return attention(q, k, v, mask=mask, scale_N=scale, dropout=dropout, **how)[0]


def table(*shape: int, dtype: torch.dtype = torch.bool) -> Mask:
    return Mask(DOCUMENTS, torch.ones(shape, dtype=dtype))


BAD = [
    ({"q": torch.zeros(SHAPE, dtype=torch.int64)}, "q: dtype torch.int64 is not allowed; allowed: (torch.float16, "),
    ({"q": torch.zeros(SHAPE[1:])}, "q: shape (3, 1, 4, 5) is not allowed; allowed: [N, B, H, T, K], each 1 or more"),
    ({"q": torch.zeros(2, 3, 1, 0, 5)}, "q: shape (2, 3, 1, 0, 5) is not allowed; allowed: [N, B, H, T, K], each 1"),
    ({"k": torch.zeros(2, 3, 1, 5, 5)}, "k: shape (2, 3, 1, 5, 5) is not allowed; allowed: (2, 3, 1, 4, 5)"),
    ({"v": torch.zeros(2, 3, 1, 4, 6)}, "v: shape (2, 3, 1, 4, 6) is not allowed; allowed: (2, 3, 1, 4, 5)"),
    ({"k": torch.zeros(SHAPE).half()}, "k: torch.float16 on cpu is not allowed; allowed: torch.float32 on cpu"),
    ({"v": torch.zeros(SHAPE).double()}, "v: torch.float64 on cpu is not allowed; allowed: torch.float32 on cpu"),
    ({"v": torch.zeros(SHAPE, device="meta")}, "v: torch.float32 on meta is not allowed; allowed: "),
    ({"mask": Mask(DOCUMENTS[0])}, "mask.documents: shape (3, 4) is not allowed; allowed: [2, 3, 4]"),
    ({"mask": Mask(DOCUMENTS[:1])}, "mask.documents: shape (1, 3, 4) is not allowed; allowed: [2, 3, 4]"),
    ({"mask": Mask(DOCUMENTS.int())}, "mask.documents: torch.int32 on cpu is not allowed; allowed: torch.int64 on cpu"),
    ({"mask": Mask(DOCUMENTS.to("meta"))}, "mask.documents: torch.int64 on meta is not allowed; allowed: torch.int64"),
    ({"mask": table(4, 4)}, "mask.allowed: shape (4, 4) is not allowed; allowed: [2, 4, 4] or [1, 4, 4]"),
    ({"mask": table(3, 4, 4)}, "mask.allowed: shape (3, 4, 4) is not allowed; allowed: [2, 4, 4] or [1, 4, 4]"),
    ({"mask": table(2, 4, 5)}, "mask.allowed: shape (2, 4, 5) is not allowed; allowed: [2, 4, 4] or [1, 4, 4]"),
    ({"mask": table(2, 4, 4, dtype=torch.float32)}, "mask.allowed: torch.float32 on cpu is not allowed;"),
    ({"mask": Mask(DOCUMENTS, documents_N=FLAGS)}, "mask.documents_N: shape (3,) is not allowed; allowed: [2]"),
    ({"scale": torch.ones(3)}, "scale: shape (3,) is not allowed; allowed: [2]"),
    ({"scale": torch.ones(())}, "scale: shape () is not allowed; allowed: [2]"),
    ({"scale": torch.ones(2).int()}, "scale: torch.int32 on cpu is not allowed; allowed: a float on cpu"),
    ({"dropout": replace(DROPOUT, step=-1)}, "dropout.step: -1 is not allowed; allowed: 0 to 2147483647"),
    ({"dropout": replace(DROPOUT, rate_N=torch.ones(3))}, "dropout.rate_N: shape (3,) is not allowed;"),
    ({"dropout": replace(DROPOUT, keys_N=torch.ones(1))}, "dropout.keys_N: shape (1,) is not allowed; allowed: [2]"),
    ({"dropout": replace(DROPOUT, keys_N=torch.ones(2))}, "dropout.keys_N: dtype torch.float32 is not allowed;"),
    ({"dropout": replace(DROPOUT, rate_N=torch.ones(2, device="meta"))}, "dropout.rate_N: device meta is not allowed;"),
]  # fmt: skip


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("variant", ["reference", "fp16_scores", "softmax_unshifted"])
@pytest.mark.parametrize(("changed", "line"), BAD)
def test_an_argument_that_does_not_fit_is_refused_in_one_line(
    changed: dict[str, Any], line: str, variant: str, impl: str
) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}[^\n]*$"):
        call(**arguments(**changed), variant=variant, impl=impl)


@pytest.mark.parametrize("name", ["", "triton", "Reference", "api"])
def test_an_unknown_variant_is_refused(name: str) -> None:
    line = f"attention variant: {name!r} is not allowed; allowed: {', '.join(VARIANTS)}"
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}$"):
        call(**arguments(), variant=name)


@pytest.mark.parametrize("impl", ["", "cuda", "Triton"])
def test_an_unknown_implementation_is_refused(impl: str) -> None:
    line = f"impl: {impl!r} is not allowed; allowed: reference, triton, cpp"
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}$"):
        call(**arguments(), impl=impl)


@pytest.mark.parametrize(
    ("shape", "dtype", "line"),
    [
        (
            SHAPE,
            torch.float64,
            "impl: 'triton' is not allowed for torch.float64; allowed: reference, or one of torch.float16, ",
        ),
        ((2, 3, 1, 4, 129), torch.float32, "q: head width 129 is not allowed with impl 'triton'; allowed: 1 to 128"),
    ],
)
def test_what_the_kernels_lack_is_refused_and_not_done_by_the_reference(
    shape: tuple[int, ...], dtype: torch.dtype, line: str
) -> None:
    q = torch.zeros(shape, dtype=dtype)
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}"):
        call(**arguments(q=q, k=q, v=q), impl="triton")
    assert torch.equal(call(**arguments(q=q, k=q, v=q), impl="reference"), q)
