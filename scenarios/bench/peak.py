"""What a processor does at most: matrix products, measured, beside those that a model's step has to do."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import torch

from trainwreck.models.config import Activation, ModelConfig

SIDE = 1024  # rows and columns of a matrix, 4 MiB in float32
TIMES = 20
BACKWARD = 2  # products for each of the forward pass: the gradients of its two factors


@dataclass(frozen=True)
class Product:
    """`count` products of matrices [m, k] and [k, n]."""

    count: int
    m: int
    k: int
    n: int

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.count * self.m * self.k * self.n


def products(c: ModelConfig, rows: int) -> list[Product]:
    """Of a forward pass over rows of `context` tokens. Attention's are squares, masked half and all."""
    tokens, hidden = rows * c.context, c.mlp_ratio * c.width
    gated = 2 if c.activation is Activation.SWIGLU else 1
    block = [
        Product(1, tokens, c.width, 3 * c.width),
        *attention_products(c, rows),
        Product(1, tokens, c.width, c.width),
        Product(gated, tokens, c.width, hidden),
        Product(1, tokens, hidden, c.width),
    ]
    return [*block * c.layers, Product(1, tokens, c.width, c.vocab_size)]


def attention_products(c: ModelConfig, rows: int) -> list[Product]:
    """Of a layer's attention: the scores, and what they weigh."""
    heads = rows * c.heads
    return [
        Product(heads, c.context, c.head_width, c.context),
        Product(heads, c.context, c.context, c.head_width),
    ]


def step_operations(c: ModelConfig, rows: int) -> int:
    """Of all products of a training step, forward and backward; nothing else of the step is counted."""
    return (1 + BACKWARD) * sum(one.operations for one in products(c, rows))


def peak(count: int, dtype: torch.dtype = torch.float32) -> float:
    """Operations a second of the best of some products of large matrices, on so many threads."""
    with threads(count):
        a, b = torch.randn(2, SIDE, SIDE).to(dtype).unbind()
        out = torch.empty_like(a)
        return 2 * SIDE**3 / _least(lambda: torch.mm(a, b, out=out))


def products_alone(c: ModelConfig, rows: int, runs: int, dtype: torch.dtype = torch.float32) -> float:
    """Operations a second of the products of a training step of so many runs side by side, one thread, at best."""
    with threads(1):
        return runs * step_operations(c, rows) / _least(forward_and_backward(products(c, rows), runs, dtype))


def forward_and_backward(
    forward: Sequence[Product], runs: int, dtype: torch.dtype = torch.float32
) -> Callable[[], object]:
    """A function that does these products, and the two of the backward that each has, of so many runs."""
    prepared = [_all_three(one, runs, dtype) for one in forward]

    def step() -> None:
        for triple in prepared:
            for a, b, out in triple:
                torch.bmm(a, b, out=out)

    return step


def _all_three(
    one: Product, runs: int, dtype: torch.dtype = torch.float32
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """A product and its two of the backward, with room for the results."""
    shapes = ((one.m, one.k), (one.k, one.n), (one.m, one.n))
    a, b, d = (torch.randn(one.count * runs, *shape).to(dtype) for shape in shapes)
    return [
        (a, b, torch.empty_like(d)),
        (d, b.transpose(1, 2), torch.empty_like(a)),
        (a.transpose(1, 2), d, torch.empty_like(b)),
    ]


def _least(work: Callable[[], object]) -> float:
    """Seconds of the fastest of some calls."""
    least = float("inf")
    for _ in range(TIMES):
        began = perf_counter()
        work()
        least = min(least, perf_counter() - began)
    return least


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads for PyTorch's operators, and after it as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
