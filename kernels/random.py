"""Random streams that are a function of (seed, stream, step) and of nothing else.

Two runs that share a seed share every draw, whatever else differs between them, and a run can be
entered at any step. The generator is Philox-4x64-10 (Salmon et al. 2011, "Parallel random numbers:
as easy as 1, 2, 3"): the seed and a hash of the stream's name are its key, the step is the high
word of its counter.
"""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SEED_LIMIT = 2**63


@cache
def stream_key(stream: str) -> int:
    """The 64-bit key of a stream's name."""
    return int.from_bytes(hashlib.blake2b(stream.encode(), digest_size=8).digest(), "little")


def generator(seed: int, stream: str, step: int = 0) -> np.random.Generator:
    """A NumPy generator for one stream of one seed at one step.

    >>> bool(generator(3, "data", 7).random() == generator(3, "data", 7).random())
    True
    """
    if not 0 <= seed < SEED_LIMIT:
        raise ValueError(f"seed: {seed} is not allowed; allowed: 0 to {SEED_LIMIT - 1}")
    if step < 0:
        raise ValueError(f"step: {step} is not allowed; allowed: 0 or more")
    # As an array: NumPy would make a list with a key of 2**63 or more into floats.
    bits = np.random.Philox(key=np.array([seed, stream_key(stream)], np.uint64), counter=[0, 0, 0, step])
    return np.random.Generator(bits)


def sent(values: np.ndarray, device: torch.device) -> Tensor:
    """Numbers drawn on the host, on a device, to a CUDA device from pinned memory: the host goes on at once."""
    import torch

    drawn = torch.from_numpy(values)
    return (drawn.pin_memory() if device.type == "cuda" else drawn).to(device, non_blocking=True)


def dropout_mask(seeds: list[int], stream: str, step: int, shape: tuple[int, ...], rate_N: Tensor) -> Tensor:
    """Scaled keep masks: 0 with probability `rate`, else 1 / (1 - rate).

    seeds: one for each of N runs; shape: of one run; rate_N: float, [N]. Returns [N, *shape] with the
    dtype and device of `rate_N`. The resolution of the rate is 2**-16.
    """
    count = int(np.prod(shape))
    raw = np.empty((len(seeds), count), dtype=np.uint16)
    for row, seed in zip(raw, seeds, strict=True):
        row[:] = np.frombuffer(generator(seed, stream, step).bytes(2 * count), dtype="<u2")
    spread = (len(seeds),) + (1,) * len(shape)
    uniform = sent(raw.astype(np.float32), rate_N.device).view(len(seeds), *shape)
    rate = rate_N.view(spread)
    return (uniform >= rate * 65536.0).to(rate_N.dtype) / (1.0 - rate)


def run_keys(seeds: tuple[int, ...], stream: str, device: torch.device) -> Tensor:
    """One 64-bit key for each seed under a stream, int64, [N]. Made once: a step costs no transfer."""
    return _run_keys(seeds, stream, str(device))


@lru_cache(maxsize=256)
def _run_keys(seeds: tuple[int, ...], stream: str, device: str) -> Tensor:
    import torch

    keys = [stream_key(f"{seed}/{stream}") for seed in seeds]
    return sent(np.array(keys, np.uint64).view(np.int64), torch.device(device))


WORD = 2**32 - 1
ROUNDS = 10


def philox_4x32(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four 32-bit words of Philox-4x32-10 (Salmon et al. 2011) for each counter and key.

    counter: int64, four words of 32 bits; key: int64, its low half is the first word. All broadcast.
    Returns int64, 0 to 2**32 - 1: PyTorch computes with no unsigned integers.
    """
    a, b, c, d = counter
    low, high = key & WORD, (key >> 32) & WORD
    for _ in range(ROUNDS):
        # A product of two words wraps into the sign bit; shifted and masked, its halves are right.
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b = ((second >> 32) & WORD) ^ b ^ low, second & WORD
        c, d = ((first >> 32) & WORD) ^ d ^ high, first & WORD
        low, high = (low + 0x9E3779B9) & WORD, (high + 0xBB67AE85) & WORD
    return a, b, c, d
