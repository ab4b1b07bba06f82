"""Subjects timed in turn, round after round, in one process: by the processor's clock, or a CUDA device's events."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import Tick

Work = Callable[[], Sequence[Tensor]]
WARM_UP = 3
FLUSH_BYTES = 256 * 2**20  # several times the second-level cache
COPY_BYTES = 2**31
PRODUCT = 8192  # rows and columns of a matrix


def processor_seconds(subjects: Mapping[str, Callable[[], object]], rounds: int, tick: Tick) -> dict[str, np.ndarray]:
    """Of each round of each subject, [rounds]; one round before them counts for nothing."""
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for done in range(-1, rounds):
        for name, work in subjects.items():
            start = process_time()
            work()
            if done >= 0:
                seconds[name].append(process_time() - start)
        tick(done + 1, rounds, "round")
    return {name: np.array(taken) for name, taken in seconds.items()}


def quartiles(values: np.ndarray, digits: int = 3) -> str:
    """The first and the third, in words."""
    low, high = np.quantile(values, (0.25, 0.75))
    return f"{low:.{digits}f} to {high:.{digits}f}"


def part(tick: Tick, done: int, parts: int) -> Tick:
    """Progress of one of several measurements of as many rounds, of which some are done."""
    return lambda so_far, rounds, what: tick(done * rounds + so_far, parts * rounds, what)


@dataclass(frozen=True)
class Subject:
    """`build` sets up and returns the work, which returns what it computed.

    left_out: why it isn't tried at all; empty where it is.
    """

    name: str
    build: Callable[[], Work]
    left_out: str = ""


@dataclass(frozen=True)
class Taken:
    """Milliseconds by round; None where the subject did not run, and the note says why."""

    ms: np.ndarray | None
    note: str = ""


class Stopwatch(Protocol):
    """Makes a function that does the work once and gives milliseconds, and a note on how it does that."""

    def ready(self, work: Work) -> tuple[Callable[[], float], str]:
        """Warm up; what is slow the first time is done."""
        ...


def take(subjects: Sequence[Subject], stopwatch: Stopwatch, rounds: int, tolerance: float) -> dict[str, Taken]:
    """Every subject's times, by name. All are ready before the first round, and take turns in each.

    A subject whose numbers differ from those of the first that ran, by more than tolerance times the
    largest of them, is not timed: the speed of a wrong result says nothing.
    """
    taken: dict[str, Taken] = {}
    ready: dict[str, Callable[[], float]] = {}
    first: Sequence[Tensor] = ()
    for subject in subjects:
        taken[subject.name] = Taken(None, subject.left_out)
        if subject.left_out:
            continue
        try:
            work = subject.build()
            found = [x.detach() for x in work()]
            first = first or found
            wrong = differs(found, first, tolerance)
            if wrong:
                taken[subject.name] = Taken(None, wrong)
                continue
            ready[subject.name], note = stopwatch.ready(work)
        except Exception as error:  # whatever a peer raises: that this machine doesn't have it is a result
            taken[subject.name] = Taken(None, f"did not run: {reason(error)}")
        else:
            taken[subject.name] = Taken(np.zeros(0), note)
    times: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(rounds):
        for name, once in ready.items():
            times[name].append(once())
    return taken | {name: Taken(np.array(ms), taken[name].note) for name, ms in times.items()}


def differs(found: Sequence[Tensor], first: Sequence[Tensor], tolerance: float) -> str:
    """How numbers are off, in words; empty where they are not. Shapes may differ in axes of length 1."""
    for index, (x, right) in enumerate(zip(found, first, strict=True)):
        x, right = x.reshape(-1).float(), right.reshape(-1).float()
        gap, largest = (x - right).abs().max().item(), right.abs().max().item()
        if not gap <= tolerance * largest:  # also where it is NaN
            return f"wrong: result {index} is off by {gap:.2g}, the largest number is {largest:.2g}"
    return ""


def reason(error: Exception) -> str:
    """Kind and first line of an error, short enough for a table."""
    line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {line[:120].replace('|', '/')}"


def cells(name: str, taken: dict[str, Taken], peers: Sequence[str], floor_ms: float) -> tuple[object, ...]:
    """Median and quartiles in ms, times the floor, and each peer's time over this one's; "" for what there isn't.

    A ratio is the median over rounds of the ratio within a round. The note comes last.
    """
    own = taken[name]
    if own.ms is None:
        return ("", "", "", *("" for _ in peers), own.note)
    low, middle, high = (float(x) for x in np.quantile(own.ms, (0.25, 0.5, 0.75)))
    ratios = [
        "" if peer not in taken or (theirs := taken[peer].ms) is None else float(np.median(theirs / own.ms))
        for peer in peers
    ]
    return (middle, f"{low:.3f} to {high:.3f}", middle / floor_ms, *ratios, own.note)


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
            return held, work  # the graph writes to the one again and again, and reads what the other holds

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
