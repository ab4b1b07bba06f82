"""Rotary positions: complex multiplication, dependence on distance alone, offset and stretch."""

import math
import re

import pytest
import torch
from torch import Tensor

from trainwreck.kernels.rotary import split_and_rotate
from trainwreck.models.rotary import rotary_table

SHAPES = [(1, 1, 1, 1, 2), (2, 3, 7, 2, 6), (3, 2, 33, 5, 10)]  # N, B, T, H, K


def packed(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Tensor:
    n, b, t, h, k = shape
    return torch.randn(n, b, t, 3 * h * k, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


def tables(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """A table of its own for every run, and others for keys."""
    n, _, t, _, k = shape
    q = torch.stack([rotary_table(t, k, 100.0 + i, dtype) for i in range(n)])
    return q, torch.stack([rotary_table(t, k, 50.0, dtype, offset=i, stretch=1.5) for i in range(n)])


def turned(qkv: Tensor, shape: tuple[int, ...], q_table: Tensor, k_table: Tensor) -> list[Tensor]:
    """q, k, v, [N, B, H, T, K], number by number in Python's complex arithmetic."""
    n, b, t, h, k = shape
    parts = qkv.view(n, b, t, 3, h, k)
    result = [torch.empty(n, b, h, t, k, dtype=torch.float64) for _ in range(3)]
    for i, j, p, head in torch.cartesian_prod(*(torch.arange(size) for size in (n, b, t, h))).reshape(-1, 4).tolist():
        result[2][i, j, head, p] = parts[i, j, p, 2, head]
        for which, table in ((0, q_table), (1, k_table)):
            for m in range(k // 2):
                pair = parts[i, j, p, which, head, 2 * m : 2 * m + 2].tolist()
                z = complex(*pair) * complex(table[i, p, m])
                result[which][i, j, head, p, 2 * m : 2 * m + 2] = torch.tensor([z.real, z.imag], dtype=torch.float64)
    return result


@pytest.mark.parametrize("shape", SHAPES)
def test_splitting_and_rotating_is_multiplication_by_the_table(shape: tuple[int, ...]) -> None:
    qkv, (q_table, k_table) = packed(shape), tables(shape)
    got = split_and_rotate(qkv, q_table, k_table, shape[3])
    for x, right in zip(got, turned(qkv, shape, q_table, k_table), strict=True):
        assert (x - right).abs().max() <= 4 * torch.finfo(torch.float64).eps * right.abs().max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_low_format_is_rotated_in_float32_and_rounded_once(dtype: torch.dtype) -> None:
    shape = SHAPES[1]
    qkv, (q_table, k_table) = packed(shape, dtype), tables(shape, torch.float32)
    right = turned(qkv.double(), shape, q_table.to(torch.complex128), k_table.to(torch.complex128))
    for x, exact in zip(split_and_rotate(qkv, q_table, k_table, shape[3]), right, strict=True):
        assert x.dtype == dtype
        bound = torch.finfo(dtype).eps / 2 * exact.abs() + 4 * torch.finfo(torch.float32).eps * exact.abs().max()
        bound += torch.finfo(dtype).smallest_normal  # the spacing of numbers near 0
        assert bool(((x.double() - exact).abs() <= bound).all())


@pytest.mark.parametrize("shape", SHAPES)
def test_the_input_is_left_as_it_was(shape: tuple[int, ...]) -> None:
    qkv, table = packed(shape), rotary_table(shape[2], shape[4], 100.0, torch.float64, offset=3)
    before = qkv.clone()
    split_and_rotate(qkv, table.expand(shape[0], -1, -1), table.expand(shape[0], -1, -1), shape[3])
    assert torch.equal(qkv, before)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 2), (2, 2, 3, 2, 4)])
def test_gradients_are_those_of_finite_differences(shape: tuple[int, ...]) -> None:
    qkv, (q_table, k_table) = packed(shape).requires_grad_(), tables(shape)
    assert torch.autograd.gradcheck(
        lambda x: split_and_rotate(x, q_table, k_table, shape[3]), (qkv,), check_undefined_grad=False
    )


def test_the_gradient_in_a_low_format_is_rotated_back() -> None:
    shape = SHAPES[1]
    qkv, (q_table, k_table) = packed(shape, torch.bfloat16).requires_grad_(), tables(shape, torch.float32)
    parts = split_and_rotate(qkv, q_table, k_table, shape[3])
    # A rotation's gradient is its inverse, so |x|^2 has the gradient 2 x, up to the rounding of x.
    (grad,) = torch.autograd.grad(sum((x.float() ** 2).sum() / 2 for x in parts), qkv)
    assert grad.dtype == torch.bfloat16
    assert (grad.float() - qkv.float()).abs().max() <= 4 * torch.finfo(torch.bfloat16).eps * qkv.abs().max()


def scores(offset_q: int = 0, offset_k: int = 0, stretch: float = 1.0, base: float = 10000.0) -> Tensor:
    """q_t' k_s for one query and one key vector put at every position, [T, S]."""
    t, k = 24, 8
    vector = torch.randn(2, k, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    qkv = torch.cat((vector[0], vector[1], vector[0])).expand(1, 1, t, 3 * k).contiguous()
    table_q, table_k = (
        rotary_table(t, k, base, torch.float64, offset=offset, stretch=stretch)[None] for offset in (offset_q, offset_k)
    )
    q, key, _ = split_and_rotate(qkv, table_q, table_k, 1)
    return (q @ key.transpose(-1, -2))[0, 0, 0]


def by_distance(s: Tensor) -> list[Tensor]:
    return [s.diagonal(d) for d in range(-len(s) + 1, len(s))]


def test_scores_depend_on_the_distance_alone() -> None:
    levels = by_distance(scores())
    assert all((level - level[0]).abs().max() < 1e-13 for level in levels)
    assert len({round(float(level[0]), 6) for level in levels}) == len(levels)


def test_a_common_offset_changes_no_score_and_one_of_keys_shifts_them() -> None:
    assert (scores(5, 5) - scores()).abs().max() < 1e-12
    assert (scores(0, 5)[:, :-5] - scores()[:, 5:]).abs().max() < 1e-12
    assert (scores(0, 5) - scores()).abs().max() > 0.1


def test_a_stretch_puts_positions_closer_together() -> None:
    assert (scores(stretch=3.0)[::3, ::3] - scores()[:8, :8]).abs().max() < 1e-12


def test_another_base_keeps_the_first_frequency_and_changes_the_others() -> None:
    right, wrong = rotary_table(9, 8, 10000.0, torch.float64), rotary_table(9, 8, 100.0, torch.float64)
    assert torch.equal(right[:, 0], wrong[:, 0])
    assert bool((right[1:, 1:] != wrong[1:, 1:]).all())
    assert (scores(base=100.0) - scores()).abs().max() > 0.1


def test_rotating_keys_only_makes_scores_depend_on_the_key_position_alone() -> None:
    t, k = 6, 8
    qkv = torch.ones(1, 1, t, 3 * k, dtype=torch.float64)
    table = rotary_table(t, k, 10000.0, torch.float64)[None]
    q, key, _ = split_and_rotate(qkv, torch.ones_like(table), table, 1)
    s = (q @ key.transpose(-1, -2))[0, 0, 0]
    assert torch.equal(s, s[:1].expand_as(s))
    assert len(s[0].unique()) == t


@pytest.mark.parametrize(("offset", "stretch", "base"), [(0, 1.0, 10000.0), (7, 1.0, 500.0), (0, 2.5, 10000.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_table_is_the_formula(dtype: torch.dtype, offset: int, stretch: float, base: float) -> None:
    context, width = 257, 6
    table = rotary_table(context, width, base, dtype, offset=offset, stretch=stretch)
    assert table.dtype == (torch.complex64 if dtype == torch.float32 else torch.complex128)
    assert table.shape == (context, width // 2)
    eps = torch.finfo(dtype).eps
    for t in (0, 1, 2, 100, 256):
        for j in range(width // 2):
            angle = (t + offset) / stretch * base ** (-2 * j / width)
            # Angles are float64 whatever the table is: one rounding of the circle, and that of the angle.
            bound = eps + 4 * angle * torch.finfo(torch.float64).eps
            assert abs(complex(table[t, j]) - complex(math.cos(angle), math.sin(angle))) <= bound


QKV, TABLE = torch.zeros(2, 1, 3, 24), torch.ones(2, 3, 2, dtype=torch.complex64)
BAD = [
    ((QKV.long(), TABLE, TABLE, 2), "qkv: dtype torch.int64 is not allowed; allowed: (torch.float16, "),
    ((QKV[0], TABLE, TABLE, 2), "qkv: shape (1, 3, 24) is not allowed; allowed: [N, B, T, 3 * H * K], all 1 or more"),
    ((QKV[:, :, :0], TABLE, TABLE, 2), "qkv: shape (2, 1, 0, 24) is not allowed; allowed: [N, B, T, 3 * H * K]"),
    ((QKV, TABLE, TABLE, 0), "heads: 0 is not allowed for a width of 24; allowed: 1 or more, "),
    ((QKV, TABLE, TABLE, 3), "heads: 3 is not allowed for a width of 24; allowed: 1 or more, "),
    ((QKV, TABLE[0], TABLE, 2), "rotary_q: shape (3, 2) is not allowed; allowed: (2, 3, 2)"),
    ((QKV, TABLE, TABLE[:, :2], 2), "rotary_k: shape (2, 2, 2) is not allowed; allowed: (2, 3, 2)"),
    ((QKV, TABLE.real, TABLE, 2), "rotary_q: torch.float32 on cpu is not allowed; allowed: torch.complex64 on cpu"),
    ((QKV.double(), TABLE, TABLE, 2), "rotary_q: torch.complex64 on cpu is not allowed; allowed: torch.complex128 "),
    ((QKV, TABLE, TABLE.to("meta"), 2), "rotary_k: torch.complex64 on meta is not allowed; allowed: torch.complex64 "),
]


@pytest.mark.parametrize("impl", [None, "reference", "triton"])
@pytest.mark.parametrize(("arguments", "line"), BAD)
def test_an_argument_that_does_not_fit_is_refused_in_one_line(arguments: tuple, line: str, impl: str | None) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}[^\n]*$"):
        split_and_rotate(*arguments, impl=impl)


def test_triton_is_never_replaced_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = TABLE.to(torch.complex128)
    with pytest.raises(ValueError, match=r"^impl: 'triton' is not allowed for torch.float64; allowed: reference"):
        split_and_rotate(QKV.double(), wide, wide, 2, impl="triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match=r"^impl: 'triton' is not allowed for a tensor on cpu; allowed: reference"):
        split_and_rotate(QKV, TABLE, TABLE, 2, impl="triton")
