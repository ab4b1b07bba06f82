"""Time on a CUDA device, and what the device can do at most: copies and matrix products."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.bench.rounds import Work, reason

WARM_UP = 3
FLUSH_BYTES = 256 * 2**20  # several times the second-level cache
COPY_BYTES = 2**31
PRODUCT = 8192  # rows and columns of a matrix


@dataclass(frozen=True)
class Peaks:
    """What was measured: bytes a second read and written by a copy, bfloat16 operations a second of a product."""

    bandwidth: float
    arithmetic: float

    def floor_ms(self, moved: float, operations: float = 0.0) -> tuple[float, float]:
        """Least milliseconds for the bytes that have to move, and for the operations."""
        return 1e3 * moved / self.bandwidth, 1e3 * operations / self.arithmetic


def require_cuda() -> None:
    """InputError without a CUDA device."""
    if not torch.cuda.is_available():
        raise InputError("device: no CUDA device; allowed: a machine with one")


class CudaStopwatch:
    """Events around the replay of a CUDA graph, after the second-level cache was overwritten.

    Overwriting also keeps the device busy while the host queues what is timed. Work that can't be
    captured is timed as it is called, and the note says so.
    """

    def __init__(self) -> None:
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self.stream = torch.cuda.Stream()

    def ready(self, work: Work) -> tuple[Callable[[], float], str]:
        """See `Stopwatch.ready`."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):  # the stream of the capture: autograd remembers where it ran
            for _ in range(WARM_UP):
                work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                held = work()
        except RuntimeError as error:
            torch.cuda.synchronize()
            return self._timed(work), f"without a CUDA graph: {reason(error)}"

        def replay() -> object:
            graph.replay()
            return held  # the graph writes to it again and again

        once = self._timed(replay)
        for _ in range(WARM_UP):
            once()
        return once, ""

    def _timed(self, run: Callable[[], object]) -> Callable[[], float]:
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def once() -> float:
            self.flush.zero_()
            start.record()
            run()
            stop.record()
            stop.synchronize()
            return float(start.elapsed_time(stop))

        return once


def measure_peaks(stopwatch: CudaStopwatch, rounds: int) -> Peaks:
    """The best of some copies and products, on random numbers (zeros are faster)."""
    source = torch.randint(256, (COPY_BYTES // 8,), dtype=torch.int64, device="cuda")
    target = torch.empty_like(source)
    a, b = (torch.randn(PRODUCT, PRODUCT, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    copy, _ = stopwatch.ready(lambda: (target.copy_(source),))
    product, _ = stopwatch.ready(lambda: (a @ b,))
    copy_ms, product_ms = (min(once() for _ in range(rounds)) for once in (copy, product))
    return Peaks(bandwidth=2e3 * COPY_BYTES / copy_ms, arithmetic=2e3 * PRODUCT**3 / product_ms)
