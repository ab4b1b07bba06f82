"""The forward kernel: output, log-sum-exp and statistics in one pass over the keys (Dao et al. 2022).

A program owns ROWS queries of one head and takes STEP keys at a time. Under the plain mask the tiles
right of the diagonal are never touched, and those left of it need no mask; any other mask is read
from a table, over all tiles.
"""

import triton
import triton.language as tl

from trainwreck.kernels.attention.triton.parts import (
    HIDDEN,
    LN2,
    LOG2E,
    OUTSIDE,
    accumulate,
    allowed_tile,
    draws,
    load_documents,
    load_rows,
    masked_scores,
    of_run,
    place,
    store_rows,
)

# Columns of the partial statistics: what adds up to a mean, with the forbidden masses where they are
# measured; what a maximum is taken of comes last.
ENTROPY, LSE, MASS_SELF, DISTANCE, MASS_FUTURE, MASS_OTHER, MASS_PADDING = (tl.constexpr(i) for i in range(7))
TIGHT, LEAKY = tl.constexpr(6), tl.constexpr(9)


@triton.jit(do_not_specialize=["step"])
def forward(
    p_q, p_k, p_v, p_out, p_shift, p_norm, p_part,  # tensors of heads
    p_scale, p_doc, p_flag, p_table, table_stride,  # masks
    p_key, p_threshold, p_factor, step,  # dropout
    T, H, B, per_run,
    K: tl.constexpr, BK: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr, HEADS_K: tl.constexpr,
    PLAIN: tl.constexpr, DOCUMENTS: tl.constexpr, DROPOUT: tl.constexpr, STATS: tl.constexpr,
    FORBIDDEN: tl.constexpr, PRECISION: tl.constexpr,
    SCORES: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """q, k, v: [N, B, H, T, K]. out: [N, B, T, H, K]. shift, norm: [N, B, H, T]. part: [N, B, H, blocks, columns].

    Under the plain mask `shift` is the log-sum-exp in base 2; under a table it is the row's shift and
    `norm` the inverse of the sum, as a row of masked scores would lose its sum beside them.
    per_run: 1 / (B * T), so that partial means only have to be added.
    """
    head, i_block = place(T, ROWS)
    n = head // (B * H)
    base = head.to(tl.int64) * T * K
    o_t = i_block * ROWS + tl.arange(0, ROWS)
    m_t = o_t < T
    scale = tl.load(p_scale + n) * LOG2E
    # The sign goes into q, where it costs no precision: so a maximum may be taken before the scale.
    b_q = load_rows(p_q + base, o_t, T, K, K, BK)  # [ROWS, BK]
    b_q = tl.where(scale < 0.0, -b_q, b_q)
    scale = tl.abs(scale)
    p_ids = p_doc + (head // H).to(tl.int64) * T
    b_doc_t = o_t
    if DOCUMENTS:
        b_doc_t = load_documents(p_ids, o_t, T)
    p_seen, flag, key, threshold, factor = of_run(
        n, p_flag, p_table, table_stride, p_key, p_threshold, p_factor, PLAIN, DOCUMENTS, DROPOUT
    )  # fmt: skip

    b_acc = tl.zeros([ROWS, BK], tl.float32)
    b_top = tl.full([ROWS], OUTSIDE, tl.float32)
    b_zero = tl.zeros([ROWS], tl.float32)
    state = (b_acc, b_top, b_zero, b_zero, b_zero, b_zero, b_zero, b_zero, b_zero)
    end = tl.cdiv(T, STEP) * STEP
    middle = 0
    if PLAIN:
        middle = i_block * ROWS
        end = tl.minimum(middle + ROWS, end)
        state = over_keys(
            state, b_q, p_k + base, p_v + base, scale, o_t, b_doc_t, p_ids, p_seen, flag, key, threshold, factor,
            head % (B * H), step, 0, middle, T, K, BK, STEP, PLAIN, False, DOCUMENTS, DROPOUT, STATS, FORBIDDEN,
            PRECISION, SCORES, SHIFT,
        )  # fmt: skip
    state = over_keys(
        state, b_q, p_k + base, p_v + base, scale, o_t, b_doc_t, p_ids, p_seen, flag, key, threshold, factor,
        head % (B * H), step, middle, end, T, K, BK, STEP, PLAIN, True, DOCUMENTS, DROPOUT, STATS, FORBIDDEN,
        PRECISION, SCORES, SHIFT,
    )  # fmt: skip
    b_acc, b_top, b_sum, b_spread, b_self, b_far, b_future, b_other, b_padding = state

    b_sum = tl.where(m_t, b_sum, 1.0)
    b_norm = 1.0 / b_sum
    p_row = p_out + ((head // H).to(tl.int64) * T * H + head % H) * K
    store_rows(p_row, b_acc * b_norm[:, None], o_t, T, HEADS_K, K, BK)
    b_log = tl.log2(b_sum)
    rows = head.to(tl.int64) * T
    if PLAIN:
        tl.store(p_shift + rows + o_t, SHIFT(b_top) + b_log, mask=m_t)
    else:
        tl.store(p_shift + rows + o_t, SHIFT(b_top), mask=m_t)
        tl.store(p_norm + rows + o_t, b_norm, mask=m_t)
    if STATS:
        columns: tl.constexpr = LEAKY if FORBIDDEN else TIGHT
        p_row = p_part + (head.to(tl.int64) * tl.cdiv(T, ROWS) + i_block) * columns
        b_entropy = (b_log - b_spread * b_norm) * LN2
        b_far *= b_norm
        if PLAIN:
            b_far = o_t.to(tl.float32) - b_far
        keep_mean(p_row + ENTROPY, b_entropy, m_t, per_run)
        keep_mean(p_row + LSE, (SHIFT(b_top) + b_log) * LN2, m_t, per_run)
        keep_mean(p_row + MASS_SELF, b_self * b_norm, m_t, per_run)
        keep_mean(p_row + DISTANCE, b_far, m_t, per_run)
        if FORBIDDEN:
            keep_mean(p_row + MASS_FUTURE, b_future * b_norm, m_t, per_run)
            keep_mean(p_row + MASS_OTHER, b_other * b_norm, m_t, per_run)
            keep_mean(p_row + MASS_PADDING, b_padding * b_norm, m_t, per_run)
        keep_peak(p_row + columns - 2, -b_entropy, m_t)
        # The running maximum passes over NaN; the sum knows. An infinite score is itself the maximum.
        m_top = (b_sum == b_sum) | (b_top == float("inf"))
        keep_peak(p_row + columns - 1, tl.where(m_top, b_top, b_sum) * LN2, m_t)


@triton.jit
def keep_mean(p_x, b_x, m_t, per_run):
    """What these rows add to a mean over all rows of a run and head."""
    tl.store(p_x, tl.sum(tl.where(m_t, b_x, 0.0), 0) * per_run)


@triton.jit
def keep_peak(p_x, b_x, m_t):
    """The largest of these rows, NaN if any is."""
    tl.store(p_x, tl.reduce(tl.where(m_t, b_x, OUTSIDE), 0, larger))


@triton.jit
def larger(a, b):
    """The larger of two, NaN if either is."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def over_keys(
    state, b_q, p_k, p_v, scale, o_t, b_doc_t, p_ids, p_seen, flag, key, threshold, factor, head, step, start, end, T,
    K: tl.constexpr, BK: tl.constexpr, STEP: tl.constexpr, PLAIN: tl.constexpr, ORDERED: tl.constexpr,
    DOCUMENTS: tl.constexpr, DROPOUT: tl.constexpr, STATS: tl.constexpr, FORBIDDEN: tl.constexpr,
    PRECISION: tl.constexpr, SCORES: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """Keys start to end: the state of the rows' online softmax, and of their statistics, after them.

    With shift m, sum l = sum e^(s-m) and u = sum e^(s-m) (s-m), a new shift m' and a = e^(m-m') make
    u' = a (u + (m-m') l) + sum e^(s-m') (s-m') and l' = a l + sum e^(s-m'). Entropy is ln l - u / l.
    """
    b_acc, b_top, b_sum, b_spread, b_self, b_far, b_future, b_other, b_padding = state
    o_step = tl.arange(0, STEP)
    for i in range(start, end, STEP):
        o_s = i + o_step
        b_k = load_rows(p_k, o_s, T, K, K, BK)  # [STEP, BK]
        b_s = SCORES(b_q, tl.trans(b_k), PRECISION)  # [ROWS, STEP]
        b_doc_s = o_s
        if DOCUMENTS:
            b_doc_s = load_documents(p_ids, o_s, T)
        if PLAIN:
            if ORDERED or DOCUMENTS:
                m_s = allowed_tile(
                    o_t[:, None], o_s[None, :], b_doc_t[:, None], b_doc_s[None, :], ORDERED, DOCUMENTS
                )  # fmt: skip
                b_new = tl.maximum(b_top, tl.max(tl.where(m_s, b_s * scale, HIDDEN), 1))
                b_d = tl.where(m_s, b_s * scale - SHIFT(b_new)[:, None], HIDDEN)
            else:
                b_new = tl.maximum(b_top, tl.max(b_s, 1) * scale)
                b_d = b_s * scale - SHIFT(b_new)[:, None]
        else:
            b_s = masked_scores(
                b_s * scale, p_seen, flag, o_t[:, None], o_s[None, :], b_doc_t[:, None], b_doc_s[None, :], T, DOCUMENTS
            )  # fmt: skip
            b_new = tl.maximum(b_top, tl.max(b_s, 1))
            b_d = b_s - SHIFT(b_new)[:, None]
        b_p = tl.exp2(b_d)
        b_moved = SHIFT(b_top) - SHIFT(b_new)
        b_a = tl.exp2(b_moved)
        if STATS:
            if not PLAIN:
                b_d = tl.maximum(b_d, OUTSIDE)  # 0 * -inf would be NaN
            b_spread = b_a * (b_spread + tl.where(b_sum > 0.0, b_moved * b_sum, 0.0)) + tl.sum(b_p * b_d, 1)
            if PLAIN:
                # Mean position of the keys; in two parts, so that the columns' numbers are the same in every tile.
                b_here = tl.sum(b_p * o_step.to(tl.float32)[None, :], 1) + (i * 1.0) * tl.sum(b_p, 1)
            else:
                b_here = tl.sum(b_p * tl.abs(o_t[:, None] - o_s[None, :]).to(tl.float32), 1)
            b_far = b_a * b_far + b_here
            b_self *= b_a
            if ORDERED:
                b_self += tl.sum(tl.where(o_t[:, None] == o_s[None, :], b_p, 0.0), 1)
            if FORBIDDEN:
                b_future = b_a * b_future + tl.sum(tl.where(o_t[:, None] < o_s[None, :], b_p, 0.0), 1)
                if DOCUMENTS:
                    m_other = (b_doc_t[:, None] != b_doc_s[None, :]) & (b_doc_s >= 0)[None, :]
                    b_other = b_a * b_other + tl.sum(tl.where(m_other, b_p, 0.0), 1)
                    b_padding = b_a * b_padding + tl.sum(tl.where((b_doc_s == -1)[None, :], b_p, 0.0), 1)
        b_sum = b_a * b_sum + tl.sum(b_p, 1)
        if DROPOUT:
            b_kept = draws(key, o_t, i, head, step, STEP) >= threshold.to(tl.uint32)
            b_p = tl.where(b_kept, b_p * factor, 0.0)
        b_v = load_rows(p_v, o_s, T, K, K, BK)  # [STEP, BK]
        b_acc = accumulate(b_acc, b_a, b_p, b_v, PRECISION)
        b_top = b_new
    return b_acc, b_top, b_sum, b_spread, b_self, b_far, b_future, b_other, b_padding
