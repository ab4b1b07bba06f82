"""LayerNorms with a wrong denominator: right on ordinary rows, and wrong in the way that they are there for."""

import pytest
import torch
import torch.nn.functional as F

from trainwreck.models.config import ModelConfig, Variance
from trainwreck.models.gpt import Model, standardise
from trainwreck.models.tables import healthy_tables
from trainwreck.models.variants import select
from trainwreck.models.variants.eps_outside import eps_outside
from trainwreck.models.variants.one_pass import one_pass

EPS = 1e-5


def rows(*, offset: float = 0.0) -> torch.Tensor:
    return torch.randn(3, 50, 48, generator=torch.Generator().manual_seed(0)) + offset


def test_ordinary_rows_are_normed_alike() -> None:
    x = rows()
    right = F.layer_norm(x, (48,), eps=EPS)
    torch.testing.assert_close(one_pass(x, EPS), right, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(eps_outside(x, EPS), right, rtol=1e-4, atol=1e-4)


def test_one_pass_cancels_under_a_large_mean_and_two_passes_do_not() -> None:
    x = 0.1 * rows() + 1024
    exact = F.layer_norm(x.double(), (48,), eps=EPS)
    assert (F.layer_norm(x, (48,), eps=EPS) - exact).abs().max() < 0.02
    wrong = one_pass(x, EPS)
    assert wrong.isnan().any()
    assert torch.equal(wrong.isnan().any(-1), wrong.isnan().all(-1))  # a row is lost or it is not


def test_eps_outside_is_zero_on_a_constant_row_and_its_gradient_is_not_a_number() -> None:
    x = rows()
    x[1, 7] = 3.0
    x.requires_grad_()
    y = eps_outside(x, EPS)
    assert (y[1, 7] == 0).all()
    (grad,) = torch.autograd.grad(y.square().sum(), x)
    bad = grad.isnan().any(-1)
    assert bad[1, 7]
    assert bad.sum() == 1


@pytest.mark.parametrize("variance", Variance)
def test_the_model_takes_the_one_that_is_named(variance: Variance) -> None:
    x = 0.1 * rows(offset=50.0)
    config = ModelConfig(width=48, variance=variance)
    tables = healthy_tables(config, 3)
    model = Model({}, config, tables, hooks=select.hooks(config, tables, [0, 1, 2], 0))
    taken = standardise(model, x, "final_norm")
    right = {
        Variance.TWO_PASS: F.layer_norm(x, (48,), eps=EPS),
        Variance.ONE_PASS: one_pass(x, EPS),
        Variance.EPS_OUTSIDE: eps_outside(x, EPS),
    }[variance]
    assert torch.equal(taken, right)


@pytest.mark.parametrize("variance", Variance)
def test_a_missing_norm_is_missing_beside_any_variance(variance: Variance) -> None:
    config = ModelConfig(width=48, variance=variance)
    tables, x = healthy_tables(config, 3), 0.1 * rows(offset=50.0)
    with_norm = select.hooks(config, tables, [0, 1, 2], 0)
    tables.bare_NL2 = torch.zeros(3, 2, 2, dtype=torch.bool)
    tables.bare_NL2[1, 0, 1] = True
    without = select.hooks(config, tables, [0, 1, 2], 0)
    for name in ("layer_0.attention_norm", "layer_0.mlp_norm", "layer_1.mlp_norm", "final_norm"):
        models = (Model({}, config, tables, hooks=hooks) for hooks in (with_norm, without))
        normed, found = (standardise(model, x, name) for model in models)
        bare = [n == 1 and name == "layer_0.mlp_norm" for n in range(3)]
        for n in range(3):
            assert torch.equal(found[n], x[n] if bare[n] else normed[n]), name
