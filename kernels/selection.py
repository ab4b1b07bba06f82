"""Which implementation of a kernel runs: one rule for all of them, decided before any work.

By default Triton takes the CUDA tensors of the formats that it has, float16, bfloat16 and float32;
everything else, float64 among it, is the reference's. What is asked for by name runs or raises. C++ has
float32 and bfloat16 on a CPU; other formats, and kernels that it has not, are the reference's under its name.
"""

import os
from importlib.util import find_spec

import torch
from torch import Tensor

from trainwreck.kernels.cpp import build

IMPLS = ("reference", "triton", "cpp")
ON_CUDA = ("reference", "triton")
TRITON_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
CPP_DTYPES = (torch.bfloat16, torch.float32)


def choose(impl: str | None, tensor: Tensor) -> str:
    """`reference`, `triton` or `cpp` for work on this tensor; None asks for the default.

    Raises ValueError where Triton was chosen and is not installed, doesn't have the tensor's dtype,
    or can't reach its device (a CPU tensor is within reach of Triton's interpreter alone); where C++ was chosen
    and can't be compiled, or the tensor is not on a CPU.
    """
    if impl is None:
        impl = "triton" if tensor.is_cuda and tensor.dtype in TRITON_DTYPES else "reference"
    elif impl not in IMPLS:
        raise ValueError(f"impl: {impl!r} is not allowed; allowed: {', '.join(IMPLS)}")
    elif impl == "triton":
        _check_reach(tensor)
    elif impl == "cpp":
        _check_compiled(tensor)
        impl = "cpp" if tensor.dtype in CPP_DTYPES else "reference"
    if impl == "triton" and find_spec("triton") is None:
        raise ValueError("impl: 'triton' is not allowed without the package triton; allowed: reference")
    return impl


def choose_float32(impl: str | None, tensor: Tensor) -> str:
    """`choose` where kernels have float32 alone: any other format is the reference's."""
    return choose(impl, tensor) if tensor.dtype is torch.float32 else "reference"


def interpreted() -> bool:
    """True where Triton's kernels run in its interpreter; the variable counts when they are loaded."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "y", "yes")


def _check_compiled(tensor: Tensor) -> None:
    if tensor.device.type != "cpu":
        raise ValueError(
            f"impl: 'cpp' is not allowed for a tensor on {tensor.device}; allowed: reference, or a CPU tensor"
        )
    try:
        build.library()
    except RuntimeError as error:
        raise ValueError(f"impl: 'cpp' is not allowed here: {error}; allowed: reference") from None


def _check_reach(tensor: Tensor) -> None:
    if tensor.dtype not in TRITON_DTYPES:
        names = ", ".join(str(dtype) for dtype in TRITON_DTYPES)
        raise ValueError(f"impl: 'triton' is not allowed for {tensor.dtype}; allowed: reference, or one of {names}")
    if not (tensor.is_cuda or (tensor.device.type == "cpu" and interpreted())):
        raise ValueError(
            f"impl: 'triton' is not allowed for a tensor on {tensor.device}; "
            "allowed: reference, a CUDA tensor, or a CPU tensor under TRITON_INTERPRET=1"
        )
