"""Where kernels run, what errors they may have, and memory that nobody has cleared.

Without a CUDA device Triton's kernels run in its interpreter, which has to be asked for before triton
is loaded for the first time.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from trainwreck.kernels.cpp import build

CUDA = torch.cuda.is_available()
if not CUDA:
    os.environ.setdefault("TRITON_INTERPRET", "1")


class Place(NamedTuple):
    """A device and a dtype that Triton's kernels have there."""

    device: str
    dtype: torch.dtype


def _places() -> Iterator[Any]:
    compiled = [pytest.mark.gpu, pytest.mark.skipif(not CUDA, reason="needs a CUDA device")]
    interpreted = [pytest.mark.skipif(CUDA, reason="with a CUDA device the kernels are compiled")]
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        if dtype is not torch.bfloat16:
            yield pytest.param(Place("cpu", dtype), marks=interpreted, id=f"cpu-{name}")
        yield pytest.param(Place("cuda", dtype), marks=compiled, id=f"cuda-{name}")


@pytest.fixture(scope="session", params=list(_places()))
def place(request: pytest.FixtureRequest) -> Place:
    return request.param


@pytest.fixture(scope="session")
def compiler() -> None:
    """Skips where the C++ kernels can't be built."""
    try:
        build.compiler()
    except RuntimeError as error:
        pytest.skip(str(error))


class Kernel(NamedTuple):
    """An implementation, and where it runs."""

    impl: str
    device: str = "cpu"

    def drawn(self, shape: tuple[int, ...], seed: int = 0) -> Tensor:
        """Normal numbers."""
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(self.device)


@pytest.fixture(
    params=[
        Kernel("cpp"),
        pytest.param(
            Kernel("triton"),
            marks=pytest.mark.skipif(CUDA or find_spec("triton") is None, reason="needs Triton's interpreter"),
        ),
        pytest.param(
            Kernel("triton", "cuda"),
            marks=[pytest.mark.gpu, pytest.mark.skipif(not CUDA, reason="needs a CUDA device")],
        ),
    ],
    ids=lambda kernel: f"{kernel.impl}-{kernel.device}",
)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """Each implementation but the reference, in float32."""
    if request.param.impl == "cpp":
        request.getfixturevalue("compiler")
    return request.param


def _within(got: dict[str, Tensor], own: dict[str, Tensor], exact: dict[str, Tensor]) -> None:
    """At most twice the error that the reference of the same precision has; 4 ulps where that is none."""
    assert set(got) == set(own) == set(exact)
    for name, right in exact.items():
        right = right.double()
        error, allowed = ((side[name].double() - right).norm().item() for side in (got, own))
        budget = max(2 * allowed, 4 * torch.finfo(got[name].dtype).eps * right.norm().item())
        assert error <= budget, f"{name}: error {error:.3g}, allowed {budget:.3g}"


@pytest.fixture(scope="session")
def within_budget() -> Callable[..., None]:
    return _within


@contextmanager
def _poisoned() -> Iterator[None]:
    """New memory is full of NaN, or of large numbers where there is no NaN."""

    def spoil(made: Tensor) -> Tensor:
        if made.is_floating_point():
            return made.fill_(torch.nan)
        return made.fill_(2**30) if made.dtype in (torch.int32, torch.int64) else made

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((torch, "empty"), (torch, "empty_like"), (Tensor, "new_empty")):
            real = getattr(owner, name)
            patch.setattr(owner, name, lambda *args, real=real, **kwargs: spoil(real(*args, **kwargs)))
        yield


@pytest.fixture(scope="session")
def poisoned() -> Callable[[], AbstractContextManager[None]]:
    return _poisoned
