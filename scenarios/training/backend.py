"""Where runs train and whose kernels they use: decided once, and recorded with the data."""

from dataclasses import asdict, dataclass
from typing import Any

import torch

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.kernels.selection import choose

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Backend:
    """A device, and the implementation of the kernels: reference or triton. Make it with `backend`."""

    device: str = "cpu"
    impl: str = "reference"

    def to_json(self) -> dict[str, Any]:
        """As a manifest has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Any) -> "Backend":
        """The inverse of `to_json`; InputError for anything else."""
        if not isinstance(content, dict) or set(content) != {"device", "impl"}:
            raise InputError(f"backend: {content!r} is not allowed; allowed: device and impl")
        return cls(**content)


CPU = Backend()


def backend(device: str | None = None, impl: str | None = None) -> Backend:
    """The backend asked for. device: cpu by default. impl: triton on cuda and reference on cpu by default.

    Nothing falls back: InputError for a device that is not there, and for kernels that can't run on it.
    """
    device = device or CPU.device
    if device not in DEVICES:
        raise unknown("device", device, DEVICES)
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device: 'cuda' is not allowed without a CUDA device; allowed: cpu")
    try:
        return Backend(device, choose(impl, torch.empty(0, device=device)))
    except ValueError as error:
        raise InputError(str(error)) from None


def recorded(manifest: dict[str, Any]) -> Backend:
    """The backend that a data set was made with."""
    made = Backend.from_json(manifest.get("backend", CPU.to_json()))
    return backend(made.device, made.impl)
