"""A run's logits and gradients have the bits that it has alone, whoever its neighbours are."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from trainwreck.models import gpt
from trainwreck.models.config import Activation, Format, Norm, Placement, Positions

# Sizes in whole cache lines of 16 floats, as the lab's are: elsewhere MKL's sums depend on how a run's
# first number is aligned, which is another one in a bundle.
EVEN = {"rows": 4, "context": 16, "width": 32, "heads": 2, "vocab_size": 16}
CASES = [
    EVEN,
    EVEN | {"context": 64, "width": 48, "heads": 4, "vocab_size": 64},
    EVEN | {"placement": Placement.POST, "norm": Norm.RMS, "activation": Activation.SWIGLU, "bias": False},
    EVEN | {"qk_norm": True, "z_loss": 1e-3, "activation": Activation.RELU, "layers": 3},
    EVEN | {"positions": Positions.DOCUMENT},
    EVEN | {"tied": True},
    EVEN | {"lora_rank": 8},
    EVEN | {"lora_rank": 3, "context": 64, "width": 48, "heads": 4, "vocab_size": 64},
]
SITES = (0, 3, 4)  # of 5 runs: first, last, and beside the sick one


def alone(problem: Any, i: int) -> Any:
    part = slice(i, i + 1)
    cut = {name: getattr(problem, name)[part] for name in ("flat", "tokens", "documents", "targets", "weight")}
    return dataclasses.replace(problem, z_loss=problem.z_loss[part], knobs=problem.knobs[part], **cut)


@pytest.mark.parametrize("value", [None, torch.nan, torch.inf], ids=str)
@pytest.mark.parametrize("format", Format)
@pytest.mark.parametrize(
    "case", CASES, ids=["even", "micro", "post-swiglu", "qk-norm", "learned-positions", "tied", "lora", "lora-3"]
)
def test_a_run_is_bitwise_the_same_alone_and_beside_others(
    case: dict[str, Any],
    format: Format,
    value: float | None,
    make_problem: Callable[..., Any],
    stacked: Callable[..., Any],
) -> None:
    problem = make_problem(runs=5, **case)
    if value is not None:
        problem.flat[2, ::7] = value
    bundle = stacked(problem, torch.float32, format=format)
    assert bool(torch.isfinite(bundle["objective"][2])) == (value is None)
    for i in SITES:
        for name, right in stacked(alone(problem, i), torch.float32, format=format).items():
            assert torch.isfinite(right).all()
            assert torch.equal(bundle[name][i], right[0]), f"{name} of run {i}"


@pytest.mark.parametrize("format", Format)
def test_dropout_is_bitwise_the_same_alone_and_beside_others(
    format: Format, make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    problem = make_problem(runs=5, **EVEN)
    seeds, rates = [3, 1, 4, 1, 5], torch.tensor([0.1, 0.0, 0.5, 0.3, 0.3])
    bundle = stacked(problem, torch.float32, format=format, dropout=gpt.Dropout(seeds, 6, rates))
    for i, seed in enumerate(seeds):
        single = gpt.Dropout([seed], 6, rates[i : i + 1])
        for name, right in stacked(alone(problem, i), torch.float32, format=format, dropout=single).items():
            assert torch.equal(bundle[name][i], right[0]), f"{name} of run {i}"
