"""Attention with statistics against PyTorch's own: on the CUDA device, or as CPU runs have it, on one core."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainwreck.evaluation.progress import Tick
from trainwreck.kernels.attention.reference import masked_scores
from trainwreck.kernels.attention.statistics import measure
from trainwreck.models.config import ModelConfig
from trainwreck.scenarios.bench import attention_cuda
from trainwreck.scenarios.bench.attention_cuda import OFF, ON, Attention, Case, arguments, ours
from trainwreck.scenarios.bench.peak import attention_products, forward_and_backward, threads
from trainwreck.scenarios.bench.table import Bars, Limit, Table
from trainwreck.scenarios.bench.timing import differs, part, processor_seconds, quartiles
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.training.bundle import bundle_width
from trainwreck.scenarios.training.environment import prepare

ROUNDS = 75
TOLERANCE = 1e-4  # of the largest number, float32
SIZES = (Size.MICRO, Size.DEEP, Size.SMALL)
SDPA, MATERIALISED, SECOND = "SDPA", "SDPA, materialised", "SDPA, and a second pass for statistics"
PEERS = (SDPA, MATERIALISED, SECOND)
BOTH = "forward and backward, ms"
BACK, PRODUCTS = ", and backward", "products"  # what is timed besides the forward passes
COLUMNS = ("what", "forward, ms", BOTH, *(f"x {peer}" for peer in PEERS), "quartiles of the first ratio")


def against_peers(tick: Tick) -> Table:
    """On the CUDA device where there is one, else on one core: title and folder of the table say which."""
    return attention_cuda.against_peers(tick) if torch.cuda.is_available() else against_sdpa(tick)


def against_sdpa(tick: Tick) -> Table:
    """The measurement on one core, in processor time."""
    prepare()
    rows: list[tuple[Any, ...]] = []
    limits = []
    with threads(1):
        for done, size in enumerate(SIZES):
            setup = healthy(size)
            c, batch = setup.model, setup.data.rows
            runs = bundle_width(batch, c)
            products = forward_and_backward(attention_products(c, batch), runs)
            taken = of_cases(draw(runs, batch, c), size.value, products, part(tick, done, len(SIZES)))
            ms = {name: 1e3 * seconds / runs for name, seconds in taken.items()}
            rows += [_row(size.value, ms, name) for name in (*PEERS, OFF, ON)]
            alone, whole = ms[PRODUCTS], ms[f"{ON}{BACK}"]
            share = float(np.median(alone / whole))
            limits.append((size.value, runs, c.context, c.head_width, *map(_median, (whole, alone)), share))
    return Table(
        name="bench/attention-cpu",
        title="A layer's attention with statistics against PyTorch's, one core, float32",
        how=(
            f"{ROUNDS} rounds of each, in turn, processor time, one thread; milliseconds are of one layer of one run "
            "of a bundle as the training loop steps it. A ratio is the peer's time over the row's, forward and "
            "backward, the median over rounds of the ratio within a round: over 1 is faster than the peer. SDPA is "
            "`scaled_dot_product_attention` with the kernel that PyTorch chooses; materialised is its plain form. The "
            "second pass makes scores and probabilities once more, without gradients, and takes from them the "
            "statistics that the last row has from its only one (entropy, its least, largest logit, log-sum-exp, mass "
            "on itself, distance). All were compared in output and gradients before they were timed."
        ),
        command="trainwreck bench attention --record",
        columns=COLUMNS,
        rows=tuple(rows),
        picture="attention-cpu.png",
        bars=Bars(f"x {SDPA}", tuple(f"{size.value}: {peer}" for size in SIZES for peer in PEERS)),
        limit=Limit(
            text=(
                "The products are the two of the forward pass and the four of the backward, over whole squares and "
                "nothing else, in these very shapes and in turn with all others; the share is the median within "
                "rounds. Kernels that skip what is masked can have half of them. The rest is softmax, its gradient, "
                "the mask and the statistics: passes over tensors of all pairs of positions, which a fused kernel "
                "keeps in registers and PyTorch's operators do not."
            ),
            columns=(
                "size", "runs", "length", "width of a head", "statistics on, forward and backward, ms",
                "its products alone, ms", "share",
            ),
            rows=tuple(limits),
        ),
    )  # fmt: skip


def draw(runs: int, rows: int, c: ModelConfig) -> tuple[Case, Case]:
    """One layer of a bundle, forward, and forward and backward: the same random numbers in every run."""
    random = torch.Generator().manual_seed(0)
    shape = (runs, rows, c.heads, c.context, c.head_width)
    q, k, v, d_out = (torch.randn(shape, generator=random) for _ in range(4))
    return Case(q, k, v, d_out, backward=False), Case(q, k, v, d_out, backward=True)


def of_cases(cases: tuple[Case, Case], label: str, products: Callable[[], object], tick: Tick) -> dict[str, np.ndarray]:
    """Seconds a round of every subject, forward by its name alone, and of the products.

    RuntimeError where one computes something else than the first.
    """
    forward, both = cases
    subjects = attentions(both)
    first = [x.detach() for x in both.work(subjects[SDPA])()]
    for name, fn in subjects.items():
        wrong = differs(both.work(fn)(), first, TOLERANCE)
        if wrong:
            raise RuntimeError(f"{label}: {name}: {wrong}")
    works: dict[str, Callable[[], object]] = {}
    for name, fn in subjects.items():
        works |= {name: forward.work(fn), f"{name}{BACK}": both.work(fn)}
    return processor_seconds(works | {PRODUCTS: products}, ROUNDS, tick)


def _row(label: str, ms: dict[str, np.ndarray], name: str) -> tuple[Any, ...]:
    both = ms[f"{name}{BACK}"]
    ratios = (_median(ms[f"{peer}{BACK}"] / both) for peer in PEERS)
    return (f"{label}: {name}", _median(ms[name]), _median(both), *ratios, quartiles(ms[f"{SDPA}{BACK}"] / both, 2))


def _median(values: np.ndarray) -> float:
    return float(np.median(values))


def attentions(case: Case) -> dict[str, Attention]:
    """Every subject by name, causal, one document a row."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    given = arguments(case, "reference", stats=True)
    mask, scale = given["mask"], given["scale_N"].view(-1, 1, 1, 1, 1)

    def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        flat_q, flat_k, flat_v = (x.flatten(0, 1) for x in (q, k, v))
        return F.scaled_dot_product_attention(flat_q, flat_k, flat_v, is_causal=True).view_as(q)

    def materialised(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return sdpa(q, k, v)

    def second(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with torch.no_grad():
            bias = mask.bias(q.shape[-2], q.dtype, q.device)
            scores = masked_scores(q * scale, k, bias)
            measure(scores, torch.softmax(scores, -1), None)
        return sdpa(q, k, v)

    own = {name: ours(case, impl="reference", stats=stats) for name, stats in ((OFF, False), (ON, True))}
    return {SDPA: sdpa, MATERIALISED: materialised, SECOND: second} | own
