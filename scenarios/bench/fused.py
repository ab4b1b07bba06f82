"""Rotation, cross-entropy and the statistics of flat buffers: Triton against the reference, on a CUDA device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from trainwreck.evaluation.progress import Tick
from trainwreck.kernels.cross_entropy import bucket_losses, cross_entropy
from trainwreck.kernels.norms import segment_statistics
from trainwreck.kernels.rotary import split_and_rotate
from trainwreck.models.parameters import layout
from trainwreck.models.rotary import rotary_table
from trainwreck.scenarios.bench.rounds import Stopwatch, Subject, Work, cells, take
from trainwreck.scenarios.bench.stopwatch import CudaStopwatch, Peaks, measure_peaks, require_cuda
from trainwreck.scenarios.bench.table import Table
from trainwreck.scenarios.config.sizes import Size, healthy

REFERENCE, COMPILED, TRITON = "reference", "reference, torch.compile", "triton"
TOLERANCE = 0.02  # of the largest number; some of the numbers are bfloat16
COLUMNS = (
    "what", "size", "pass", "how", "floor, ms", "ms (median)", "quartiles", "x floor",
    f"x {REFERENCE}", f"x {COMPILED}", "note",
)  # fmt: skip

Kernel = Callable[..., Sequence[Tensor]]


@dataclass(frozen=True)
class Case:
    """kernel: called with the leaves and `impl`. moved: bytes that have to move. backward: with it."""

    what: str
    size: str
    backward: bool
    kernel: Kernel
    leaves: tuple[Tensor, ...]
    moved: int

    def work(self, run: Kernel, **options: Any) -> Work:
        """The forward, or forward and backward from gradients of ones."""
        if not self.backward:
            return lambda: run(*self.leaves, **options)
        ones = [torch.ones_like(x) for x in run(*self.leaves, **options)]

        def once() -> Sequence[Tensor]:
            leaves = [x.detach().requires_grad_() for x in self.leaves]
            found = run(*leaves, **options)
            return (*found, *torch.autograd.grad(found, leaves, ones))

        return once

    def subjects(self) -> list[Subject]:
        """The three that are compared."""

        def compiled() -> Work:
            torch._dynamo.reset()  # past eight shapes of one function it stops
            return self.work(torch.compile(self.kernel, dynamic=False), impl="reference")

        return [
            Subject(REFERENCE, lambda: self.work(self.kernel, impl="reference")),
            Subject(COMPILED, compiled),
            Subject(TRITON, lambda: self.work(self.kernel, impl="triton")),
        ]


def against_reference(tick: Tick) -> Table:
    """The measurement on this machine's CUDA device; InputError where it has none."""
    require_cuda()
    stopwatch = CudaStopwatch()
    return compare(tick, stopwatch, measure_peaks(stopwatch, rounds=10), gpu_cases("cuda"), rounds=25)


def compare(tick: Tick, stopwatch: Stopwatch, peaks: Peaks, cases: Sequence[Callable[[], Case]], rounds: int) -> Table:
    """The three of every case; a case is made when its turn comes, and its memory given back after."""
    rows = []
    for done, make in enumerate(cases):
        case = make()
        taken = take(case.subjects(), stopwatch, rounds, TOLERANCE)
        floor, _ = peaks.floor_ms(case.moved)
        label = (case.what, case.size, "forward and backward" if case.backward else "forward")
        rows += [(*label, name, floor, *cells(name, taken, (REFERENCE, COMPILED), floor)) for name in taken]
        tick(done + 1, len(cases), f"{case.what}, {case.size}")
    return Table(
        name="bench/fused",
        title="Fused kernels against their references",
        how=(
            f"{rounds} rounds in one process, the three in turn in each, as CUDA graphs between events, the "
            "second-level cache overwritten before each. A ratio is the other's time over the row's, the median over "
            "rounds of the ratio within a round: over 1 is faster than the other. The floor is the bytes that have to "
            f"move at the best copy measured in the same run, {peaks.bandwidth / 1e12:.2f} TB/s read and written. "
            "Every subject's numbers were compared before it was timed."
        ),
        command="trainwreck bench fused --record",
        columns=COLUMNS,
        rows=tuple(rows),
    )


def gpu_cases(device: str) -> list[Callable[[], Case]]:
    """What nano runs and bundles of micro runs do, at their sizes."""
    losses = ((1, 8192, 50304, torch.bfloat16), (64, 768, 64, torch.float32))
    return [
        *(partial(rotary, device, 16, 1024, 16, width, back) for width in (64, 128) for back in (False, True)),
        *(
            partial(loss, device, runs, tokens, vocabulary, dtype, back)
            for runs, tokens, vocabulary, dtype in losses
            for back in (False, True)
        ),
        partial(buckets, device, runs=64, rows=12, context=64),
        partial(norms, device, Size.NANO, runs=1),
        partial(norms, device, Size.MICRO, runs=64),
    ]


def rotary(device: str, rows: int, length: int, heads: int, width: int, backward: bool) -> Case:
    """Splitting and rotating heads, bfloat16."""
    qkv = torch.randn(1, rows, length, 3 * heads * width, device=device, dtype=torch.bfloat16)
    table = rotary_table(length, width, 10000.0).to(device)[None]

    def kernel(qkv: Tensor, impl: str) -> Sequence[Tensor]:
        return split_and_rotate(qkv, table, table, heads, impl=impl)

    size = f"{rows} rows of {length}, {heads} heads of {width}"
    return Case("rotary", size, backward, kernel, (qkv,), (4 if backward else 2) * 2 * qkv.numel())


def loss(device: str, runs: int, tokens: int, vocabulary: int, dtype: torch.dtype, backward: bool) -> Case:
    """Cross-entropy with log Z and, in the forward alone, the largest logit, which has no gradient."""
    logits = torch.randn(runs, tokens, vocabulary, device=device, dtype=dtype)
    targets = torch.randint(vocabulary, (runs, tokens), device=device)

    def kernel(logits: Tensor, impl: str) -> Sequence[Tensor]:
        found = cross_entropy(logits, targets, largest=True, impl=impl)
        return found[:2] if backward else found  # type: ignore[return-value]

    size = f"{runs} runs, {tokens} tokens, vocabulary {vocabulary}, {str(dtype).removeprefix('torch.')}"
    moved = (3 if backward else 1) * logits.numel() * logits.element_size()
    return Case("cross-entropy", size, backward, kernel, (logits,), moved)


def buckets(device: str, runs: int, rows: int, context: int) -> Case:
    """Losses by position and by age."""
    nll, weight = (torch.rand(runs, rows * context, device=device) for _ in range(2))
    age = torch.arange(rows * context, device=device).expand(nll.shape) % 7  # no bucket is empty

    def kernel(nll: Tensor, impl: str) -> Sequence[Tensor]:
        return bucket_losses(nll, weight, age, context=context, positions=8, ages=7, impl=impl)

    size = f"{runs} runs, {rows * context} tokens"
    return Case("losses by bucket", size, False, kernel, (nll,), nll.numel() * 16)


def norms(device: str, size: Size, runs: int) -> Case:
    """Norm, maximum and non-finite count of every layer of a flat buffer, float32."""
    plan = layout(healthy(size).model)
    flat = torch.randn(runs, plan.size, device=device)

    def kernel(flat: Tensor, impl: str) -> Sequence[Tensor]:
        return segment_statistics(flat, plan.bounds, largest=True, nonfinite=True, impl=impl)  # type: ignore[return-value]

    name = f"{runs} runs, {plan.size / 1e6:.1f} million numbers, {len(plan.bounds)} segments"
    return Case("norm statistics", name, False, kernel, (flat,), flat.numel() * 4)
