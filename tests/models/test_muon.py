"""Muon against PyTorch's own, which computes in bfloat16, and against what a singular value decomposition says."""

import pytest
import torch

from trainwreck.models.config import ModelConfig, OptimizerKind
from trainwreck.models.muon import UPDATE_RMS, Matrix, matrices, orthogonal, orthogonal_updates
from trainwreck.models.optim import Moments, Settings, step
from trainwreck.models.parameters import layout

ROWS, COLUMNS, PLAIN, RUNS, STEPS = 12, 20, 7, 3, 10
SIZE = ROWS * COLUMNS + PLAIN
MATRIX = Matrix(0, ROWS * COLUMNS, ROWS, COLUMNS, 1)


def settings(dtype, matrix=MATRIX):
    values = {
        "lr": [0.02, 0.1, 0.003], "beta1": [0.95, 0.9, 0.5], "beta2": [0.99, 0.9, 0.999], "eps": [1e-8] * RUNS,
        "weight_decay": [0.1, 0.0, 1.0], "clip": [float("inf")] * RUNS,
    }  # fmt: skip
    return Settings(**{k: torch.tensor(v, dtype=dtype) for k, v in values.items()}, matrices=(matrix,))


def draws(dtype):
    random = torch.Generator().manual_seed(1)
    flat = torch.randn(RUNS, SIZE, generator=random).to(dtype)
    return flat, [torch.randn(RUNS, SIZE, generator=random).to(dtype) for _ in range(STEPS)]


def ours(dtype, runs=slice(None)):
    s, (flat, grads) = settings(dtype), draws(dtype)
    chosen = Settings(**{k: v[runs] for k, v in vars(s).items() if isinstance(v, torch.Tensor)}, matrices=s.matrices)
    flat = flat[runs].clone()
    moments = Moments.zeros(flat)
    for g in grads:
        step(OptimizerKind.MUON, flat, g[runs].clone(), moments, chosen, torch.ones(SIZE, dtype=dtype))
    return flat


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="PyTorch before 2.9")
def test_a_matrix_is_updated_as_by_torch_and_the_rest_by_adamw():
    found, s, (flat, grads) = ours(torch.float32), settings(torch.float32), draws(torch.float32)
    for run in range(RUNS):
        lr, beta1, decay = (float(x[run]) for x in (s.lr, s.beta1, s.weight_decay))
        matrix = flat[run, : ROWS * COLUMNS].view(ROWS, COLUMNS).clone().requires_grad_()
        rest = flat[run, ROWS * COLUMNS :].clone().requires_grad_()
        muon = torch.optim.Muon([matrix], lr=lr, momentum=beta1, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
        betas = (beta1, float(s.beta2[run]))
        adamw = torch.optim.AdamW([rest], lr=lr, betas=betas, eps=1e-8, weight_decay=decay, foreach=False)
        for g in grads:
            matrix.grad = g[run, : ROWS * COLUMNS].view(ROWS, COLUMNS).clone()
            rest.grad = g[run, ROWS * COLUMNS :].clone()
            muon.step()
            adamw.step()
        torch.testing.assert_close(found[run, ROWS * COLUMNS :], rest.detach(), rtol=1e-5, atol=1e-6)
        moved = (found[run, : ROWS * COLUMNS] - flat[run, : ROWS * COLUMNS]).norm()
        apart = (found[run, : ROWS * COLUMNS] - matrix.detach().flatten()).norm()
        assert apart < 0.02 * moved  # bfloat16 has 8 bits


@pytest.mark.parametrize("shape", [(12, 20), (20, 12), (16, 16)])
def test_the_result_has_the_singular_vectors_and_values_near_one(shape):
    x = torch.randn(2, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u, values, v = torch.linalg.svd(x, full_matrices=False)
    made = u.transpose(-1, -2) @ orthogonal(x) @ v.transpose(-1, -2)
    diagonal = made.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(made, torch.diag_embed(diagonal), rtol=0, atol=1e-9)
    assert ((diagonal > 0.6) & (diagonal < 1.3))[values > 0.05 * values.amax(1, keepdim=True)].all()


def test_parts_that_lie_side_by_side_are_maps_of_their_own():
    random = torch.Generator().manual_seed(2)
    three = torch.randn(2, 8, 3, 8, generator=random)
    whole = orthogonal_updates(three.flatten(1), Matrix(0, 8 * 24, 8, 8, 3)).view(2, 8, 3, 8)
    for part in range(3):
        one = orthogonal_updates(three[:, :, part].reshape(2, 64), Matrix(0, 64, 8, 8, 1)).view(2, 8, 8)
        torch.testing.assert_close(whole[:, :, part], one)


def test_an_update_is_as_large_as_adamw_s_whatever_the_shape():
    random = torch.Generator().manual_seed(3)
    for rows, columns in ((48, 48), (48, 192), (192, 48)):
        momentum = torch.randn(1, rows * columns, generator=random)
        update = orthogonal_updates(momentum, Matrix(0, rows * columns, rows, columns, 1))
        assert 0.8 * UPDATE_RMS < float(update.square().mean().sqrt()) < 1.2 * UPDATE_RMS


def test_a_run_is_bitwise_itself_beside_others():
    beside = ours(torch.float32)
    for run in range(RUNS):
        assert torch.equal(ours(torch.float32, slice(run, run + 1))[0], beside[run])


def test_a_gradient_of_zero_moves_nothing():
    assert torch.equal(orthogonal(torch.zeros(2, 4, 6)), torch.zeros(2, 4, 6))


def test_embedding_head_biases_and_gains_are_left_to_adamw():
    plan = layout(ModelConfig())
    names = {slot.start: slot.name for slot in plan.slots}
    found = matrices(plan)
    assert all(names[matrix.start].startswith("layer_") and names[matrix.start].endswith(".weight") for matrix in found)
    assert len(found) == 4 * ModelConfig().layers
    assert {matrix.parts for matrix in found if "qkv" in names[matrix.start]} == {3}
