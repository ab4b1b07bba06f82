"""Spectral norms and entropies against singular values, updates by group by hand, and where runs have neither."""

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from trainwreck.evaluation.dataset.telemetry_file import TelemetryFile
from trainwreck.evaluation.logs.exporters.series import series
from trainwreck.evaluation.replay.rows import rows
from trainwreck.models.config import Activation
from trainwreck.models.parameters import initial_parameters, layout
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.training import matrices
from trainwreck.scenarios.training.loop import train
from trainwreck.scenarios.training.matrices import Matrices, spectral_entropy

CPU = torch.device("cpu")
MODELS = {
    "micro": {},
    "no biases": {"width": 32, "heads": 4, "bias": False},
    "gated, tied": {"width": 32, "heads": 2, "activation": Activation.SWIGLU, "tied": True},
    "deep, narrow MLP": {"layers": 6, "width": 32, "heads": 2, "mlp_ratio": 1, "qk_norm": True},
    "adapters": {"width": 32, "heads": 2, "lora_rank": 4},
}


@pytest.fixture(params=MODELS)
def model(request):
    return dataclasses.replace(Setup().model, **MODELS[request.param])


def hidden(plan, layer):
    """Slots of a layer's matrices, without those of adapters."""
    names = (f"layer_{layer}.{name}.weight" for name in ("qkv", "attention_out", "mlp_in", "mlp_out"))
    slots = {slot.name: slot for slot in plan.slots}
    return [slots[name] for name in names]


def exact(flat, plan, layer):
    """Largest singular value of any matrix of a layer, [N]."""
    parts = []
    for slot in hidden(plan, layer):
        weight = flat[:, slot.start : slot.stop].unflatten(1, slot.shape).double()
        parts += weight.split(slot.shape[0], 2) if "qkv" in slot.name else [weight]
    return torch.stack([torch.linalg.matrix_norm(part, ord=2) for part in parts]).amax(0)


def test_spectral_norm_is_the_largest_singular_value(model):
    plan, flat = layout(model), initial_parameters(model, list(range(8)))
    found = Matrices(plan, CPU).spectral_norm(flat)
    assert found.shape == (8, model.layers)
    for layer in range(model.layers):
        ratio = found[:, layer].double() / exact(flat, plan, layer)
        assert ratio.max() < 1 + 1e-6, "an estimate from below"
        assert ratio.min() > 0.995, "fresh weights have no singular value apart from the others: the hardest case"


@pytest.mark.parametrize("place", range(6))
def test_one_large_direction_of_any_matrix_is_found(place, model):
    plan, flat = layout(model), initial_parameters(model, [1])
    layer, column = model.layers - 1, torch.linspace(-1, 1, model.width)
    slot = hidden(plan, layer)[max(0, place - 2)]
    weight = flat[0, slot.start : slot.stop].view(slot.shape)
    rows, columns = slot.shape[0], slot.shape[1] // (3 if place < 3 else 1)
    part = weight[:, (place % 3) * columns :][:, :columns] if place < 3 else weight
    long = torch.ones(max(rows, columns))
    part += 3 * torch.outer(column, long[:columns]) if rows == model.width else 3 * torch.outer(long, column)
    found = Matrices(plan, CPU).spectral_norm(flat)
    torch.testing.assert_close(found[:, layer].double(), exact(flat, plan, layer), rtol=1e-5, atol=0)
    assert found[0, layer] > 10 * found[0, :layer].max(initial=0.0) if layer == 0 else found[0, layer] > found[0, 0]


def test_zero_is_zero_and_what_is_not_finite_stays_in_its_layer_and_run():
    model = dataclasses.replace(Setup().model, layers=3)
    plan, flat = layout(model), initial_parameters(model, [0, 1, 2])
    matrices = Matrices(plan, CPU)
    before = matrices.spectral_norm(flat)
    flat[0] = 0.0
    flat[1, hidden(plan, 1)[2].start] = torch.nan
    flat[2, hidden(plan, 0)[3].start] = torch.inf
    found = matrices.spectral_norm(flat)
    assert (found[0] == 0).all()
    assert torch.isnan(found).tolist() == [[False] * 3, [False, True, False], [True, False, False]]
    assert torch.equal(found[1, [0, 2]], before[1, [0, 2]])
    assert torch.equal(found[2, 1:], before[2, 1:])


def test_a_run_is_the_same_beside_others(model):
    flat = initial_parameters(model, list(range(19)))
    matrices = Matrices(layout(model), CPU)
    for count in (1, 2, 7):
        for of in (matrices.spectral_norm, matrices.rms):
            assert torch.equal(of(flat)[:count].isnan(), of(flat[:count]).isnan())
            assert torch.equal(of(flat)[:count].nan_to_num(), of(flat[:count]).nan_to_num())
        weight = matrices.query_key(flat).numpy()
        np.testing.assert_array_equal(
            spectral_entropy(weight, model.heads)[:count], spectral_entropy(weight[:count], model.heads)
        )


def entropies(flat, plan, model):
    """Of W_q W_k^T of each head, [N, L * H], from its own singular values."""
    found = []
    for layer in range(model.layers):
        slot = hidden(plan, layer)[0]
        q, k, _ = flat[:, slot.start : slot.stop].unflatten(1, slot.shape).double().chunk(3, 2)
        for queries, keys in zip(q.chunk(model.heads, 2), k.chunk(model.heads, 2), strict=True):
            values = torch.linalg.svdvals(queries @ keys.transpose(1, 2))
            share = values / values.sum(1, keepdim=True)
            found.append(-torch.xlogy(share, share).sum(1))
    return torch.stack(found, 1)


def test_spectral_entropy_is_that_of_the_singular_values(model):
    plan, flat = layout(model), initial_parameters(model, list(range(8)))
    found = spectral_entropy(Matrices(plan, CPU).query_key(flat).numpy(), model.heads)
    assert found.shape == (8, model.layers * model.heads)
    np.testing.assert_allclose(found, entropies(flat, plan, model), rtol=1e-6)
    assert (found < np.log(model.head_width)).all()


def test_spectral_entropy_of_one_direction_of_equal_ones_and_of_none():
    weight = np.zeros((1, 1, 8, 2, 2, 4))  # two heads of width 4, queries and keys of which are the same
    weight[0, 0, :4, :, 0] = np.eye(4)[:, None]
    weight[0, 0, :, :, 1] = np.outer(np.arange(8.0), np.ones(4))[:, None]
    found = spectral_entropy(weight.reshape(1, 1, 8, 16), 2)
    np.testing.assert_allclose(found, [[np.log(4), 0.0]], atol=1e-12)
    assert np.isnan(spectral_entropy(np.zeros((1, 1, 8, 16)), 2)).all()


def test_spectral_entropy_of_what_is_not_finite_stays_in_its_head_and_run():
    model = dataclasses.replace(Setup().model, layers=3)
    plan, flat = layout(model), initial_parameters(model, [0, 1])
    matrices = Matrices(plan, CPU)
    before = spectral_entropy(matrices.query_key(flat).numpy(), model.heads)
    flat[1, hidden(plan, 1)[0].start] = torch.nan  # the first query weight of the first head
    found = spectral_entropy(matrices.query_key(flat).numpy(), model.heads)
    assert np.flatnonzero(np.isnan(found[1])).tolist() == [model.heads]
    np.testing.assert_array_equal(found[0], before[0])
    np.testing.assert_array_equal(np.delete(found[1], model.heads), np.delete(before[1], model.heads))


def test_update_by_group_is_what_it_is_by_hand(model):
    plan = layout(model)
    update = torch.zeros(2, plan.size)
    for slot in plan.slots:
        level = {"embedding.weight": 2.0, "head.weight": 3.0}.get(slot.name, 5.0)
        if slot.name.startswith("layer_") and slot.name.endswith((".weight", ".lora_a", ".lora_b")):
            level = 7.0
        update[0, slot.start : slot.stop] = level
    embedding, head = plan.slots[0], next((slot for slot in plan.slots if slot.name == "head.weight"), None)
    update[1, embedding.start] = -6.0  # one weight alone
    found = Matrices(plan, CPU).rms(update)
    wanted = [7.0, 2.0, 3.0 if head else np.nan, 5.0]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)
    assert found[1, 1] == pytest.approx(6.0 / (embedding.stop - embedding.start) ** 0.5, rel=1e-6)
    assert found[1, [0, 3]].tolist() == [0, 0]


def test_plain_sgd_moves_a_group_by_the_rate_times_its_gradient(tiny, make_job):
    """Without momentum, decay and clipping the update is -lr * g."""
    from trainwreck.models.config import OptimizerKind

    setup = replaced(
        tiny, optimizer__kind=OptimizerKind.SGD, optimizer__beta1=0.0, optimizer__weight_decay=0.0,
        optimizer__clip=None, steps=4,
    )  # fmt: skip
    trace = train([make_job(0, setup)])[0].trace
    plan = layout(setup.model)
    start, stop = plan.bounds[0]
    rms = trace["layer_grad_norm"][:, 0] * trace["lr"] / (stop - start) ** 0.5
    np.testing.assert_allclose(trace["update_rms"][:, 1], rms, rtol=1e-5)


def test_missing_is_null_in_a_file_and_none_in_a_row(tiny, make_job, tmp_path):
    trace = train([make_job(0, replaced(tiny, model__tied=True))])[0].trace
    pq.write_table(trace.to_table(), tmp_path / "new.parquet")
    old = ["spectral_norm", "update_rms", "qk_spectral_entropy"]
    pq.write_table(trace.to_table().drop_columns(old), tmp_path / "old.parquet")
    new, before = (TelemetryFile(tmp_path / f"{name}.parquet").trace("run-0") for name in ("new", "old"))
    evaluated = [step for step in range(20) if step % 7 == 0 or step == 19]
    column = trace.to_table()["spectral_norm"]
    assert [step for step in range(20) if column[step].is_valid] == evaluated
    for name in ("spectral_norm", "qk_spectral_entropy"):
        assert [row["step"] for row in rows(new) if row[name] is not None] == evaluated
    assert all(len(row["update_rms"]) == 4 and np.isnan(row["update_rms"][2]) for row in rows(new))
    assert all(row[name] is None for row in rows(before) for name in old)
    np.testing.assert_array_equal(new["spectral_norm"], trace["spectral_norm"])
    np.testing.assert_array_equal(new["update_rms"], trace["update_rms"])
    np.testing.assert_array_equal(new["qk_spectral_entropy"], trace["qk_spectral_entropy"])
    assert all(np.isnan(before[name]).all() for name in old)
    assert [one.steps.tolist() for one in series(new) if one.name == "spectral_norm/1"] == [evaluated]
    assert not [one.name for one in series(before) if one.name.split("/")[0] in old]


@pytest.mark.parametrize("encoder", [0, 2])
def test_one_pass_over_parameters_says_what_passes_over_segments_and_groups_do(model, encoder, monkeypatch):
    model = dataclasses.replace(model, encoder_layers=encoder)
    plan, update = layout(model), initial_parameters(model, [0, 1, 2])
    update[1, hidden(plan, 0)[1].start] = torch.nan
    two = Matrices(plan, CPU).moved(update, "reference")
    monkeypatch.setattr(matrices, "choose", lambda impl, x: "triton")
    one = Matrices(plan, CPU).moved(update, "reference")
    for got, right in zip(one, two, strict=True):
        assert got.shape == right.shape
        torch.testing.assert_close(got, right, rtol=1e-5, atol=0, equal_nan=True)
    assert one[1][1].isnan().any()
