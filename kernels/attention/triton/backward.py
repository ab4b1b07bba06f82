"""The backward kernels: each gradient is summed by one program, so there are no atomics and no chance.

A program first owns ROWS keys and sums dK and dV over queries, then owns as many queries and sums dQ
over keys. Under a causal mask the first half is long where the second is short, so all programs take
alike long. Probabilities are computed again from the forward pass's shift (Dao 2023).
"""

import triton
import triton.language as tl

from trainwreck.kernels.attention.triton.parts import (
    HIDDEN,
    LOG2E,
    allowed_tile,
    draws,
    load_documents,
    load_rows,
    masked_scores,
    of_run,
    place,
    store_rows,
)


@triton.jit
def row_dots(
    p_out, p_d_out, p_delta, T, H, K: tl.constexpr, BK: tl.constexpr, ROWS: tl.constexpr, HEADS_K: tl.constexpr
):  # fmt: skip
    """delta [N, B, H, T] = sum over K of out * d_out [N, B, T, H, K]: what softmax's gradient subtracts."""
    head, i_block = place(T, ROWS)
    o_t = i_block * ROWS + tl.arange(0, ROWS)
    base = ((head // H).to(tl.int64) * T * H + head % H) * K
    b_out = load_rows(p_out + base, o_t, T, HEADS_K, K, BK).to(tl.float32)  # [ROWS, BK]
    b_d_out = load_rows(p_d_out + base, o_t, T, HEADS_K, K, BK).to(tl.float32)
    tl.store(p_delta + head.to(tl.int64) * T + o_t, tl.sum(b_out * b_d_out, 1), mask=o_t < T)


@triton.jit(do_not_specialize=["step"])
def backward(
    p_q, p_k, p_v, p_d_out, p_shift, p_norm, p_delta, p_dq, p_dk, p_dv,  # tensors of heads
    p_scale, p_doc, p_flag, p_table, table_stride,  # masks
    p_key, p_threshold, p_factor, step,  # dropout
    T, H, B,
    K: tl.constexpr, BK: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr, HEADS_K: tl.constexpr,
    PLAIN: tl.constexpr, DOCUMENTS: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
    SCORES: tl.constexpr, GRADE: tl.constexpr, FINISH: tl.constexpr,
):  # fmt: skip
    """q, k, v and their gradients: [N, B, H, T, K]. d_out: [N, B, T, H, K]. The rest as the forward kernel has it."""
    head, i_block = place(T, ROWS)
    n = head // (B * H)
    base = head.to(tl.int64) * T * K
    rows = head.to(tl.int64) * T
    p_row = p_d_out + ((head // H).to(tl.int64) * T * H + head % H) * K
    scale = tl.load(p_scale + n)
    p_ids = p_doc + (head // H).to(tl.int64) * T
    p_seen, flag, key, threshold, factor = of_run(
        n, p_flag, p_table, table_stride, p_key, p_threshold, p_factor, PLAIN, DOCUMENTS, DROPOUT
    )  # fmt: skip

    o_own = i_block * ROWS + tl.arange(0, ROWS)
    b_doc = o_own
    if DOCUMENTS:
        b_doc = load_documents(p_ids, o_own, T)
    first = i_block * ROWS
    end = tl.cdiv(T, STEP) * STEP
    middle = tl.minimum(first + ROWS, end)

    b_k = load_rows(p_k + base, o_own, T, K, K, BK)  # [ROWS, BK]
    b_v = load_rows(p_v + base, o_own, T, K, K, BK)
    b_zero = tl.zeros([ROWS, BK], tl.float32)
    sums = (b_zero, b_zero)
    start = 0
    if PLAIN:
        start = middle
        sums = over_queries(
            sums, b_k, b_v, p_q + base, p_row, p_shift + rows, p_norm + rows, p_delta + rows, scale, o_own, b_doc,
            p_ids, p_seen, flag, key, threshold, factor, head % (B * H), step, first, middle, T, K, BK, ROWS, STEP,
            HEADS_K, PLAIN, True, DOCUMENTS, DROPOUT, PRECISION, SCORES, GRADE,
        )  # fmt: skip
    sums = over_queries(
        sums, b_k, b_v, p_q + base, p_row, p_shift + rows, p_norm + rows, p_delta + rows, scale, o_own, b_doc,
        p_ids, p_seen, flag, key, threshold, factor, head % (B * H), step, start, end, T, K, BK, ROWS, STEP,
        HEADS_K, PLAIN, False, DOCUMENTS, DROPOUT, PRECISION, SCORES, GRADE,
    )  # fmt: skip
    b_dk, b_dv = sums
    store_rows(p_dk + base, FINISH(b_dk, scale), o_own, T, K, K, BK)
    store_rows(p_dv + base, b_dv, o_own, T, K, K, BK)

    b_q = load_rows(p_q + base, o_own, T, K, K, BK)  # [ROWS, BK]
    b_d_out = load_rows(p_row, o_own, T, HEADS_K, K, BK)
    m_own = o_own < T
    b_shift = tl.load(p_shift + rows + o_own, mask=m_own, other=0.0)
    b_delta = tl.load(p_delta + rows + o_own, mask=m_own, other=0.0)
    b_norm = b_delta
    if not PLAIN:
        b_norm = tl.load(p_norm + rows + o_own, mask=m_own, other=0.0)
    b_dq = tl.zeros([ROWS, BK], tl.float32)
    last = end
    if PLAIN:
        last = middle
        b_dq = over_keys_back(
            b_dq, b_q, b_d_out, b_shift, b_norm, b_delta, p_k + base, p_v + base, scale, o_own, b_doc, p_ids, p_seen,
            flag, key, threshold, factor, head % (B * H), step, 0, first, T, K, BK, STEP, PLAIN, False, DOCUMENTS,
            DROPOUT, PRECISION, SCORES, GRADE,
        )  # fmt: skip
        start = first
    b_dq = over_keys_back(
        b_dq, b_q, b_d_out, b_shift, b_norm, b_delta, p_k + base, p_v + base, scale, o_own, b_doc, p_ids, p_seen,
        flag, key, threshold, factor, head % (B * H), step, start, last, T, K, BK, STEP, PLAIN, True, DOCUMENTS,
        DROPOUT, PRECISION, SCORES, GRADE,
    )  # fmt: skip
    store_rows(p_dq + base, FINISH(b_dq, scale), o_own, T, K, K, BK)


@triton.jit
def probabilities(
    b_s, b_shift, b_norm, p_seen, flag, o_t, o_s, b_doc_t, b_doc_s, T,
    PLAIN: tl.constexpr, ORDERED: tl.constexpr, DOCUMENTS: tl.constexpr,
):  # fmt: skip
    """A tile of the softmax from its scaled scores, in base 2."""
    if PLAIN:
        b_d = b_s - b_shift
        if ORDERED or DOCUMENTS:
            b_d = tl.where(allowed_tile(o_t, o_s, b_doc_t, b_doc_s, ORDERED, DOCUMENTS), b_d, HIDDEN)
        b_p = tl.exp2(b_d)
    else:
        b_s = masked_scores(b_s, p_seen, flag, o_t, o_s, b_doc_t, b_doc_s, T, DOCUMENTS)
        b_p = tl.exp2(b_s - b_shift) * b_norm
    return b_p


@triton.jit
def over_queries(
    sums, b_k, b_v, p_q, p_d_out, p_shift, p_norm, p_delta, scale, o_s, b_doc_s, p_ids, p_seen, flag, key, threshold,
    factor, head, step, start, end, T,
    K: tl.constexpr, BK: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr, HEADS_K: tl.constexpr,
    PLAIN: tl.constexpr, ORDERED: tl.constexpr, DOCUMENTS: tl.constexpr, DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr, SCORES: tl.constexpr, GRADE: tl.constexpr,
):  # fmt: skip
    """Sums of dK (before the scale) and dV over queries start to end. Tiles are keys by queries."""
    b_dk, b_dv = sums
    for i in range(start, end, STEP):
        o_t = i + tl.arange(0, STEP)
        m_t = o_t < T
        b_q = load_rows(p_q, o_t, T, K, K, BK)  # [STEP, BK]
        b_shift = tl.load(p_shift + o_t, mask=m_t, other=0.0)
        b_norm = b_shift
        if not PLAIN:
            b_norm = tl.load(p_norm + o_t, mask=m_t, other=0.0)
        b_doc_t = o_t
        if DOCUMENTS:
            b_doc_t = load_documents(p_ids, o_t, T)
        b_s = SCORES(b_k, tl.trans(b_q), PRECISION) * (scale * LOG2E)  # [ROWS, STEP]
        b_p = probabilities(
            b_s, b_shift[None, :], b_norm[None, :], p_seen, flag, o_t[None, :], o_s[:, None], b_doc_t[None, :],
            b_doc_s[:, None], T, PLAIN, ORDERED, DOCUMENTS,
        )  # fmt: skip
        b_d_out = load_rows(p_d_out, o_t, T, HEADS_K, K, BK)  # [STEP, BK]
        b_dp = tl.dot(b_v, tl.trans(b_d_out), input_precision=PRECISION)  # [ROWS, STEP]
        b_kept = b_p
        if DROPOUT:
            b_draw = draws(key, o_t, tl.min(o_s, 0), head, step, ROWS)  # [STEP, ROWS]
            m_kept = tl.trans(b_draw) >= threshold.to(tl.uint32)
            b_kept = tl.where(m_kept, b_p * factor, 0.0)
            b_dp = tl.where(m_kept, b_dp * factor, 0.0)
        b_dv = tl.dot(b_kept.to(b_d_out.dtype), b_d_out, b_dv, input_precision=PRECISION)
        b_delta = tl.load(p_delta + o_t, mask=m_t, other=0.0)
        b_ds = GRADE(b_p * (b_dp - b_delta[None, :]), scale, b_q.dtype)
        b_dk = tl.dot(b_ds, b_q.to(b_ds.dtype), b_dk, input_precision=PRECISION)
    return b_dk, b_dv


@triton.jit
def over_keys_back(
    b_dq, b_q, b_d_out, b_shift, b_norm, b_delta, p_k, p_v, scale, o_t, b_doc_t, p_ids, p_seen, flag, key, threshold,
    factor, head, step, start, end, T,
    K: tl.constexpr, BK: tl.constexpr, STEP: tl.constexpr, PLAIN: tl.constexpr, ORDERED: tl.constexpr,
    DOCUMENTS: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr, SCORES: tl.constexpr, GRADE: tl.constexpr,
):  # fmt: skip
    """The sum of dQ (before the scale) over keys start to end. Tiles are queries by keys."""
    for i in range(start, end, STEP):
        o_s = i + tl.arange(0, STEP)
        b_k = load_rows(p_k, o_s, T, K, K, BK)  # [STEP, BK]
        b_v = load_rows(p_v, o_s, T, K, K, BK)
        b_doc_s = o_s
        if DOCUMENTS:
            b_doc_s = load_documents(p_ids, o_s, T)
        b_s = SCORES(b_q, tl.trans(b_k), PRECISION) * (scale * LOG2E)  # [ROWS, STEP]
        b_p = probabilities(
            b_s, b_shift[:, None], b_norm[:, None], p_seen, flag, o_t[:, None], o_s[None, :], b_doc_t[:, None],
            b_doc_s[None, :], T, PLAIN, ORDERED, DOCUMENTS,
        )  # fmt: skip
        b_dp = tl.dot(b_d_out, tl.trans(b_v), input_precision=PRECISION)  # [ROWS, STEP]
        if DROPOUT:
            m_kept = draws(key, o_t, i, head, step, STEP) >= threshold.to(tl.uint32)
            b_dp = tl.where(m_kept, b_dp * factor, 0.0)
        b_ds = GRADE(b_p * (b_dp - b_delta[:, None]), scale, b_q.dtype)
        b_dq = tl.dot(b_ds, b_k.to(b_ds.dtype), b_dq, input_precision=PRECISION)
    return b_dq
