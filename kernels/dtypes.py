"""Number formats that kernels share: the accumulation dtype, and products that round once."""

import torch
from torch import Tensor


def widen(x: Tensor) -> Tensor:
    """x in float32 where it is in a half format, else as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def tf32_allowed() -> bool:
    """Whether products of float32 on CUDA may round their factors to TF32, by PyTorch's setting.

    From PyTorch 2.9 on it is `torch.backends.cuda.matmul.fp32_precision`; once it was set by that name the older one,
    `torch.get_float32_matmul_precision`, raises.
    """
    setting = getattr(torch.backends.cuda.matmul, "fp32_precision", None)
    return torch.get_float32_matmul_precision() != "highest" if setting is None else bool(setting == "tf32")


def has_half_products(device: str) -> bool:
    """Whether a type of device multiplies halves itself, with sums in float32; a CPU's product is emulated."""
    return device == "cuda"


def sum_in_float32() -> None:
    """Have products of halves on CUDA keep float32 sums to the end; by default PyTorch may add parts of them in half.

    PyTorch's documentation, "CUDA semantics", reduced-precision reduction in FP16 and BF16 GEMMs.
    """
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def matmul(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """a @ b over the last two axes, accumulated in float32 (float64 for float64), rounded to dtype.

    A float32 operand that meets a half-precision one is rounded to it first. A product of halves that ends in their
    format is the device's own where `has_half_products`; else its operands are widened, which is exact.
    """
    narrow = next((t.dtype for t in (a, b) if t.dtype in (torch.float16, torch.bfloat16)), None)
    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    if narrow is not None:
        wide = narrow if dtype is narrow and has_half_products(a.device.type) else wide
        a, b = a.to(narrow).to(wide), b.to(narrow).to(wide)
    lead = a.shape[:-2]
    out = torch.bmm(a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:]))
    return out.view(*lead, *out.shape[-2:]).to(dtype)
