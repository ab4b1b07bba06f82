"""Tokens written through a cache of keys and values: the numbers of a whole forward pass, a few positions at a time."""

import dataclasses

import pytest
import torch

from trainwreck.models import gpt
from trainwreck.models.config import Activation, Format, ModelConfig, Norm, Placement, Positions
from trainwreck.models.decoding.cache import Cache, extend
from trainwreck.models.decoding.decode import drawn, read, write
from trainwreck.models.parameters import initial_parameters, layout
from trainwreck.models.tables import healthy_tables

SIZES = {"width": 32, "heads": 2, "context": 16, "vocab_size": 32}
CASES = {
    "rotary": {},
    "learned positions": {"positions": Positions.DOCUMENT},
    "Post-LN, RMSNorm, SwiGLU": {
        "placement": Placement.POST, "norm": Norm.RMS, "activation": Activation.SWIGLU, "bias": False,
    },
    "qk-norm, tied": {"qk_norm": True, "tied": True},
    "gain on the shortcut": {"residual_gain": 0.8},
}  # fmt: skip
GIVEN, ROWS, RUNS = 5, 3, 4


def make(config: ModelConfig, dtype=torch.float32, runs=RUNS, **tables) -> gpt.Model:
    """Runs with weights of their own; rotary tables and scale as the runs have them."""
    plan = layout(config)
    flat = initial_parameters(config, list(range(runs)), dtype) * 3  # so that tokens matter
    healthy = healthy_tables(config, runs, dtype)
    return gpt.Model(plan.views(flat), config, dataclasses.replace(healthy, **tables))


def some_tokens(runs=RUNS, count=SIZES["context"]):
    return torch.randint(SIZES["vocab_size"], (runs, ROWS, count), generator=torch.Generator().manual_seed(3))


def whole(model, tokens):
    """Logits of a forward pass over whole rows, [N, B, T, V]."""
    return gpt.forward(model, tokens, torch.zeros_like(tokens)).view(*tokens.shape, -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_through_the_cache_logits_are_those_of_the_whole_row(case, dtype):
    model, tokens = make(ModelConfig(**SIZES, **CASES[case]), dtype), some_tokens()
    right = whole(model, tokens)
    assert right.std(-1).mean() > 0.1
    close = {"rtol": 0, "atol": 1e-4 if dtype is torch.float32 else 1e-12}
    after = read(model, tokens[..., :GIVEN], tokens[..., GIVEN:])  # the last token is not read
    torch.testing.assert_close(after, right[:, :, GIVEN - 1 : -1], **close)
    for pieces in ((16,), (5, 1, 10), (1,) * 16):
        cache, start, found = Cache.empty(model, ROWS), 0, []
        for count in pieces:
            logits = extend(model, cache, tokens[..., start : start + count], start)
            found.append(logits.view(RUNS, ROWS, count, -1))
            start += count
        torch.testing.assert_close(torch.cat(found, 2), right, **close)


@pytest.mark.parametrize("format", [Format.BF16, Format.FP16])
def test_in_half_formats_they_are_as_close_as_these_are(format):
    model = dataclasses.replace(make(ModelConfig(**SIZES)), format=format)
    tokens = some_tokens()
    exact = whole(dataclasses.replace(model, format=Format.FP32), tokens)[:, :, GIVEN - 1 : -1]
    apart = (whole(model, tokens)[:, :, GIVEN - 1 : -1].float() - exact).abs().max()
    found = read(model, tokens[..., :GIVEN], tokens[..., GIVEN:]).float()
    assert (found - exact).abs().max() < 2 * apart


def test_a_run_is_bitwise_the_same_alone_and_beside_others():
    config = ModelConfig(**SIZES, positions=Positions.DOCUMENT)
    model, tokens = make(config), some_tokens()
    draws = torch.rand(RUNS, ROWS, 11, generator=torch.Generator().manual_seed(5))
    model.params["layer_0.qkv.weight"][1] = torch.nan  # a run that went NaN
    written, logits = write(model, tokens[..., :GIVEN], draws)
    for i in (0, 2, 3):
        part = slice(i, i + 1)
        one = dataclasses.replace(
            model, params={k: v[part] for k, v in model.params.items()}, tables=healthy_tables(config, 1)
        )
        alone, said = write(one, tokens[part, :, :GIVEN], draws[part])
        assert torch.equal(alone[0], written[i])
        assert torch.equal(said[0], logits[i])
        assert torch.isfinite(said).all()


def test_what_is_written_is_read_back():
    model, given = make(ModelConfig(**SIZES)), some_tokens()[..., :GIVEN]
    draws = torch.rand(RUNS, ROWS, 12, generator=torch.Generator().manual_seed(5))
    written, logits = write(model, given, draws)
    assert written.shape == (RUNS, ROWS, 12)
    assert torch.equal(read(model, given, written), logits)
    row = torch.cat((given, written), 2)[..., :-1]
    torch.testing.assert_close(logits, whole(model, row)[:, :, GIVEN - 1 :], rtol=0, atol=1e-4)
    chosen = [drawn(logits[:, :, i], draws[:, :, i]) for i in range(12)]
    assert torch.equal(torch.stack(chosen, 2), written)


def test_tokens_are_drawn_by_their_chances():
    logits = torch.tensor([1.0, -2.0, 0.5, -30.0, 1.5]).expand(1, 40_000, 5)
    draws = (torch.arange(40_000) / 40_000).unsqueeze(0)
    found = torch.bincount(drawn(logits, draws)[0], minlength=5) / 40_000
    torch.testing.assert_close(found, torch.softmax(logits[0, 0], -1), rtol=0, atol=1e-3)
    assert drawn(logits[:, :1], torch.tensor([[1.0]])).item() == 4  # rounding leaves no token past the last


def position(config):
    return torch.arange(config.context).unsqueeze(0)


def test_slots_of_its_own_and_a_ring_that_is_long_enough_change_nothing():
    config = ModelConfig(**SIZES)
    tokens = some_tokens(1)
    right = read(make(config, runs=1), tokens[..., :GIVEN], tokens[..., GIVEN:])
    own = make(
        config,
        runs=1,
        cache_slots_NT=position(config) % 16,
        cache_places_NT=position(config),
        cache_rows_NS=0 * position(config),
    )
    assert torch.equal(read(own, tokens[..., :GIVEN], tokens[..., GIVEN:]), right)


def test_in_a_shorter_ring_a_token_sees_the_latest_ones_alone():
    config = ModelConfig(**SIZES, layers=1)
    slots, tokens = 7, some_tokens(1)
    ring = make(config, runs=1, cache_slots_NT=position(config) % slots)
    found = read(ring, tokens[..., :GIVEN], tokens[..., GIVEN:])
    apart = position(config)[0][:, None] - position(config)[0]
    window = make(config, runs=1, allowed_NTS=((apart >= 0) & (apart < slots)).unsqueeze(0))
    right = whole(window, tokens)[:, :, GIVEN - 1 : -1]
    torch.testing.assert_close(found, right, rtol=0, atol=1e-5)
    full = whole(make(config, runs=1), tokens)[:, :, GIVEN - 1 : -1]
    assert (found - full)[:, :, : slots - GIVEN + 1].abs().max() < 1e-5
    assert (found - full)[:, :, slots - GIVEN + 1 :].abs().amax((0, 1, 3)).min() > 1e-3


def test_a_slot_of_another_row_makes_rows_hang_on_each_other():
    config = ModelConfig(**SIZES, layers=1)
    leaking = make(config, runs=1, cache_rows_NS=(position(config) < 2).long())
    tokens = some_tokens(1)
    found = read(leaking, tokens[..., :GIVEN], tokens[..., GIVEN:])
    other = tokens.clone()
    other[0, 1] = (other[0, 1] + 1) % SIZES["vocab_size"]
    moved = (read(leaking, other[..., :GIVEN], other[..., GIVEN:]) - found).abs().amax((0, 2, 3))
    assert moved[0] > 1e-3  # reads the row after it
    assert moved[2] == 0
    alone = read(leaking, tokens[:, :1, :GIVEN], tokens[:, :1, GIVEN:])  # beside none it reads itself
    torch.testing.assert_close(
        alone, whole(make(config, runs=1), tokens[:, :1])[:, :, GIVEN - 1 : -1], rtol=0, atol=1e-5
    )


def test_a_prompt_cached_with_other_weights_is_read_in_their_words():
    config = ModelConfig(**SIZES)
    model, older = make(config), make(config)
    older = {name: value.roll(1, 0) for name, value in older.params.items()}
    tokens = some_tokens()
    given, rest = tokens[..., :GIVEN], tokens[..., GIVEN:]
    right = read(model, given, rest)
    torch.testing.assert_close(read(model, given, rest, dict(model.params)), right, rtol=0, atol=1e-5)
    found = read(model, given, rest, older)
    assert (found - right).abs().amax((1, 2, 3)).min() > 1e-3
    changed = dict(older) | {"final_norm.gain": 7 * older["final_norm.gain"]}  # no key or value hangs on it
    assert torch.equal(read(model, given, rest, changed), found)
