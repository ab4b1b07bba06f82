"""Charts: values stand where their axes say."""

import doctest
import re

import pytest

from trainwreck.evaluation.pages.leaderboard import svg
from trainwreck.evaluation.pages.leaderboard.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    ZERO,
    Axis,
    Chart,
    log_axis,
)


def test_examples_in_docstrings_run() -> None:
    assert doctest.testmod(svg).attempted
    assert not doctest.testmod(svg).failed


def test_ends_of_the_axes_are_corners_of_the_frame() -> None:
    chart = Chart(Axis(0.0, 50.0), Axis(0.0, 1.0), "x", "y")
    assert chart.at(0.0, 0.0) == (LEFT, HEIGHT - BOTTOM)
    assert chart.at(50.0, 1.0) == (WIDTH - RIGHT, TOP)
    assert chart.at(25.0, 0.5) == ((LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2)
    assert chart.at(99.0, -1.0) == (WIDTH - RIGHT, HEIGHT - BOTTOM), "nothing leaves the frame"


def test_a_log_axis_has_a_place_for_nothing() -> None:
    axis = log_axis([0.0, 0.02, 0.5], 1.0)
    assert (axis.low, axis.high) == (0.01, 1.0)
    chart = Chart(axis, Axis(0.0, 1.0), "x", "y")
    places = [chart.at(value, 0.0)[0] for value in (0.0, 0.01, 0.1, 1.0)]
    assert places == [LEFT, LEFT + ZERO, (LEFT + ZERO + WIDTH - RIGHT) / 2, WIDTH - RIGHT]
    assert axis.ticks() == pytest.approx([0.0, 0.01, 0.1, 1.0])
    assert log_axis([], 1.0).low < 1.0
    assert log_axis([1e-9, 1.0]).low == pytest.approx(1e-4), "four decades at most"


def test_a_line_goes_through_its_points_and_steps_hold_their_value() -> None:
    chart = Chart(Axis(0.0, 10.0), Axis(0.0, 1.0), "x", "y")
    chart.line([0.0, 5.0], [0.0, 1.0], "a <b>", "line s0")
    chart.line([0.0, 5.0], [0.0, 1.0], "b", "line s1", steps=True)
    chart.line([], [], "nothing", "line s2")
    found = chart.svg("what it shows")
    middle, low = (LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM
    assert f'd="M{LEFT} {low}L{middle:g} {TOP}"' in found
    assert f'd="M{LEFT} {low}H{middle:g}V{TOP}H{WIDTH - RIGHT}"' in found
    assert "<title>a &lt;b&gt;</title>" in found
    assert "nothing" not in found
    assert 'aria-label="what it shows"' in found
    numbers = re.findall(r'<text class="x" x="([\d.]+)" y="\d+">([\d.]+)</text>', found)
    assert (f"{LEFT}", "0") in numbers
