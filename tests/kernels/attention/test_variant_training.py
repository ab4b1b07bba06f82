"""A tiny model trains to the same failure with a faulty kernel as with its reference twin."""

from functools import cache

import pytest
import torch

from trainwreck.kernels.attention import VARIANTS
from trainwreck.kernels.cross_entropy import cross_entropy
from trainwreck.models import gpt
from trainwreck.models.config import Init, ModelConfig
from trainwreck.models.parameters import initial_parameters, layout
from trainwreck.models.tables import healthy_tables

STEPS, RATE, T = 12, 1.0, 16
# Large enough at the start that scores pass 88 and, before their scale, 65504 while they grow.
STEEP = {"softmax_unshifted": 16.0, "fp16_scores": 60.0}


@cache
def losses(variant: str, impl: str, device: str, steep: float = 1.0) -> torch.Tensor:
    """Loss of each step of plain gradient descent on a row of two documents that repeat themselves."""
    config = ModelConfig(
        layers=1, width=16, heads=1, vocab_size=16, context=T, attention=variant, init=Init(head_std=0.2)
    )
    flat = initial_parameters(config, [3], torch.float32).to(device)
    layout(config).views(flat)["layer_0.qkv.weight"].mul_(steep)
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(16, (1, 3, T + 1), generator=draw).to(device)
    tokens[..., 4:8], tokens[..., 12:16] = tokens[..., :4], tokens[..., 8:12]
    documents = (torch.arange(T, device=device) // 8).expand(1, 3, T).contiguous()
    tables = healthy_tables(config, 1)
    tables.causal = True
    for name in ("scale_N", "rotary_q_NTK", "rotary_k_NTK"):
        setattr(tables, name, getattr(tables, name).to(device))
    seen = []
    for _ in range(STEPS):
        leaves = {name: x.detach().requires_grad_() for name, x in layout(config).views(flat).items()}
        logits = gpt.forward(gpt.Model(leaves, config, tables, impl=impl), tokens[..., :T].contiguous(), documents)
        loss = cross_entropy(logits, tokens[..., 1:].reshape(1, -1))[0].mean()
        grads = torch.autograd.grad(loss, list(leaves.values()))
        flat = flat - RATE * torch.cat([grad.flatten(1) for grad in grads], 1)
        seen.append(loss.detach().cpu())
    return torch.stack(seen)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("variant", VARIANTS[1:])
def test_a_variant_trains_to_the_failure_of_its_twin(variant: str, device: str) -> None:
    right = losses("reference", "triton", device, STEEP[variant])
    assert torch.isfinite(right).all()
    got, twin = (losses(variant, impl, device, STEEP[variant]) for impl in ("triton", "reference"))
    assert torch.isnan(twin[-1])
    assert torch.isnan(got[-1])
    # Steep softmaxes make much of a rounding, so the first NaN may be a step apart.
    ends = [int(torch.isnan(run).int().argmax()) for run in (got, twin)]
    assert min(ends) > 0
    assert abs(ends[0] - ends[1]) <= 1
