"""What each group of signals costs a step by itself, beside one pass over the numbers that it has to look at."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

from trainwreck.evaluation.dataset.schema import BUCKETS
from trainwreck.kernels.attention.statistics import measure, reduce
from trainwreck.kernels.cross_entropy import bucket_losses
from trainwreck.kernels.norms import reference, segment_statistics
from trainwreck.models import gpt, optim
from trainwreck.models.config import ModelConfig, OptimizerKind
from trainwreck.models.parameters import layout
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.training.telemetry import age_buckets, row_statistics

TIMES = 200


@dataclass(frozen=True)
class Group:
    """Signals that come of the same tensors. prepare: called before each `work`, outside the clock."""

    name: str
    reads: tuple[Tensor, ...]
    work: Callable[[], object]
    prepare: Callable[[], object] = lambda: None


def costs(setup: Setup, runs: int) -> list[tuple[str, float, float]]:
    """Of each group: its name, seconds of a step of one run, and of one sum over what it reads. One thread."""
    found = []
    for group in groups(setup, runs):
        once = _seconds(lambda reads=group.reads: [x.sum(-1) for x in reads], lambda: None)  # type: ignore[misc]
        found.append((group.name, _seconds(group.work, group.prepare) / runs, once / runs))
    return found


def groups(setup: Setup, runs: int) -> list[Group]:
    """The work of `telemetry.Recorder` and `gpt.Probe`, on random numbers in the shapes of a step."""
    config = setup.model
    draw = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(runs, *shape, generator=draw)

    tokens = setup.data.rows * config.context
    return [
        _weights(config, random),
        _attention(config, random, setup.data.rows),
        _activations(config, random, tokens),
        _losses(config, random, tokens),
    ]


def _weights(config: ModelConfig, random: Callable[..., Tensor]) -> Group:
    plan = layout(config)
    flat, grads, update, first = (random(plan.size) for _ in range(4))
    moments = optim.Moments(torch.ones(len(flat)), first, random(plan.size).square())
    one = torch.full((len(flat),), 0.9)
    settings = optim.Settings(one, one, one, one, one, one)

    def work() -> None:
        segment_statistics(flat, plan.bounds, largest=True)
        segment_statistics(update, plan.bounds)
        reference.count_nonfinite(grads)
        torch.eq(grads, 0, out=torch.empty_like(grads)).mean(1)
        optim.moment_rms(OptimizerKind.ADAMW, grads, moments, settings, plan.bounds)

    name = "weights, updates, moments; gradients but for the norms that clipping needs"
    return Group(name, (flat, grads, update, moments.second), work)


def _attention(config: ModelConfig, random: Callable[..., Tensor], rows: int) -> Group:
    t = config.context
    hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
    scores = [random(rows, config.heads, t, t).masked_fill(hidden, -1e4) for _ in range(config.layers)]
    probs = [torch.softmax(x, -1) for x in scores]
    used = [torch.empty_like(x) for x in scores]  # `measure` writes over them

    def prepare() -> None:
        for to, x in zip(used, scores, strict=True):
            to.copy_(x)

    def work() -> None:
        reduce([measure(x, p, None) for x, p in zip(used, probs, strict=True)])

    return Group("attention: entropy, logits, distance, masses", (*scores, *probs), work, prepare)


def _activations(config: ModelConfig, random: Callable[..., Tensor], tokens: int) -> Group:
    stream = [random(tokens, config.width) for _ in range(config.layers)]
    units = [random(tokens, config.mlp_ratio * config.width) for _ in range(config.layers)]

    def work() -> None:
        probe = gpt.Probe()
        for x, hidden in zip(stream, units, strict=True):
            probe.see_stream(x)
            probe.see_hidden(hidden)

    return Group("residual stream and units of the MLP", (*stream, *units), work)


def _losses(config: ModelConfig, random: Callable[..., Tensor], tokens: int) -> Group:
    logits, nll = random(tokens, config.vocab_size), random(tokens).abs()
    weight, ages = torch.ones_like(nll), torch.zeros(nll.shape, dtype=torch.int64)
    buckets = age_buckets(config.context)

    def work() -> None:
        logits.abs().amax(-1).amax(1)
        row_statistics(nll, weight, config.context)
        bucket_losses(nll, weight, ages, context=config.context, positions=BUCKETS, ages=buckets)

    return Group("logits, and losses by row, position and age", (logits, nll), work)


def _seconds(work: Callable[[], object], prepare: Callable[[], object]) -> float:
    """The median of some calls."""
    taken = []
    for _ in range(TIMES):
        prepare()
        began = perf_counter()
        work()
        taken.append(perf_counter() - began)
    return median(taken)
