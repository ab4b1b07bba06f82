"""How a loss has fallen since its start, and how much of that it has given back: whatever its unit, level or interval.

A loss is judged by its own fall, from the mean of its first rows to its least level, so that a factor or a constant
on it changes nothing. What lasts is measured as a share of the run so far, in rows and in steps, and the smaller
counts, since many logs have more rows at the start. `trainwreck diagnose` reads whole logs by the same measures.
"""

import math
from collections import deque

FEWEST = 16  # rows of the loss, under which its shape is not judged
SMOOTH = 25  # rows of a level, at most: a twentieth of the rows so far
NEIGHBOURS = 63  # differences of neighbouring rows that the noise is taken from, at most
ENOUGH = 5  # and at least: before, the noise is not known
STILL = 3.0  # a fall under so many times the noise of a row may be none
CLEAR = 2.0  # times the noise of a row, that a rise of the level is over
LOUD = 3.0  # the same, where the fall itself is within the noise
REST = 0.01  # of the fall, which is next to nothing
OFF = 0.1  # share of the fall by which the level is off its least
GIVEN_BACK = 0.02  # share of the fall given back, times the share of the run: too much is all of it for 2 % of the run
NORMAL = 0.954  # median difference of two draws of a normal variate, in its standard deviations


def middle(values: list[float]) -> float:
    """Median; NaN of nothing."""
    half, ordered = len(values) // 2, sorted(values)
    if not values:
        return math.nan
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2.0


class Fall:
    """The state of one loss after its latest finite value; values that are not finite are left out by the caller.

    start, level, least: of the loss. noise: of a row about its trend. off: share of the fall by which the level is over
    its least now. given_back: mean of `off`, at most 1, over the present stretch that is clearly off the least level,
    times the share of the run that the stretch is. idle: the share of the run since the level last fell by 1 % of all
    that it fell. All are NaN or 0 where they are not known.

    >>> fall = Fall()
    >>> for step, loss in enumerate([9.0] * 3 + [4.0] * 37 + [9.0] * 10):
    ...     fall.push(step, loss)
    >>> round(fall.off, 2), round(fall.given_back, 2), round(fall.idle, 2)
    (1.0, 0.16, 0.9)
    """

    def __init__(self, fewest: int = FEWEST, narrowest: int = 3) -> None:
        self.fewest, self.narrowest = fewest, narrowest
        self.rows = self.off_rows = 0
        self.start = self.level = self.least = self.noise = self.off = math.nan
        self.recent: deque[float] = deque(maxlen=SMOOTH)
        self.differences: deque[float] = deque(maxlen=NEIGHBOURS)
        self.first: list[float] = []
        self.first_step = self.step = self.off_step = self.progress_step = self.progress_row = 0
        self.off_sum, self.progress_level = 0.0, math.inf

    def push(self, step: int, value: float) -> None:
        """Take a finite value in."""
        self.rows += 1
        if self.recent:
            self.differences.append(value - self.recent[-1])
        self.recent.append(value)
        if len(self.first) < 3:
            self.first.append(value)
            self.start = max(sum(self.first) / len(self.first), self.first[0])
        self.first_step, self.step = (step if self.rows == 1 else self.first_step), step
        width = max(self.narrowest, min(SMOOTH, self.rows // 20))
        self.level = middle(list(self.recent)[-width:])
        if len(self.differences) >= ENOUGH:
            trend = middle(list(self.differences))
            self.noise = middle([abs(one - trend) for one in self.differences]) / NORMAL
        self.least = self.level if math.isnan(self.least) else min(self.least, self.level)
        self._see_rise()
        self._see_progress()

    @property
    def fall(self) -> float:
        """From the start to the least level; 0 or less where it has not fallen."""
        return self.start - self.least

    @property
    def fallen(self) -> float:
        """The fall over `STILL` times the noise of a row: under 1 it may be none. NaN while the noise is not known."""
        if self.noise == 0.0:
            return math.inf if self.fall > 0.0 else 0.0
        return self.fall / (STILL * self.noise)

    @property
    def given_back(self) -> float:
        if self.rows < self.fewest or not self.off_rows:
            return 0.0
        return self.off_sum / self.off_rows * self._share(self.off_rows, self.off_step)

    @property
    def idle(self) -> float:
        if self.rows < self.fewest:
            return 0.0
        return self._share(self.rows - self.progress_row, self.progress_step)

    def _share(self, rows: int, since: int) -> float:
        steps = (self.step - since) / max(1, self.step - self.first_step)
        return min(rows / self.rows, steps)

    def _see_rise(self) -> None:
        gap = self.level - self.least
        self.off = gap / self.fall if self.fall > 0.0 else math.nan
        clear = not gap <= self.noise * (CLEAR if self.fallen > 1.0 else LOUD)
        if not (self.off > OFF and clear):
            self.off_rows, self.off_sum = 0, 0.0
            return
        if not self.off_rows:
            self.off_step = self.step
        self.off_rows += 1
        self.off_sum += min(1.0, self.off)

    def _see_progress(self) -> None:
        lower = self.progress_level - self.level
        # A level of few rows moves by its noise; without a fall beyond that there is no progress either.
        beyond = not self.start - self.level <= STILL * self.noise / math.sqrt(len(self.recent))
        if self.rows <= 2 or (lower > REST * (self.start - self.level) and beyond):
            self.progress_level, self.progress_row, self.progress_step = self.level, self.rows, self.step
