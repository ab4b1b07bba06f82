"""Our attention with and without statistics against the attentions of PyTorch, on a CUDA device."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trainwreck.evaluation.progress import Tick
from trainwreck.kernels.attention import Mask, attention
from trainwreck.scenarios.bench.table import Goal, Table
from trainwreck.scenarios.bench.timing import (
    CudaStopwatch,
    Peaks,
    Stopwatch,
    Subject,
    Work,
    cells,
    measure_peaks,
    require_cuda,
    take,
)

FLASH, CUDNN, FLEX = "SDPA flash", "SDPA cuDNN", "FlexAttention"
MATERIALISED = "materialised, with entropy"
OFF, ON = "trainwreck, statistics off", "trainwreck, statistics on"
PEERS = (FLASH, CUDNN, MATERIALISED, OFF)  # what the others are compared with
GOALS = {FLASH: 1.0, CUDNN: 0.8}  # as many times as fast, at least

TOLERANCE = 0.05  # of the largest number; bfloat16 has 8 bits
SCORES_LIMIT = 8 * 2**30  # bytes of the materialised form's scores, probabilities and their gradient, float32
COLUMNS = (
    "width", "length", "pass", "what", "floor: memory, ms", "floor: arithmetic, ms", "ms (median)", "quartiles",
    "x floor", *(f"x {peer}" for peer in PEERS), "note",
)  # fmt: skip

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Scale:
    """Which sizes are measured, and how often. tokens stays: a longer row means fewer of them."""

    lengths: Sequence[int] = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
    widths: Sequence[int] = (64, 128)
    tokens: int = 16384
    heads: int = 16
    rounds: int = 25
    device: str = "cuda"
    names: Sequence[str] = (FLASH, CUDNN, FLEX, MATERIALISED, OFF, ON)


@dataclass(frozen=True)
class Case:
    """One size: q, k, v and the gradient of the output, [N, B, H, T, K]."""

    q: Tensor
    k: Tensor
    v: Tensor
    d_out: Tensor
    backward: bool

    def moved(self) -> int:
        """Bytes that have to move: q, k, v and the output; all again, its gradient and three more for the backward."""
        return (12 if self.backward else 4) * self.q.numel() * self.q.element_size()

    def operations(self) -> float:
        """Of two causal products, and of the five of the backward, which makes the scores again (Dao 2023)."""
        rows, t, width = self.q.numel() // self.q.shape[-1], *self.q.shape[-2:]
        return (7 if self.backward else 2) * rows * (t + 1) / 2 * 2 * width

    def scores_bytes(self) -> int:
        """Of three float32 tensors [B, H, T, S]."""
        return 3 * 4 * self.q.numel() // self.q.shape[-1] * self.q.shape[-2]

    def work(self, fn: Attention) -> Work:
        """The pass as training does it: a forward that can be followed by a backward, or both."""

        def once() -> Sequence[Tensor]:
            # Leaves of this call's own, so that no autograd node outlives it.
            leaves = [x.detach().requires_grad_() for x in (self.q, self.k, self.v)]
            out = fn(*leaves)
            return (out, *torch.autograd.grad(out, leaves, self.d_out)) if self.backward else (out,)

        return once


def against_peers(tick: Tick) -> Table:
    """The measurement on this machine's CUDA device; InputError where it has none."""
    require_cuda()
    stopwatch = CudaStopwatch()
    return compare(tick, stopwatch, measure_peaks(stopwatch, rounds=10), Scale())


def compare(tick: Tick, stopwatch: Stopwatch, peaks: Peaks, scale: Scale) -> Table:
    """Every subject at every size, forward, and forward and backward."""
    sizes = [(w, t, back) for w in scale.widths for t in scale.lengths for back in (False, True)]
    rows = []
    for done, (width, length, back) in enumerate(sizes):
        case = draw(scale, length, width, back)
        taken = take(subjects(case, scale.names), stopwatch, scale.rounds, TOLERANCE)
        memory, arithmetic = peaks.floor_ms(case.moved(), case.operations())
        label = (width, length, "forward and backward" if back else "forward")
        for name in scale.names:
            rows.append((*label, name, memory, arithmetic, *cells(name, taken, PEERS, max(memory, arithmetic))))
        tick(done + 1, len(sizes), f"width {width}, length {length}")
    return Table(
        name="bench/attention",
        title="Causal attention with statistics against PyTorch's attentions, bfloat16",
        how=(
            f"{verdict(rows)}{scale.tokens} tokens of {scale.heads} heads at every length; {scale.rounds} rounds in "
            "one process, every subject in turn in each, as CUDA graphs between events, the second-level cache "
            "overwritten before each. Forward is training's forward, which keeps what the backward needs. A ratio is "
            "the peer's time over the row's, the median over rounds of the ratio within a round: over 1 is faster than "
            "the peer. The floors are the bytes that have to move and the operations of the products, at the best copy "
            f"({peaks.bandwidth / 1e12:.2f} TB/s, read and written) and the best product "
            f"({peaks.arithmetic / 1e12:.0f} TFLOP/s, bfloat16) measured in the same run. Materialised is this "
            "project's PyTorch reference with all statistics. Every subject's numbers were compared before it was "
            "timed."
        ),
        command="trainwreck bench attention --record",
        columns=COLUMNS,
        rows=tuple(rows),
        picture="attention.png",
        goals=goals(rows),
    )


def draw(scale: Scale, length: int, width: int, backward: bool) -> Case:
    """Random numbers of a size, the same in every run."""
    shape = (1, max(1, scale.tokens // length), scale.heads, length, width)
    random = torch.Generator(scale.device).manual_seed(0)
    q, k, v, d_out = (torch.randn(shape, generator=random, device=scale.device, dtype=torch.bfloat16) for _ in range(4))
    return Case(q, k, v, d_out, backward)


def subjects(case: Case, names: Sequence[str]) -> list[Subject]:
    """The subjects of these names for a case."""
    from torch.nn.attention import SDPBackend

    makers: dict[str, Callable[[], Attention]] = {
        FLASH: lambda: sdpa(SDPBackend.FLASH_ATTENTION),
        CUDNN: lambda: sdpa(SDPBackend.CUDNN_ATTENTION),
        FLEX: lambda: flex(*case.q.shape[-2:], case.q.device),
        MATERIALISED: lambda: ours(case, impl="reference", stats=True),
        OFF: lambda: ours(case, impl="triton", stats=False),
        ON: lambda: ours(case, impl="triton", stats=True),
    }
    size = case.scores_bytes()
    too_large = f"left out: its [T, S] tensors are {size / 2**30:.0f} GiB, over {SCORES_LIMIT / 2**30:.0f}"
    left_out = {MATERIALISED: too_large} if size > SCORES_LIMIT else {}

    def build(name: str) -> Work:
        return case.work(makers[name]())

    return [Subject(name, partial(build, name), left_out.get(name, "")) for name in names]


def sdpa(backend: Any) -> Attention:
    """scaled_dot_product_attention with one backend allowed."""
    from torch.nn.attention import sdpa_kernel

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            # squeeze(0) and not [0], whose gradient is a copy into zeros.
            out = F.scaled_dot_product_attention(q.squeeze(0), k.squeeze(0), v.squeeze(0), is_causal=True)
        return out.unsqueeze(0)

    return attend


@lru_cache(maxsize=1)  # forward, and forward and backward, of a size are one compilation
def flex(length: int, width: int, device: torch.device) -> Attention:
    """FlexAttention, compiled for one size alone: with dynamic shapes it would be another kernel."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()  # past eight shapes of one function it stops compiling
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device=str(device))
    compiled = torch.compile(flex_attention, dynamic=False, fullgraph=True)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out: Tensor = compiled(q.squeeze(0), k.squeeze(0), v.squeeze(0), block_mask=mask)
        return out.unsqueeze(0)

    return attend


def ours(case: Case, *, impl: str, stats: bool) -> Attention:
    """This project's attention, causal, one document a row."""
    given = arguments(case, impl, stats)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, **given)[0]

    return attend


def arguments(case: Case, impl: str, stats: bool) -> dict[str, Any]:
    """What `attention` takes besides q, k and v."""
    scale = torch.full((len(case.q),), 1 / math.sqrt(case.q.shape[-1]), device=case.q.device)
    return {"mask": Mask(), "scale_N": scale, "stats": stats, "impl": impl}


def least_ratios(rows: Sequence[tuple[Any, ...]]) -> tuple[str, dict[str, float]]:
    """At the sizes that matter most here: which they are, and the least ratio to each peer; none where not measured."""
    chosen = [
        dict(zip(COLUMNS, row, strict=True))
        for row in rows
        if row[0] == 64 and 128 <= row[1] <= 1024 and row[2] == "forward and backward" and row[3] == ON
    ]
    found = {peer: [row[f"x {peer}"] for row in chosen if row[f"x {peer}"] != ""] for peer in PEERS}
    where = f"width 64, lengths {chosen[0]['length']} to {chosen[-1]['length']}" if chosen else ""
    return where, {peer: min(values) for peer, values in found.items() if values}


def verdict(rows: Sequence[tuple[Any, ...]]) -> str:
    """`least_ratios` in words; empty where they weren't measured."""
    where, least = least_ratios(rows)
    if not least:
        return ""
    found = ", ".join(f"{ratio:.2f} x {peer}" for peer, ratio in least.items())
    return f"At {where}, forward and backward, statistics on, at least: {found}. "


def goals(rows: Sequence[tuple[Any, ...]]) -> tuple[Goal, ...]:
    """What was asked of the least ratios."""
    where, least = least_ratios(rows)
    what = f"attention with statistics, forward and backward, {where}"
    return tuple(Goal(what, peer, asked, least[peer]) for peer, asked in GOALS.items() if peer in least)
