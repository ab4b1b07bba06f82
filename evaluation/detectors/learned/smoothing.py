"""The average over the latest rows: one odd batch is no failing run."""

import numpy as np

STEPS = 6.0  # what lies further back hardly counts
SHARE = 0.01  # of the rows of a log


class Smoothed:
    """Exponential average of a number over steps, so that rows that are far apart are hardly averaged.

    >>> smoothed = Smoothed()
    >>> smoothed.push(0.0, 0), round(smoothed.push(1.0, 1), 3), round(smoothed.push(1.0, 101), 3)
    (0.0, 0.154, 1.0)
    """

    def __init__(self) -> None:
        self.value, self.at, self.empty = 0.0, 0, True

    def push(self, value: float, step: int) -> float:
        """Take the next value in; the average."""
        if self.empty:
            self.value, self.empty = value, False
        else:
            self.value += -np.expm1(-max(0, step - self.at) / STEPS) * (value - self.value)
        self.at = step
        return float(self.value)


class SmoothedRows:
    """Exponential average over the latest hundredth of the rows so far, whatever the steps between them.

    >>> smoothed = SmoothedRows()
    >>> smoothed.push(0.0, 0), smoothed.push(1.0, 500)
    (0.0, 1.0)
    """

    def __init__(self) -> None:
        self.value, self.rows = 0.0, 0

    def push(self, value: float, step: int) -> float:
        """Take the next value in; the average."""
        self.rows += 1
        self.value += (value - self.value) / max(1.0, SHARE * self.rows)
        return self.value
