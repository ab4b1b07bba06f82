"""Every signal of the schema against its definition, computed directly in float64 on a plain model.

The runs train in float64 too, so that what is left to differ is the rounding of a record to float32.
"""

import dataclasses
import math

import numpy as np
import pytest
import torch

from trainwreck.evaluation.dataset.schema import ADDED_SIGNALS, BUCKETS, SIGNALS, Axis
from trainwreck.kernels.random import generator
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.data.batches import fresh, training_block, validation
from trainwreck.scenarios.spec.faults import At, DataTransform, StateEdit, TableEdit
from trainwreck.scenarios.training.loop import train

STEPS, EVERY, RESUME, ULP = 6, 4, 2, float(np.finfo(np.float32).eps)
SETTINGS = {
    "steps": STEPS, "evaluation__every": EVERY, "evaluation__fresh": True,
    "schedule__warmup_steps": 3, "optimizer__clip": 0.5, "z_loss": 1e-3,
    "precision__loss_scale": 256.0, "precision__dynamic": True, "precision__growth_interval": 2,
}  # fmt: skip


def pad(batch, since, draw):
    """The last seven positions of every other row are padding and not scored."""
    documents, weights = np.array(batch.documents), np.array(batch.weights)
    documents[::2, -7:], weights[::2, -8:] = -1, 0.0
    return dataclasses.replace(batch, documents=documents, weights=weights)


def see_everything(tables, setup):
    return dataclasses.replace(
        tables, allowed_NTS=torch.ones_like(tables.allowed_NTS), documents_N=torch.zeros_like(tables.documents_N)
    )


CASES = {
    "healthy": (),
    "leaking, padded": (At(0, TableEdit(see_everything)), At(0, DataTransform(pad, "pad"))),
}


def per_layer(step, values):
    """Norm of each layer's slice."""
    return np.array([float(values[a:b].norm()) for _, a, b in step.plan.segments])


def attention(step, t):
    """Statistics of attention, one number a block (heads: one a head)."""
    position = torch.arange(t)
    back = (position[:, None] - position).abs().double()
    same = step.documents[:, :, None] == step.documents[:, None, :]
    padding = (step.documents < 0)[:, None, :].expand_as(same)
    ahead = (position[:, None] < position).expand_as(same)
    masses = {"other_document": ~same & ~padding, "padding": padding, "future": ahead}
    found = {}
    for layer in step.layers:
        entropy = -torch.xlogy(layer.probs, layer.probs).sum(-1)  # [B, H, T]
        numbers = {
            "attention_entropy": entropy.mean(), "attention_entropy_min": entropy.min(),
            "attention_logit_max": layer.scores.max(), "head_entropy": entropy.mean((0, 2)),
            "attention_mass_self": layer.probs.diagonal(dim1=-2, dim2=-1).mean(),
            "attention_distance": (layer.probs * back).sum(-1).mean(),
            **{f"attention_mass_{k}": (layer.probs * m[:, None]).sum(-1).mean() for k, m in masses.items()},
        }  # fmt: skip
        for name, value in numbers.items():
            found.setdefault(name, []).append(np.atleast_1d(value.numpy()))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def dead(fired):
    """Share of units over 0 for no token."""
    return float((fired > 0).flatten(0, 1).any(0).logical_not().double().mean())


def loss_by(step, bucket, count):
    """Mean loss of the scored tokens of each bucket; NaN where there are none."""
    parts = (step.nll[(step.weights > 0) & (bucket == k)] for k in range(count))
    return np.array([float(part.mean()) if len(part) else math.nan for part in parts])


def by_row(step):
    """Largest row loss, and the largest row's share of the gradient at the logits."""
    losses, sums = [], []
    onehot = torch.nn.functional.one_hot(step.targets, step.logits.shape[-1])
    gradient = step.weights[..., None] * (step.logits.softmax(-1) - onehot)
    for nll, weight, g in zip(step.nll, step.weights, gradient, strict=True):
        losses.append(float(nll[weight > 0].mean()))
        sums.append(float(g.abs().sum()))
    return {"row_loss_max": max(losses), "row_grad_share": max(sums) / sum(sums)}


def age_bucket(documents):
    """1 -> 0, 2 -> 1, 3-4 -> 2, 5-8 -> 3 ...: a target's age is the tokens of its document before it."""
    bucket = np.zeros(documents.shape, int)
    for b, row in enumerate(documents.numpy()):
        for t in range(len(row)):
            age = 1
            while t - age >= 0 and row[t - age] == row[t]:
                age += 1
            bucket[b, t] = next(k for k in range(20) if age <= 2**k)
    return torch.from_numpy(bucket)


def hash_of(tokens):
    """The top 24 bits of a sum of products modulo 2**64."""
    factors = (generator(0, "hash").integers(-(2**63), 2**63 - 1, tokens.size, np.int64) | 1).tolist()
    total = sum(int(token) * factor for token, factor in zip(tokens.ravel(), factors, strict=True))
    return np.array([float(total % 2**64 >> 40)])


def largest_singular_values(step):
    """Of any matrix of each layer, with queries, keys and values apart."""
    found = []
    for name, a, b in step.plan.segments[1:-1]:
        parts = []
        for slot in step.plan.slots:
            if a <= slot.start < b and slot.name.endswith(".weight"):
                weight = step.flat[slot.start : slot.stop].view(slot.shape)
                parts += weight.split(weight.shape[0], 1) if slot.name == f"{name}.qkv.weight" else [weight]
        assert len(parts) == 6
        found.append(max(float(torch.linalg.matrix_norm(part, ord=2)) for part in parts))
    return np.array(found)


def query_key_entropies(step, heads):
    """Of the singular values of W_q W_k^T of each head, as shares."""
    found = []
    for slot in step.plan.slots:
        if slot.name.endswith(".qkv.weight"):
            queries, keys, _ = step.flat[slot.start : slot.stop].view(slot.shape).double().chunk(3, 1)
            for q, k in zip(queries.chunk(heads, 1), keys.chunk(heads, 1), strict=True):
                values = torch.linalg.svdvals(q @ k.T)
                share = values / values.sum()
                found.append(float(-torch.xlogy(share, share).sum()))
    return np.array(found)


def by_group(step, update):
    """Root mean square of an update over the layers' matrices, embedding, head, and gains and biases."""
    groups = {"matrices": [], "embedding": [], "head": [], "vectors": []}
    for slot in step.plan.slots:
        matrix = slot.name.endswith(".weight")
        group = slot.name.split(".")[0] if not slot.name.startswith("layer_") else "matrices"
        groups[group if matrix else "vectors"].append(update[slot.start : slot.stop])
    return np.array([float(torch.cat(parts).square().mean().sqrt()) for parts in groups.values()])


def scheduled(setup, step):
    warmup = setup.schedule.warmup_steps
    if step < warmup:
        return setup.optimizer.lr * (step + 1) / warmup
    fall = 0.5 + 0.5 * math.cos(math.pi * (step - warmup) / (setup.steps - warmup))
    return setup.optimizer.lr * (0.1 + 0.9 * fall)


@pytest.fixture(scope="module", params=CASES)
def case(request, tiny, make_job, plain):
    """The trace of a run, and every signal as computed from the state before each step."""
    changes = CASES[request.param]
    setup, leaking = replaced(tiny, **SETTINGS), bool(changes)
    job = make_job(3, setup, *changes, At(RESUME, StateEdit(lambda state, earlier: state)))
    result = train([job], keep={job.run_id: range(STEPS + 1)}, dtype=torch.float64)[0]
    o, t, tokens = setup.optimizer, setup.model.context, setup.data.rows * setup.model.context
    first = second = torch.zeros(1, dtype=torch.float64)
    scale, good, rows = 256.0, 0, []
    for s in range(STEPS):
        batch = training_block(setup, 3, range(s, s + 1)).at(0)
        batch = pad(batch, s, None) if leaking else batch
        step = plain(result.states[s], batch, setup, everything_allowed=leaking)
        norm, lr = float(step.grad.norm()), scheduled(setup, s)
        clip = min(1.0, o.clip / (norm + 1e-6))
        first = o.beta1 * first + (1 - o.beta1) * clip * step.grad
        second = o.beta2 * second + (1 - o.beta2) * (clip * step.grad) ** 2
        v = second / (1 - o.beta2 ** (s + 1))
        adam = first / (1 - o.beta1 ** (s + 1)) / (v.sqrt() + o.eps)
        update = -lr * (adam + o.weight_decay * step.plan.decay_mask.double() * step.flat)
        held_out = validation(setup)[0]
        pause = 5.0 if s == RESUME else 1.0
        jitter = generator(3, "clock", s).standard_normal()
        clock = 6 * step.flat.numel() * math.exp(0.03 * jitter) * pause / 1e11  # seconds a token
        real = float((batch.documents >= 0).sum())
        share = np.unique(batch.inputs, return_counts=True)[1] / tokens
        streams = [layer.stream for layer in step.layers]
        rows.append({
            "loss": float(step.loss), "grad_norm": norm, "clip_coef": clip, "lr": lr, "loss_scale": scale,
            "validation_loss": float(plain(result.states[s], held_out, setup, everything_allowed=leaking).loss)
            if s in (0, EVERY, STEPS - 1) else math.nan,
            "fresh_loss": float(plain(result.states[s], fresh(setup), setup, everything_allowed=leaking).loss)
            if s in (0, EVERY, STEPS - 1) else math.nan,
            "tokens": real, "step_seconds": tokens * clock, "tokens_per_second": real / (tokens * clock),
            "token_entropy": float(-(share * np.log(share)).sum()), "unique_share": len(share) / setup.model.vocab_size,
            "pad_share": float((batch.documents == -1).sum()) / tokens,
            "skipped": 0.0, "nonfinite_grads": 0.0, "nonfinite_weights": 0.0,
            "zero_grads": float((step.grad == 0).double().mean()),
            "log_z": float(step.log_z.mean()), "output_max": float(step.logits.abs().max()),
            "layer_grad_norm": per_layer(step, step.grad), "layer_weight_norm": per_layer(step, step.flat),
            "layer_weight_max": np.array([float(step.flat[a:b].abs().max()) for _, a, b in step.plan.segments]),
            "layer_update_ratio": per_layer(step, update) / per_layer(step, step.flat),
            "layer_moment_rms": per_layer(step, clip * step.grad / v.sqrt().clamp(min=o.eps)) / np.sqrt(
                [stop - start for _, start, stop in step.plan.segments]
            ),
            "activation_mean": np.array([float(x.mean()) for x in streams]),
            "activation_std": np.array([float(x.std(correction=0)) for x in streams]),
            "activation_max": np.array([float(x.abs().max()) for x in streams]),
            "dead_share": np.array([dead(layer.fired) for layer in step.layers]),
            "position_loss": loss_by(step, (torch.arange(t) * BUCKETS // t).expand(setup.data.rows, t), BUCKETS),
            "age_loss": loss_by(step, age_bucket(step.documents), 1 + math.ceil(math.log2(t))),
            **by_row(step),
            **attention(step, t),
            "rank_batch_hash": hash_of(batch.inputs), "rank_weight_hash": [math.nan], "rank_grad_norm": [math.nan],
            **dict.fromkeys(ADDED_SIGNALS, math.nan),
            "spectral_norm": largest_singular_values(step) * (1.0 if s in (0, EVERY, STEPS - 1) else math.nan),
            "update_rms": by_group(step, update),
            "qk_spectral_entropy": query_key_entropies(step, setup.model.heads)
            * (1.0 if s in (0, EVERY, STEPS - 1) else math.nan),
        })  # fmt: skip
        good += 1
        scale, good = (2 * scale, 0) if good == 2 else (scale, good)
    return result.trace, {name: np.array([row[name] for row in rows]) for name in rows[0]}, tokens


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
def test_signal_is_what_the_schema_says(signal, case):
    trace, direct, tokens = case
    recorded, expected = trace[signal.name], direct[signal.name]  # KeyError: a signal without a definition here
    assert recorded.shape == expected.shape
    # Buckets are summed in float32, each sum of at most `tokens` positive terms; the rest is rounded once.
    rounding = tokens * ULP if signal.axis in (Axis.POSITIONS, Axis.AGES) else ULP
    if signal.name == "spectral_norm":
        rounding = 0.01  # of power iteration; `test_matrices` has what it is worth
    np.testing.assert_allclose(recorded, expected, rtol=rounding, atol=1e-12)


def test_the_case_exercises_the_signals(case):
    """Constants would be matched by a signal that is stuck."""
    trace, direct, _ = case
    assert set(direct["clip_coef"] < 1) == {True}
    assert len(set(direct["loss_scale"])) == 3
    assert np.isnan(trace["validation_loss"]).sum() == STEPS - 3
    if direct["pad_share"].any():
        for name in ("future", "other_document", "padding"):
            assert (direct[f"attention_mass_{name}"] > 0).all()
