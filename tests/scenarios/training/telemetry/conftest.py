"""A plain GPT of one run in float64, from the definition, and a float64 training run to compare it with."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from trainwreck.models.parameters import layout


def _rotate(x, base):
    """x [B, H, T, K]: neighbouring features (a, b) turned by position * base ** (-2 j / K)."""
    t, k = x.shape[-2:]
    angle = torch.arange(t).double()[:, None] * base ** (-torch.arange(0, k, 2).double() / k)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1).flatten(-2)


def _plain_gpt(p, tokens, documents, config, *, everything_allowed):
    """Logits [B, T, V] and what each layer did. pre-LN, LayerNorm, GELU, RoPE; tokens, documents [B, T]."""
    b, t = tokens.shape
    same = documents[:, :, None] == documents[:, None, :]
    allowed = torch.ones_like(same) if everything_allowed else same & torch.ones(t, t, dtype=torch.bool).tril()

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], p[f"{name}.gain"], p[f"{name}.bias"], config.norm_eps)

    def linear(x, name):
        return x @ p[f"{name}.weight"] + p[f"{name}.bias"]

    x, layers = p["embedding.weight"][tokens], []
    for i in range(config.layers):
        qkv = linear(norm(x, f"layer_{i}.attention_norm"), f"layer_{i}.qkv").view(b, t, 3, config.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = _rotate(q, config.rope_base) @ _rotate(k, config.rope_base).transpose(-1, -2) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~allowed[:, None], -torch.inf)
        probs = scores.softmax(-1)
        x = x + linear((probs @ v).transpose(1, 2).reshape(b, t, -1), f"layer_{i}.attention_out")
        fired = F.gelu(linear(norm(x, f"layer_{i}.mlp_norm"), f"layer_{i}.mlp_in"))
        x = x + linear(fired, f"layer_{i}.mlp_out")
        layers.append(
            SimpleNamespace(scores=scores.detach(), probs=probs.detach(), stream=x.detach(), fired=fired.detach())
        )
    return linear(norm(x, "final_norm"), "head"), layers


def _nll(logits, targets):
    """-ln p(target) and ln Z of each token."""
    log_z = torch.logsumexp(logits, -1)
    return log_z - logits.gather(-1, targets[..., None])[..., 0], log_z


def _loss(nll, weights):
    return (nll * weights).sum() / weights.sum()


@pytest.fixture(scope="session")
def plain():
    """The plain model's functions, and `gradient(state, batch, setup)`: all of one step, by autograd."""

    def gradient(state, batch, setup, *, everything_allowed=False):
        plan = layout(setup.model)
        flat = state["parameters"].double().clone().requires_grad_()
        inputs, targets, documents = (
            torch.from_numpy(np.array(a)) for a in (batch.inputs, batch.targets, batch.documents)
        )
        weights = torch.from_numpy(np.array(batch.weights)).double()
        p = {name: view[0] for name, view in plan.views(flat[None]).items()}
        logits, layers = _plain_gpt(p, inputs, documents, setup.model, everything_allowed=everything_allowed)
        nll, log_z = _nll(logits, targets)
        loss = _loss(nll, weights)
        objective = loss + setup.z_loss * _loss(log_z**2, weights)
        (grad,) = torch.autograd.grad(objective, flat)
        return SimpleNamespace(
            plan=plan, flat=flat.detach(), grad=grad, loss=loss.detach(), nll=nll.detach(), log_z=log_z.detach(),
            logits=logits.detach(), targets=targets, layers=layers, documents=documents, weights=weights,
        )  # fmt: skip

    return gradient
