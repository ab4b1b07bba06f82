"""How long the rest of the work will take, estimated from what has been done."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic

REMEMBERED = (
    16  # bundles at least, that the estimate rests on; the costliest come first, and the next are like the last
)


@dataclass
class Eta:
    """Seconds for a unit of cost, from the bundles that have finished, the latest most.

    workers: that compute at once; None where it is not known, and the rate so far is used.
    """

    workers: int | None
    clock: Callable[[], float] = monotonic
    began: float = field(init=False)
    cost: float = 0.0
    seconds: float = 0.0
    wasted: float = 0.0
    done: float = 0.0
    bundles: int = 0
    start: float = 0.0  # the longest that a worker took besides its work: to start, and to report

    def __post_init__(self) -> None:
        self.began = self.clock()

    def finished(self, cost: float, seconds: float, beside: float = 0.0) -> None:
        """A bundle of this cost took a worker `seconds`, and `beside` more until it had begun and was reported."""
        keep = 1 - 1 / max(REMEMBERED, 4 * (self.workers or 1))
        self.cost, self.seconds = keep * self.cost + cost, keep * self.seconds + seconds
        self.wasted *= keep
        self.done += cost
        self.bundles += 1
        self.start = max(self.start, beside)
        if self.bundles > (self.workers or 0):  # every worker has to start once, which says nothing about the rest
            self.wasted += max(0.0, beside)

    def lost(self, seconds: float) -> None:
        """A worker was at a bundle so long, for nothing."""
        self.wasted += seconds

    def expected(self, cost: float) -> float | None:
        """Seconds for a bundle; None as long as none has finished."""
        return cost * self.seconds / self.cost if self.cost else None

    def left(self, waiting: float, largest: float, running: Iterable[tuple[float, float]]) -> float | None:
        """Seconds until all is done; None as long as nothing has finished.

        waiting: cost of what has not begun, largest: of its costliest. running: cost of each bundle that has, and
        seconds since. One that takes longer than it should is not about to end: it is expected to take as long
        again as it is late.
        """
        if not self.cost:
            return None
        rate = self.seconds / self.cost
        if self.workers is None:
            rest = waiting + sum(cost for cost, _ in running)
            return rest * (self.clock() - self.began) / self.done
        rests = [abs(cost * rate - elapsed) for cost, elapsed in running]
        evenly = (1 + self.wasted / self.seconds) * (waiting * rate + sum(rests)) / self.workers
        return max(evenly, largest * rate, max(rests, default=0.0))
