"""Draws: Philox-4x32-10 as published, the same in PyTorch and in a kernel, and what they are a function of."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from trainwreck.kernels.attention import Dropout
from trainwreck.kernels.attention.triton.parts import draws
from trainwreck.kernels.random import philox_4x32, run_keys

Fn = Callable[..., Any]
LAST = 2**32 - 1
# Random123's kat_vectors for philox4x32-10: counter, key, block.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((LAST,) * 4, (LAST,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("counter", "key", "block"), KNOWN)
def test_the_generator_has_the_published_answers(
    counter: tuple[int, ...], key: tuple[int, int], block: tuple[int, ...]
) -> None:
    low, high = key
    signed = (high << 32 | low) - (1 << 64 if high >> 31 else 0)
    words = philox_4x32(tuple(torch.tensor([word]) for word in counter), torch.tensor([signed]))
    assert tuple(int(word) for word in words) == block


@triton.jit
def write_draws(p_x, p_key, start_t, start_s, head, step, T: tl.constexpr, S: tl.constexpr):
    o_t, o_s = tl.arange(0, T), tl.arange(0, S)
    b_x = draws(tl.load(p_key), start_t + o_t, start_s, head, step, S)
    tl.store(p_x + o_t[:, None] * S + o_s[None, :], b_x.to(tl.int64))


@pytest.mark.parametrize("key", [0, 1, -1, 2**63 - 1, -(2**63), 0x123456789ABCDEF])
def test_a_kernel_draws_the_same_words(key: int, device: str) -> None:
    keys = torch.tensor([key], device=device)
    got = torch.zeros(16, 32, dtype=torch.int64, device=device)
    step, head = 70000, 5
    write_draws[(1,)](got, keys, 48, 32, head, step, T=16, S=32)
    dropout = Dropout(keys, step, torch.zeros(1, device=device))
    for threshold in (1, 2**31, LAST):
        # A dense mask tells the draws by where it is 0.
        kept = replace(dropout, rate_N=torch.tensor([threshold / 2**32], dtype=torch.float64, device=device))
        assert torch.equal(kept.mask(2, 3, 64)[0, 1, 2, 48:, 32:] > 0, got >= threshold)


def test_the_last_word_and_the_largest_step_are_drawn_too(device: str) -> None:
    keys = torch.tensor([7], device=device)
    got = torch.zeros(16, 16, dtype=torch.int64, device=device)
    write_draws[(1,)](got, keys, 0, 0, 0, 2**31 - 1, T=16, S=16)
    counter = (torch.arange(4), torch.arange(16)[:, None], torch.tensor([0]), torch.tensor([2**31 - 1]))
    words = philox_4x32(tuple(x.to(device) for x in counter), keys)
    assert torch.equal(got, torch.stack(words, -1).flatten(-2))


def dropout(seeds: tuple[int, ...] = (4,), stream: str = "x", step: int = 3, rate: float = 0.5) -> Dropout:
    return Dropout(run_keys(seeds, stream, torch.device("cpu")), step, torch.full((len(seeds),), rate))


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.95])
def test_a_mask_holds_zero_and_the_inverse_keep_rate_in_the_right_shares(rate: float) -> None:
    mask = dropout((0, 1), rate=rate).mask(4, 3, 41)
    assert mask.shape == (2, 4, 3, 41, 41)
    factor = float(1 / (1 - torch.tensor(rate)))
    assert set(mask.unique().tolist()) == ({factor} if rate == 0 else {0.0, factor})
    dropped = (mask == 0).double().mean().item()
    assert abs(dropped - rate) <= 5 * (rate * (1 - rate) / mask.numel()) ** 0.5  # deviations of a binomial share


def test_draws_are_even_over_heads_queries_keys_and_words() -> None:
    gone = (dropout(rate=0.5).mask(8, 4, 64)[0] == 0).double()
    for axes in ((0, 2, 3), (1, 2, 3), (0, 1, 3), (0, 1, 2)):
        share = gone.mean(axes)
        count = gone.numel() / share.numel()
        assert (share - 0.5).abs().max() < 5 * 0.5 / count**0.5


@pytest.mark.parametrize("other", [{"seeds": (5,)}, {"stream": "y"}, {"step": 4}])
def test_seed_stream_and_step_each_change_the_mask(other: dict[str, Any]) -> None:
    one, two = dropout().mask(2, 2, 50) == 0, dropout(**other).mask(2, 2, 50) == 0
    # Independent masks agree on half of the places.
    assert abs((one == two).double().mean().item() - 0.5) < 5 * 0.5 / one.numel() ** 0.5


def test_a_run_has_the_mask_that_it_has_alone() -> None:
    bundle = dropout((4, 7, 4)).mask(2, 2, 30)
    for i, seed in enumerate((4, 7, 4)):
        assert torch.equal(bundle[i], dropout((seed,)).mask(2, 2, 30)[0])


def test_keys_are_made_once_and_differ_by_seed_and_stream() -> None:
    cpu = torch.device("cpu")
    assert run_keys((1, 2), "a", cpu) is run_keys((1, 2), "a", cpu)
    keys = [key for stream in "ab" for key in run_keys((1, 2, 3), stream, cpu).tolist()]
    assert len(set(keys)) == 6


def test_a_rate_of_zero_is_no_dropout_to_the_bit(device: str, make_problem: Fn, attended: Fn, gradients: Fn) -> None:
    problem = make_problem(t=20, width=16, rate=0.5, device=device)
    problem.dropout = replace(problem.dropout, rate_N=torch.zeros(2, device=device))
    d_out = torch.ones_like(problem.v)
    with_it, without = (
        gradients(lambda p: attended(p, impl="triton"), part, d_out)
        for part in (problem, replace(problem, dropout=None))
    )
    assert all(torch.equal(with_it[name], without[name]) for name in without)
