"""Random streams: Philox4x64-10 as published, keyed by seed and stream, with the step as high counter word."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from trainwreck.kernels.random import SEED_LIMIT, generator, stream_key

LAST = 2**64 - 1
# Random123's kat_vectors: counter, key, block.
KNOWN = [
    (
        [0, 0, 0, 0], [0, 0],
        [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B],
    ),
    (
        [LAST] * 4, [LAST] * 2,
        [0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0],
    ),
    (
        [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89],
        [0x452821E638D01377, 0xBE5466CF34E90C6C],
        [0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6],
    ),
]  # fmt: skip


def philox_4x64(counter: list[int], key: list[int], rounds: int = 10) -> list[int]:
    """One block by the definition (Salmon et al. 2011, section 4.3)."""
    a, b, c, d = counter
    low_key, high_key = key
    for _ in range(rounds):
        first, second = 0xD2E7470EE14C6C93 * a, 0xCA5A826395121157 * c
        a, b, c, d = (second >> 64) ^ b ^ low_key, second & LAST, (first >> 64) ^ d ^ high_key, first & LAST
        low_key, high_key = (low_key + 0x9E3779B97F4A7C15) & LAST, (high_key + 0xBB67AE8584CAA73B) & LAST
    return [a, b, c, d]


@pytest.mark.parametrize(("counter", "key", "block"), KNOWN)
def test_the_definition_has_the_published_answers(counter: list[int], key: list[int], block: list[int]) -> None:
    assert philox_4x64(counter, key) == block


@pytest.mark.parametrize("step", [0, 1, 4321])
@pytest.mark.parametrize("seed", [0, 1, SEED_LIMIT - 1])
@pytest.mark.parametrize("stream", ["clock", "dropout/embedding"])
def test_a_stream_is_philox_at_the_documented_key_and_counter(stream: str, seed: int, step: int) -> None:
    raw = generator(seed, stream, step).bit_generator.random_raw(12).tolist()
    key = [seed, stream_key(stream)]
    # NumPy moves the counter on before each block.
    assert raw == [word for i in (1, 2, 3) for word in philox_4x64([i, 0, 0, step], key)]


def test_seeds_streams_and_steps_have_draws_of_their_own() -> None:
    points = {(seed, stream, step) for seed in (0, 1, 2) for stream in ("a", "b", "data") for step in (0, 1, 2)}
    first = {int(generator(*point).bit_generator.random_raw()) for point in points}
    assert len(first) == len(points)


def test_draws_ignore_and_leave_global_state() -> None:
    expected = generator(5, "data", 3).random(8)
    np.random.seed(1)
    torch.manual_seed(1)
    generator(6, "data", 3).random(3)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()
    assert np.array_equal(generator(5, "data", 3).random(8), expected)
    assert np.array_equal(np.random.get_state()[1], before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


def test_draws_are_the_same_in_another_process_with_another_hash_seed() -> None:
    code = "from trainwreck.kernels.random import generator; print(generator(9, 'init/x', 2).random())"
    hash_seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert float(result.stdout) == generator(9, "init/x", 2).random()


def test_draws_across_seeds_and_steps_are_uniform() -> None:
    # Over seeds and steps, not along one stream: that is the direction in which runs use it.
    draws = np.array([generator(seed, "data", step).random() for seed in range(40) for step in range(50)])
    count, bins = len(draws), 20
    seen = np.histogram(draws, bins, (0, 1))[0]
    chi2 = float(((seen - count / bins) ** 2).sum() / (count / bins))
    # Six standard deviations of a chi-square with bins - 1 degrees of freedom.
    assert abs(chi2 - (bins - 1)) < 6 * (2 * (bins - 1)) ** 0.5


@pytest.mark.parametrize("axis", ["seed", "step"])
def test_neighbouring_seeds_and_steps_are_uncorrelated(axis: str) -> None:
    def draws(i: int) -> np.ndarray:
        seed, step = (i, 0) if axis == "seed" else (0, i)
        return generator(seed, "data", step).standard_normal(4000)

    for i in range(4):
        assert abs(np.corrcoef(draws(i), draws(i + 1))[0, 1]) < 5 / 4000**0.5


@pytest.mark.parametrize(
    ("seed", "step", "line"),
    [
        (-1, 0, f"seed: -1 is not allowed; allowed: 0 to {SEED_LIMIT - 1}"),
        (SEED_LIMIT, 0, f"seed: {SEED_LIMIT} is not allowed; allowed: 0 to {SEED_LIMIT - 1}"),
        (0, -1, "step: -1 is not allowed; allowed: 0 or more"),
    ],
)
def test_bad_seeds_and_steps_are_refused(seed: int, step: int, line: str) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}$"):
        generator(seed, "data", step)
