"""Line charts as inline SVG: numbers in, markup out. Colours come from the page's style sheet, by class.

420 by 300 units, so that 12-unit text is still readable where a phone shows the chart at full width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 46, 22, 16, 44
ZERO = 32  # units that a log axis keeps apart for 0


@dataclass(frozen=True)
class Axis:
    """From value to place. low, high: ends; of a log axis both positive, with 0 in a slot of its own before `low`."""

    low: float
    high: float
    log: bool = False

    def share(self, value: float, zero: float) -> float:
        """Place of a value along the axis, 0 to 1. zero: share that the slot of 0 takes."""
        if not self.log:
            return (min(max(value, self.low), self.high) - self.low) / ((self.high - self.low) or 1.0)
        if value <= 0:
            return 0.0
        value = min(max(value, self.low), self.high)
        return zero + (1.0 - zero) * math.log(value / self.low) / (math.log(self.high / self.low) or 1.0)

    def ticks(self) -> list[float]:
        """Where a number stands."""
        if self.log:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            return [0.0, *(10.0**power for power in range(first, last + 1))]
        return nice(self.low, self.high)


def nice(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers from low to high.

    >>> nice(0.0, 1.0), nice(0.0, 399.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 100.0, 200.0, 300.0])
    """
    span = (high - low) or 1.0
    step = 10.0 ** math.floor(math.log10(span / count))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= count + 0.5)
    first = math.ceil(low / step - 1e-9)
    return [round((first + i) * step, 10) for i in range(int((high - first * step) / step + 1e-9) + 1)]


def log_axis(values: Sequence[float], high: float | None = None) -> Axis:
    """Whole decades around the positive values, four at most below the top."""
    positive = [value for value in values if value > 0 and math.isfinite(value)]
    top = 10.0 ** math.ceil(math.log10(high or max(positive, default=1.0)) - 1e-9)
    bottom = 10.0 ** math.floor(math.log10(min(positive, default=top / 100)) + 1e-9)
    return Axis(max(min(bottom, top / 10), top / 1e4), top, log=True)


@dataclass
class Chart:
    """A frame with axes to draw lines into. percent: which axes read in per cent."""

    x: Axis
    y: Axis
    x_label: str
    y_label: str
    percent: str = ""
    parts: list[str] = field(default_factory=list)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Units of a point."""
        width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        across = self.x.share(x, ZERO / width) * width
        return round(LEFT + across, 1), round(HEIGHT - BOTTOM - self.y.share(y, ZERO / height) * height, 1)

    def line(self, xs: Sequence[float], ys: Sequence[float], name: str, style: str, *, steps: bool = False) -> None:
        """A line, or steps that hold each value until the next, the last to the end. name: shown under the pointer."""
        path = ""
        for x, y in zip(xs, ys, strict=True):
            across, up = self.at(x, y)
            path += f"M{across:g} {up:g}" if not path else (f"H{across:g}V{up:g}" if steps else f"L{across:g} {up:g}")
        if steps and path:
            path += f"H{WIDTH - RIGHT}"
        if path:
            self.parts.append(f'<path class="{escape(style)}" d="{path}"><title>{escape(name)}</title></path>')

    def band(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], style: str) -> None:
        """The area between two lines."""
        there = [self.at(x, y) for x, y in zip(xs, high, strict=True)]
        back = [self.at(x, y) for x, y in zip(xs, low, strict=True)]
        points = " ".join(f"{across:g},{up:g}" for across, up in [*there, *reversed(back)])
        self.parts.append(f'<polygon class="{escape(style)}" points="{points}"/>')

    def cross(self, x: Sequence[float], y: Sequence[float], name: str, style: str) -> None:
        """A point with its intervals. x, y: value, low, high."""
        (across, up), (left, low), (right, high) = (self.at(x[i], y[i]) for i in range(3))
        self.parts.append(
            f'<g class="{escape(style)}"><title>{escape(name)}</title><path d="M{left:g} {up:g}H{right:g}M{across:g} '
            f'{low:g}V{high:g}"/><circle cx="{across:g}" cy="{up:g}" r="3.5"/></g>'
        )

    def upright(self, x: float, text: str) -> None:
        """A dashed line at x with a word at its top."""
        across, top = self.at(x, self.y.high)
        self.parts.append(
            f'<path class="mark" d="M{across:g} {HEIGHT - BOTTOM}V{top:g}"/>'
            f'<text class="small" x="{across + 3:g}" y="{top + 9:g}">{escape(text)}</text>'
        )

    def svg(self, label: str) -> Markup:
        """The chart. label: what a reader who can't see it is told."""
        frame = [f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>']
        for value in self.x.ticks():
            across, _ = self.at(value, self.y.low)
            frame.append(f'<path class="grid" d="M{across:g} {TOP}V{HEIGHT - BOTTOM}"/>')
            text = _written(value, "x" in self.percent)
            frame.append(f'<text class="x" x="{across:g}" y="{HEIGHT - BOTTOM + 15}">{text}</text>')
        for value in self.y.ticks():
            _, up = self.at(self.x.low, value)
            frame.append(f'<path class="grid" d="M{LEFT} {up:g}H{WIDTH - RIGHT}"/>')
            frame.append(f'<text class="y" x="{LEFT - 5}" y="{up + 4:g}">{_written(value, "y" in self.percent)}</text>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        frame.append(f'<text class="x" x="{middle:g}" y="{HEIGHT - 8}">{escape(self.x_label)}</text>')
        frame.append(f'<text class="small" x="{LEFT + 4}" y="{TOP - 5}">{escape(self.y_label)}</text>')
        inside = "".join(frame + self.parts)
        return Markup(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">{inside}</svg>')


def interval_bar(value: float, low: float, high: float) -> Markup:
    """A value from 0 to 1 with its whiskers, as wide as a cell."""
    left, at, right = (round(4 + 92 * min(max(x, 0.0), 1.0), 1) for x in (low, value, high))
    return Markup(
        f'<svg class="bar" viewBox="0 0 100 12" aria-hidden="true"><path class="grid" d="M4 1V11M50 1V11M96 1V11"/>'
        f'<path class="whisker" d="M{left:g} 6H{right:g}"/><circle cx="{at:g}" cy="6" r="3.5"/></svg>'
    )


def _written(value: float, percent: bool) -> str:
    return f"{value * 100:g} %" if percent else f"{value:g}"
