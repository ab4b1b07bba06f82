"""PyTorch's setting for float32 products, read by its new name and, where that is missing, by the old one."""

import pytest
import torch

from trainwreck.kernels.dtypes import tf32_allowed


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
