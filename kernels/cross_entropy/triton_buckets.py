"""Losses by position and by age in one pass over the tokens.

Bound by its launches: ten small kernels of the reference become one, a sum over its parts and a
division. No atomics: the order of every sum is a function of the shapes.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from trainwreck.kernels.cross_entropy.losses import BucketLosses

TILE = 256  # tokens of a program
WARPS = 4


@torch.no_grad()
def bucket_losses(
    nll_NM: Tensor, weight_NM: Tensor, age_NM: Tensor, context: int, positions: int, ages: int
) -> BucketLosses:
    """See `trainwreck.kernels.cross_entropy.bucket_losses`."""
    n, m = nll_NM.shape
    buckets, tiles = positions + ages, triton.cdiv(m, TILE)
    parts = torch.empty(n, tiles, 2, buckets, dtype=torch.float32, device=nll_NM.device)
    with torch.cuda.device_of(nll_NM):
        bucket_sums[(tiles, n)](
            nll_NM.contiguous(), weight_NM.contiguous(), age_NM.contiguous(), parts, m,
            T=context, POSITIONS=positions, BUCKETS=buckets, BM=TILE, BK=triton.next_power_of_2(buckets),
            num_warps=WARPS,
        )  # fmt: skip
    sums = parts.sum(1)
    mean = sums[:, 0] / sums[:, 1]
    return BucketLosses(mean[:, :positions], mean[:, positions:])


@triton.jit
def bucket_sums(
    p_nll, p_weight, p_age, p_parts, M,
    T: tl.constexpr, POSITIONS: tl.constexpr, BUCKETS: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Sums of weighted loss and of weight for a tile of tokens: buckets of position, then those of age."""
    i_m, i_n = tl.program_id(0), tl.program_id(1)
    o_m = i_m * BM + tl.arange(0, BM)
    o_k = tl.arange(0, BK)
    m_m = o_m < M
    o_token = i_n.to(tl.int64) * M + o_m
    # [BM]
    b_weight = tl.load(p_weight + o_token, mask=m_m, other=0.0)
    b_loss = tl.load(p_nll + o_token, mask=m_m, other=0.0) * b_weight
    b_age = tl.load(p_age + o_token, mask=m_m, other=BK) + POSITIONS
    b_position = (o_m % T) * POSITIONS // T
    # [BM, BK]
    m_in = (b_position[:, None] == o_k[None, :]) | (b_age[:, None] == o_k[None, :])
    b_in = m_in.to(tl.float32)  # a factor and not a choice, so that NaN reaches every bucket as in the reference
    o_part = (i_n.to(tl.int64) * tl.num_programs(0) + i_m) * 2 * BUCKETS + o_k
    tl.store(p_parts + o_part, tl.sum(b_loss[:, None] * b_in, 0), mask=o_k < BUCKETS)
    tl.store(p_parts + o_part + BUCKETS, tl.sum(b_weight[:, None] * b_in, 0), mask=o_k < BUCKETS)
