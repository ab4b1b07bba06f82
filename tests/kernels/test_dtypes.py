"""PyTorch's setting for float32 products, and products of halves: a device's own, or emulated."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trainwreck.kernels import dtypes
from trainwreck.kernels.dtypes import matmul, sum_in_float32, tf32_allowed

HALVES = (torch.float16, torch.bfloat16)


class Products(TorchDispatchMode):
    """Formats of the operands of every batched product."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ == "bmm":
            self.seen.append((args[0].dtype, args[1].dtype))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def as_before():
    """The setting is the process's."""
    before = torch.get_float32_matmul_precision()
    yield
    if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        torch.backends.cuda.matmul.fp32_precision = "ieee"
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(("precision", "allowed"), [("highest", False), ("high", True)])
def test_set_by_the_old_name(precision, allowed):
    torch.set_float32_matmul_precision(precision)
    assert tf32_allowed() is allowed


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="PyTorch before 2.9")
@pytest.mark.parametrize(("precision", "allowed"), [("ieee", False), ("tf32", True)])
def test_set_by_the_new_name_after_which_the_old_one_raises(precision, allowed):
    torch.backends.cuda.matmul.fp32_precision = precision
    assert tf32_allowed() is allowed


@pytest.mark.parametrize(("precision", "allowed"), [("highest", False), ("high", True)])
def test_without_the_new_name(precision, allowed, monkeypatch):
    monkeypatch.setattr(torch.backends.cuda, "matmul", object())
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: precision)
    assert tf32_allowed() is allowed


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("native", "out"), [(False, "half"), (True, "half"), (True, "float32")])
def test_halves_are_multiplied_as_such_where_a_device_does_and_the_result_is_one(dtype, native, out, monkeypatch):
    monkeypatch.setattr(dtypes, "has_half_products", lambda device: native)
    a, b = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 7, 4).to(dtype)
    result = dtype if out == "half" else torch.float32
    with Products() as products:
        found = matmul(a, b, result)
    own = native and out == "half"
    assert products.seen == [(dtype, dtype) if own else (torch.float32, torch.float32)]
    exact = a.to(dtype).double() @ b.double()
    assert found.dtype is result
    assert found.shape == (2, 3, 5, 4)
    assert (found - exact).abs().max() <= 2 * torch.finfo(result).eps * exact.abs().max()


def test_a_cpu_emulates_and_float64_stays():
    assert dtypes.has_half_products("cuda")
    assert not dtypes.has_half_products("cpu")
    a = torch.randn(2, 3, 3, dtype=torch.float64)
    assert torch.equal(matmul(a, a, torch.float64), torch.bmm(a, a))


def test_sums_of_halves_stay_in_float32():
    sum_in_float32()
    setting = torch.backends.cuda.matmul
    assert not setting.allow_fp16_reduced_precision_reduction
    assert not setting.allow_bf16_reduced_precision_reduction


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", HALVES)
def test_a_gpu_multiplies_halves_as_the_emulation_does(dtype, monkeypatch):
    sum_in_float32()
    a, b = (torch.randn(2, 64, 64, device="cuda") for _ in range(2))
    with Products() as products:
        found = matmul(a.to(dtype), b.to(dtype), dtype)
    assert products.seen == [(dtype, dtype)]
    monkeypatch.setattr(dtypes, "has_half_products", lambda device: False)
    emulated = matmul(a.to(dtype), b.to(dtype), dtype)
    assert (found - emulated).abs().max() <= 2 * torch.finfo(dtype).eps * emulated.abs().max()
