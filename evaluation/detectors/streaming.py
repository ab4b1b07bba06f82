"""Running statistics that detectors share: windows and exponential averages, one number at a time."""

import math
from collections import deque
from collections.abc import Sequence


def number(value: float | None) -> float:
    """The value of a scalar signal; NaN where nothing was logged, which every comparison is blind to."""
    return math.nan if value is None else value


def moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean and population standard deviation. A non-finite value makes the second non-finite.

    >>> moments([1.0, 3.0])
    (2.0, 1.0)
    """
    mean = sum(values) / len(values)
    return mean, math.dist(values, [mean] * len(values)) / math.sqrt(len(values))


class Window:
    """The last `size` values, oldest first.

    >>> window = Window(2)
    >>> for value in (1.0, 2.0, 4.0):
    ...     window.push(value)
    >>> window.full, window.mean_and_std()
    (True, (3.0, 1.0))
    """

    def __init__(self, size: int) -> None:
        self.values: deque[float] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def full(self) -> bool:
        return len(self.values) == self.values.maxlen

    def push(self, value: float) -> None:
        self.values.append(value)

    def mean_and_std(self) -> tuple[float, float]:
        return moments(self.values)


class ExponentialMoments:
    """Exponentially weighted mean and variance; `span` values carry about 86 % of the weight.

    >>> average = ExponentialMoments(span=3)
    >>> for value in (2.0, 4.0):
    ...     average.push(value)
    >>> average.mean, average.variance, average.count
    (3.0, 1.0, 2)
    """

    def __init__(self, span: int) -> None:
        self.weight = 2.0 / (span + 1)
        self.mean = self.variance = 0.0
        self.count = 0

    def push(self, value: float) -> None:
        self.count += 1
        if self.count == 1:
            self.mean = value
            return
        step = self.weight * (value - self.mean)
        self.variance = (1.0 - self.weight) * (self.variance + step * (value - self.mean))
        self.mean += step

    @property
    def std(self) -> float:
        return math.sqrt(self.variance)
