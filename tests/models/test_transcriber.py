"""The encoder and the decoder with cross-attention against those of torch.nn on the same weights."""

import pytest
import torch
from torch import nn

from trainwreck.models.config import Activation, ModelConfig, Norm, Placement, Positions
from trainwreck.models.encoding import transcriber
from trainwreck.models.gpt import Model
from trainwreck.models.parameters import initial_parameters, layout
from trainwreck.models.probe import Probe
from trainwreck.models.tables import healthy_tables

RUNS, ROWS, FRAMES, WORDS = 3, 2, 7, 4
CONFIG = ModelConfig(
    layers=2, width=24, heads=3, mlp_ratio=2, vocab_size=11, context=FRAMES + WORDS, positions=Positions.DOCUMENT,
    encoder_layers=2, frame_width=5,
)  # fmt: skip


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def flat():
    start = initial_parameters(CONFIG, list(range(RUNS)), torch.float64)
    return start + 0.2 * drawn(1, *start.shape)


FRAMES_NBSC = drawn(2, RUNS, ROWS, FRAMES, CONFIG.frame_width)
TOKENS = torch.randint(11, (RUNS, ROWS, WORDS), generator=torch.Generator().manual_seed(3))
DOCUMENTS = torch.zeros_like(TOKENS)


def ours(flat, runs=slice(None), probe=None):
    params = layout(CONFIG).views(flat[runs])
    model = Model(params, CONFIG, healthy_tables(CONFIG, len(flat[runs]), torch.float64), probe=probe)
    model.tables.rotary_q_NTK = model.tables.rotary_k_NTK = model.tables.rotary_q_NTK.to(torch.complex128)
    return transcriber.forward(model, FRAMES_NBSC[runs], TOKENS[runs], DOCUMENTS[runs])


def fill(module, weight, bias):
    module.weight.data.copy_(weight)
    module.bias.data.copy_(bias)


def attention(module, w, layer):
    module.in_proj_weight.data.copy_(w[f"{layer}.qkv.weight"].T)
    module.in_proj_bias.data.copy_(w[f"{layer}.qkv.bias"])
    fill(module.out_proj, w[f"{layer}.attention_out.weight"].T, w[f"{layer}.attention_out.bias"])


def norm(module, w, name):
    fill(module, w[f"{name}.gain"], w[f"{name}.bias"])


def mlp(module, w, layer):
    fill(module.linear1, w[f"{layer}.mlp_in.weight"].T, w[f"{layer}.mlp_in.bias"])
    fill(module.linear2, w[f"{layer}.mlp_out.weight"].T, w[f"{layer}.mlp_out.bias"])


def theirs(flat, run):
    """Logits [B, U, V] of one run by torch.nn, and each layer's probabilities [B, H, U, S]."""
    w = {name: view[0] for name, view in layout(CONFIG).views(flat[run : run + 1]).items()}
    facts = {"dim_feedforward": 48, "dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True}
    x = FRAMES_NBSC[run] @ w["frames.weight"] + w["frames.bias"]
    rate = [10_000.0 ** (-i / 11) for i in range(12)]
    waves = [[*(torch.tensor(t * r).sin() for r in rate), *(torch.tensor(t * r).cos() for r in rate)] for t in range(7)]
    x = x + torch.tensor(waves, dtype=torch.float64)
    for i in range(CONFIG.encoder_layers):
        layer = nn.TransformerEncoderLayer(24, 3, **facts).double()
        attention(layer.self_attn, w, f"encoder_{i}")
        norm(layer.norm1, w, f"encoder_{i}.attention_norm")
        norm(layer.norm2, w, f"encoder_{i}.mlp_norm")
        mlp(layer, w, f"encoder_{i}")
        x = layer(x)
    memory = nn.functional.layer_norm(x, (24,), w["encoder_norm.gain"], w["encoder_norm.bias"])
    x, seen = w["embedding.weight"][TOKENS[run]] + w["positions.weight"][:WORDS], []
    for i in range(CONFIG.layers):
        layer = nn.TransformerDecoderLayer(24, 3, **facts).double()
        attention(layer.self_attn, w, f"layer_{i}")
        cross, kv = layer.multihead_attn, w[f"layer_{i}.cross_kv.weight"].T
        cross.in_proj_weight.data.copy_(torch.cat((w[f"layer_{i}.cross_q.weight"].T, kv)))
        cross.in_proj_bias.data.copy_(torch.cat((w[f"layer_{i}.cross_q.bias"], w[f"layer_{i}.cross_kv.bias"])))
        fill(cross.out_proj, w[f"layer_{i}.cross_out.weight"].T, w[f"layer_{i}.cross_out.bias"])
        for one, name in ((layer.norm1, "attention"), (layer.norm2, "cross"), (layer.norm3, "mlp")):
            norm(one, w, f"layer_{i}.{name}_norm")
        mlp(layer, w, f"layer_{i}")
        mask = torch.ones(WORDS, WORDS, dtype=torch.bool).triu(1)
        here = x + layer._sa_block(layer.norm1(x), mask, None)
        seen.append(cross(layer.norm2(here), memory, memory, average_attn_weights=False)[1])
        x = layer(x, memory, tgt_mask=mask)
    x = nn.functional.layer_norm(x, (24,), w["final_norm.gain"], w["final_norm.bias"])
    return x @ w["head.weight"] + w["head.bias"], torch.stack(seen)


@pytest.mark.parametrize("run", range(RUNS))
def test_it_is_that_of_torch_on_the_same_weights(flat, run):
    logits, probabilities = ours(flat)
    with torch.no_grad():
        wanted, attended = theirs(flat, run)
    assert torch.allclose(logits[run].view(ROWS, WORDS, -1), wanted, rtol=0, atol=1e-6)  # sinusoids are float32
    assert torch.allclose(probabilities[run], attended, rtol=0, atol=1e-6)
    assert probabilities.std(-1).min() > 1e-3  # not uniform, which any weights would give


def test_a_run_is_bitwise_the_same_alone_and_beside_others(flat):
    flat = flat.requires_grad_()
    together, seen = ours(flat)
    (gradient,) = torch.autograd.grad(together.square().sum(), flat)
    for run in range(RUNS):
        alone, own = ours(flat, slice(run, run + 1))
        assert torch.equal(alone[0], together[run])
        assert torch.equal(own[0], seen[run])
        (found,) = torch.autograd.grad(alone.square().sum(), flat)
        assert torch.equal(found[run], gradient[run])


def test_every_parameter_has_a_gradient_but_what_softmax_takes_out(flat):
    """A key's bias, the same for all keys, changes no probability."""
    flat = flat.requires_grad_()
    (gradient,) = torch.autograd.grad(ours(flat)[0].square().sum(), flat)
    for name, part in layout(CONFIG).views(gradient).items():
        if name not in ("embedding.weight", "positions.weight"):  # of ids and places that none has
            part = part.clone()
            if name.endswith("cross_kv.bias"):
                part = part[:, CONFIG.width :]
            elif name.endswith("qkv.bias"):
                part = torch.cat((part[:, : CONFIG.width], part[:, 2 * CONFIG.width :]), 1)
            assert (part != 0).all(), name


def test_a_word_sees_every_frame_and_no_later_word(flat):
    before = ours(flat)[0].view(RUNS, ROWS, WORDS, -1)
    for change in range(FRAMES):
        frames = FRAMES_NBSC.clone()
        frames[:, :, change] += 1.0
        params = layout(CONFIG).views(flat)
        tables = healthy_tables(CONFIG, RUNS, torch.float64)
        tables.rotary_q_NTK = tables.rotary_k_NTK = tables.rotary_q_NTK.to(torch.complex128)
        after = transcriber.forward(Model(params, CONFIG, tables), frames, TOKENS, DOCUMENTS)[0]
        assert (after.view_as(before) != before).any(-1).all()
    tokens = TOKENS.clone()
    tokens[..., 2] = (tokens[..., 2] + 1) % 11
    after = transcriber.forward(Model(params, CONFIG, tables), FRAMES_NBSC, tokens, DOCUMENTS)[0].view_as(before)
    assert torch.equal(after[:, :, :2], before[:, :, :2])
    assert (after[:, :, 2:] != before[:, :, 2:]).any(-1).all()


def test_a_probe_sees_the_decoder_alone(flat):
    probe = Probe()
    ours(flat, probe=probe)
    assert len(probe.attention) == len(probe.stream) == len(probe.fired) == CONFIG.layers


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"encoder_layers": -1}, r"^model\.encoder_layers: -1 is not allowed; allowed: 0 to 4096$"),
        ({"frame_width": 0}, r"^model\.frame_width: 0 is not allowed; allowed: 1 or more$"),
        (
            {"encoder_layers": 1, "placement": Placement.POST},
            r"^model\.encoder_layers: 1 is not allowed with experts or Post-LN; allowed: 0$",
        ),
        ({"encoder_layers": 1, "experts": 2}, r"^model\.encoder_layers: 1 is not allowed with experts"),
    ],
)
def test_what_it_cannot_be_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig(**changed)


def test_without_an_encoder_the_layout_is_as_it_was():
    plain = layout(ModelConfig())
    assert not [name for name in plain.shapes if name.startswith(("frames", "encoder")) or ".cross_" in name]
    other = layout(ModelConfig(encoder_layers=1, norm=Norm.RMS, bias=False, activation=Activation.SWIGLU))
    assert "encoder_0.mlp_in.weight" in other.shapes
    assert "layer_1.cross_norm.bias" not in other.shapes
    assert [name for name, _, _ in other.segments] == [name for name, _, _ in plain.segments]
