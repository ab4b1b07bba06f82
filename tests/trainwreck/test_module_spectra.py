"""Spectral norms and entropies of anyone's module, against a full singular value decomposition."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from trainwreck.evaluation.dataset.schema import BY_NAME
from trainwreck.evaluation.errors import InputError
from trainwreck.module_signals import ModuleSignals

WIDTH, HEADS = 12, 3


class Apart(nn.Module):
    """Queries and keys as children of their own; keys may be shared by a group of heads."""

    def __init__(self, names=("q_proj", "k_proj"), keys=HEADS, **said) -> None:
        super().__init__()
        head = WIDTH // HEADS
        self.add_module(names[0], nn.Linear(WIDTH, WIDTH))
        self.add_module(names[1], nn.Linear(WIDTH, keys * head))
        for name, value in said.items():
            setattr(self, name, value)


def direct(query, key):
    """Entropies of the singular values of the whole W_q W_k^T of each head, in NumPy."""
    found = []
    for q, k in zip(query, key, strict=True):
        values = np.linalg.svd(q.T.astype(np.float64) @ k.astype(np.float64), compute_uv=False)
        share = values / values.sum()
        found.append(-sum(p * math.log(p) for p in share if p > 1e-14))
    return found


def split(weight, heads):
    return weight.detach().numpy().reshape(heads, -1, WIDTH)


def measured(*layers):
    torch.manual_seed(0)
    row = ModuleSignals(nn.ModuleList(layers), layers=layers).measure(spectra=True)
    assert {"spectral_norm", "qk_spectral_entropy"} <= BY_NAME.keys()
    return row


@pytest.mark.parametrize("own_width", [False, True])
def test_multihead_attention_by_full_decomposition(own_width):
    layers = [nn.TransformerEncoderLayer(WIDTH, HEADS, 16) for _ in range(2)]
    if own_width:
        for layer in layers:
            layer.self_attn = nn.MultiheadAttention(WIDTH, HEADS, kdim=WIDTH, vdim=5)
    row = measured(*layers)
    norms, entropies = [], []
    for layer in layers:
        attention = layer.self_attn
        if own_width:
            projections = [attention.q_proj_weight, attention.k_proj_weight, attention.v_proj_weight]
        else:
            projections = list(attention.in_proj_weight.split(WIDTH))
        entropies += direct(split(projections[0], HEADS), split(projections[1], HEADS))
        matrices = [*projections, attention.out_proj.weight, layer.linear1.weight, layer.linear2.weight]
        norms.append(max(np.linalg.svd(m.detach().numpy(), compute_uv=False)[0] for m in matrices))
    assert row["spectral_norm"] == pytest.approx(norms, rel=1e-5)
    assert row["qk_spectral_entropy"] == pytest.approx(entropies, rel=1e-6)
    assert len(row["qk_spectral_entropy"]) == 2 * HEADS
    assert max(row["qk_spectral_entropy"]) < math.log(WIDTH // HEADS)


@pytest.mark.parametrize(
    ("names", "keys", "said"),
    [
        (("q_proj", "k_proj"), HEADS, {"config": SimpleNamespace(num_attention_heads=HEADS)}),
        (("query", "key"), HEADS, {"num_attention_heads": HEADS}),
        (("wq", "wk"), 1, {"n_heads": HEADS}),
        (("to_q", "to_k"), HEADS, {"heads": HEADS}),
        (("q", "k"), HEADS, {"head_dim": WIDTH // HEADS}),
    ],
)
def test_projections_apart_are_found_by_their_names(names, keys, said):
    layer = Apart(names, keys, **said)
    query = split(getattr(layer, names[0]).weight, HEADS)
    key = np.repeat(split(getattr(layer, names[1]).weight, keys), HEADS // keys, 0)
    assert measured(layer)["qk_spectral_entropy"] == pytest.approx(direct(query, key), rel=1e-6)


def test_without_attention_there_are_norms_alone():
    layer = nn.Linear(4, 4)
    row = measured(layer, nn.LayerNorm(4))
    assert "qk_spectral_entropy" not in row
    assert row["spectral_norm"][0] == pytest.approx(float(torch.linalg.svdvals(layer.weight.detach())[0]), rel=1e-5)
    assert math.isnan(row["spectral_norm"][1])


def test_spectra_are_measured_when_they_are_asked_for():
    layers = [nn.Linear(4, 4), nn.Linear(4, 4)]
    assert "spectral_norm" not in ModuleSignals(nn.Sequential(*layers)).measure()


def test_weights_that_are_not_finite_or_zero_are_not_a_number():
    layer = Apart(num_heads=HEADS)
    with torch.no_grad():
        layer.q_proj.weight[0, 0] = math.inf
        layer.k_proj.weight[-1] = 0.0
        layer.k_proj.weight[-(WIDTH // HEADS) :] = 0.0
    row = measured(layer)
    assert math.isnan(row["spectral_norm"][0])
    assert [math.isnan(x) for x in row["qk_spectral_entropy"]] == [True, False, True]


def test_an_unknown_number_of_heads_is_refused():
    with pytest.raises(InputError, match="Apart does not say how many heads it has"):
        measured(Apart(num_heads=5))
