"""Random streams that are a function of (seed, stream, step) and of nothing else.

Two runs that share a seed share every draw, whatever else differs between them, and a run can be
entered at any step. The generator is Philox-4x64-10 (Salmon et al. 2011, "Parallel random numbers:
as easy as 1, 2, 3"): the seed and a hash of the stream's name are its key, the step is the high
word of its counter.
"""

import hashlib
from functools import cache

import numpy as np
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
    uniform = torch.from_numpy(raw.astype(np.float32)).to(rate_N.device).view(len(seeds), *shape)
    rate = rate_N.view(spread)
    return (uniform >= rate * 65536.0).to(rate_N.dtype) / (1.0 - rate)
