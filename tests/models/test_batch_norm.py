"""BatchNorm against PyTorch's, run by run, in training and by its running statistics."""

import pytest
import torch
import torch.nn.functional as F

from trainwreck.models.config import ModelConfig, Norm, Placement
from trainwreck.models.gpt import Model, standardise
from trainwreck.models.parameters import layout, norm_names
from trainwreck.models.tables import healthy_tables
from trainwreck.models.variants import select
from trainwreck.models.variants.batch_norm import MOMENTUM, RunningMoments, initial_moments

N, M, D, EPS = 3, 20, 16, 1e-5
NAMES = ("first", "second")


def tokens(step: int = 0) -> torch.Tensor:
    draw = torch.Generator().manual_seed(step)
    return 2 * torch.randn(N, M, D, generator=draw, dtype=torch.float64) + torch.arange(N).view(N, 1, 1)


def fresh(training: bool = True) -> RunningMoments:
    moments = initial_moments(NAMES, D, torch.float64)
    return RunningMoments(moments.repeat(N, 1, 1, 1), NAMES, training)


def test_batches_and_running_statistics_are_pytorchs():
    running = fresh()
    right = [torch.nn.BatchNorm1d(D, eps=EPS, momentum=MOMENTUM, affine=False, dtype=torch.float64) for _ in range(N)]
    weight = torch.linspace(-1, 1, N * M * D, dtype=torch.float64).view(N, M, D)
    for step in range(4):
        x, y = tokens(step).requires_grad_(), tokens(step).requires_grad_()
        got = running.standardise(x, "second", EPS)
        want = torch.stack([norm(part) for norm, part in zip(right, y, strict=True)])
        torch.testing.assert_close(got, want)
        grads = [torch.autograd.grad((out * weight).sum(), leaf)[0] for out, leaf in ((got, x), (want, y))]
        torch.testing.assert_close(*grads)
    for n, norm in enumerate(right):
        torch.testing.assert_close(running.moments_NS2D[n, 1, 0], norm.running_mean)
        torch.testing.assert_close(running.moments_NS2D[n, 1, 1], norm.running_var)
        norm.eval()
    assert torch.equal(running.moments_NS2D[:, 0], fresh().moments_NS2D[:, 0])  # the other norm has its own
    running.training = False
    kept = running.moments_NS2D.clone()
    x = tokens(9)
    want = torch.stack([norm(part) for norm, part in zip(right, x, strict=True)])
    torch.testing.assert_close(running.standardise(x, "second", EPS), want)
    assert torch.equal(running.moments_NS2D, kept)


def test_no_run_is_in_anothers_statistics():
    x = tokens()
    spoilt = x.clone()
    spoilt[1] = float("nan")
    clean, beside = fresh(), fresh()
    a, b = clean.standardise(x, "first", EPS), beside.standardise(spoilt, "first", EPS)
    assert torch.equal(a[[0, 2]], b[[0, 2]])
    assert torch.equal(clean.moments_NS2D[[0, 2]], beside.moments_NS2D[[0, 2]])
    assert b[1].isnan().all()


def test_a_norm_is_over_tokens_and_bare_runs_have_none():
    config = ModelConfig(width=D, heads=1, norm=Norm.BATCH)
    x = tokens().float()
    running = RunningMoments(fresh().moments_NS2D.float(), norm_names(config)[:2])
    tables = healthy_tables(config, N)
    tables.bare_NL2 = torch.tensor([False, True, False]).view(N, 1, 1).expand(N, config.layers, 2)
    hooks = select.hooks(config, tables, list(range(N)), 0, running)
    y = standardise(Model({}, config, tables, hooks=hooks), x, "layer_0.attention_norm")
    assert torch.equal(y[1], x[1])
    torch.testing.assert_close(y[0].mean(0), torch.zeros(D), atol=1e-6, rtol=0)
    torch.testing.assert_close(y[0].var(0, unbiased=False), torch.ones(D), atol=1e-4, rtol=0)
    assert not torch.allclose(y[0], F.layer_norm(x[0], (D,)), atol=0.1)


@pytest.mark.parametrize("placement", list(Placement))
def test_it_has_the_parameters_of_a_layer_norm(placement):
    batch, layer = (ModelConfig(norm=norm, placement=placement) for norm in (Norm.BATCH, Norm.LAYER))
    assert layout(batch).slots == layout(layer).slots
    final = ("final_norm",) if placement is Placement.PRE else ()
    assert norm_names(batch) == (
        "layer_0.attention_norm", "layer_0.mlp_norm", "layer_1.attention_norm", "layer_1.mlp_norm", *final,
    )  # fmt: skip
