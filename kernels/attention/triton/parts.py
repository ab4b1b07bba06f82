"""Parts that the attention kernels are put together from, each a device function over one tile.

Scores are in base 2: they are multiplied by log2(e) with the scale, and exp2 follows. A tile may be
queries by keys or keys by queries; positions and ids come with the axes that broadcast to it.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
# MASKED in base 2, so that it is MASKED again in nats.
HIDDEN = tl.constexpr(-1.4426950408889634e30)
# Where no key is: under every masked score, so that a row of nothing allowed spreads over keys alone.
# Finite, like the masks, so that a difference of two of them is never NaN.
OUTSIDE = tl.constexpr(-3e38)


@triton.jit
def place(T, ROWS: tl.constexpr):
    """Head and block of this program; within a head the last block, which sees most keys, goes first."""
    blocks = tl.cdiv(T, ROWS)
    head = tl.program_id(0) // blocks
    return head, blocks - 1 - tl.program_id(0) % blocks


@triton.jit
def of_run(
    n, p_flag, p_table, table_stride, p_key, p_threshold, p_factor,
    PLAIN: tl.constexpr, DOCUMENTS: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Table of what is allowed, whether documents are apart, and key, threshold and factor of dropout, of run n.

    What a kernel has no use for is stood in for by something of the same kind.
    """
    p_seen = p_table
    flag = 1.0
    if not PLAIN:
        p_seen = p_table + n.to(tl.int64) * table_stride
        if DOCUMENTS:
            flag = tl.load(p_flag + n)
    key, threshold, factor = n, n, 1.0
    if DROPOUT:
        key, threshold, factor = tl.load(p_key + n), tl.load(p_threshold + n), tl.load(p_factor + n)
    return p_seen, flag, key, threshold, factor


@triton.jit
def load_rows(p_x, o_t, T, STRIDE: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    """Rows of one head, [len(o_t), BK]; 0 outside."""
    o_k = tl.arange(0, BK)
    m_x = (o_t < T)[:, None]
    if BK != K:
        m_x = m_x & (o_k < K)[None, :]
    return tl.load(p_x + o_t[:, None] * STRIDE + o_k[None, :], mask=m_x, other=0.0)


@triton.jit
def store_rows(p_x, b_x, o_t, T, STRIDE: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    """The other way round, rounded to the dtype that is stored."""
    o_k = tl.arange(0, BK)
    m_x = (o_t < T)[:, None]
    if BK != K:
        m_x = m_x & (o_k < K)[None, :]
    tl.store(p_x + o_t[:, None] * STRIDE + o_k[None, :], b_x.to(p_x.dtype.element_ty), mask=m_x)


@triton.jit
def load_documents(p_doc, o_t, T):
    """Document ids; positions past the end are a document of their own."""
    return tl.load(p_doc + o_t, mask=o_t < T, other=-2)


@triton.jit
def scores(b_a, b_b, PRECISION: tl.constexpr):
    """Products of queries and keys before the scale, float32."""
    return tl.dot(b_a, b_b, input_precision=PRECISION)


@triton.jit
def shift(b_top):
    """What a row's scores are lowered by before exp2: their maximum so far."""
    return b_top


@triton.jit
def accumulate(b_acc, b_a, b_p, b_v, PRECISION: tl.constexpr):
    """The output so far, rescaled, and what this tile adds; probabilities are rounded to the dtype of v."""
    return tl.dot(b_p.to(b_v.dtype), b_v, b_acc * b_a[:, None], input_precision=PRECISION)


@triton.jit
def grade(b_ds, scale, DTYPE: tl.constexpr):
    """Score gradients as they meet q or k; the scale comes last, with `finish`."""
    return b_ds.to(DTYPE)


@triton.jit
def finish(b_dx, scale):
    """The gradient of q or k from the sum over tiles."""
    return b_dx * scale


@triton.jit
def allowed_tile(
    o_t, o_s, b_doc_t, b_doc_s, ORDERED: tl.constexpr, DOCUMENTS: tl.constexpr
):  # fmt: skip
    """Where a key is in sight under the causal mask and within documents, bool.

    ORDERED: some keys of the tile may come after some queries.
    """
    if ORDERED:
        m_s = o_s <= o_t
        if DOCUMENTS:
            m_s = m_s & (b_doc_s == b_doc_t)
    else:
        m_s = b_doc_s == b_doc_t
    return m_s


@triton.jit
def masked_scores(
    b_s, p_table, document_flag, o_t, o_s, b_doc_t, b_doc_s, T, DOCUMENTS: tl.constexpr
):  # fmt: skip
    """Scores under a table of what is allowed, lowered once by each of the two masks that hide them.

    Added like the reference's: a row in which nothing is allowed spreads over what one mask hides, not
    over what both do, and an infinite score stays infinite.
    """
    inside = (o_t < T) & (o_s < T)
    b_seen = tl.load(p_table + o_t * T + o_s, mask=inside, other=1)
    b_hidden = tl.where(b_seen != 0, 0.0, 1.0)
    if DOCUMENTS:
        b_hidden += tl.where(b_doc_s == b_doc_t, 0.0, document_flag)
    return tl.where(o_s < T, b_s + b_hidden * HIDDEN, OUTSIDE)


@triton.jit
def draws(key, o_t, start_s, head, step, BS: tl.constexpr):
    """Words of Philox-4x32-10, uint32, [len(o_t), BS]: see `dropout.Dropout`. start_s is a multiple of 4."""
    o_g = start_s // 4 + tl.arange(0, BS // 4)
    zero = tl.zeros([1, 1], tl.int32)
    c_g = zero + o_g[None, :] + o_t[:, None] * 0
    c_t = zero + o_t[:, None] + o_g[None, :] * 0
    a, b, c, d = tl.philox(key, c_g, c_t, c_g * 0 + head, c_g * 0 + step)
    return tl.interleave(tl.interleave(a, c), tl.interleave(b, d))
