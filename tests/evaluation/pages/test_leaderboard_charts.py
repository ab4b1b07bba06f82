"""The leaderboard's charts: curves stand where their numbers say, in the page's colours, under their names."""

import re
from typing import Any

import pytest

from trainwreck.evaluation.pages.leaderboard.charts import SIZE, of_entry, overview

LEFT, RIGHT, LOW, HIGH = (0.12 * SIZE[0], 0.95 * SIZE[0], 0.853 * SIZE[1], 0.063 * SIZE[1])


def entry(name: str, style: int | str = 0) -> dict[str, Any]:
    share = {"value": 0.1, "low": 0.0, "high": 0.3}
    events = {event: {"steps": [0.0, 5.0], "share": [0.0, 0.25]} for event in ("stopped_before", "lost")}
    detected = {"steps": [0.0, 5.0, 10.0], "value": [0.0, 0.5, 1.0], "low": [0.0, 0.2, 0.8], "high": [0.1, 0.9, 1.0]}
    card = {
        "curves": {
            "operating": {"stopped": [0.0, 0.1], "recall": [0.5, 1.0]},
            "alarm_delay": {"rate": [0.0, 1.0, 100.0, None], "delay": [1.0, 0.5, 0.0, 1.0]},
        },
        "points": {
            "0.05": {
                "recall": {"value": 0.5, "low": 0.25, "high": 0.75, "stopped": share},
                "delay": {"from_onset": {"detected_by": detected, "incidence": events}},
            }
        },
    }
    return {"detector": name, "style": style, "card": card}


def curve(chart: str, name: str) -> list[tuple[float, float]]:
    """Points of the first path under a name."""
    path = re.search(rf'<title>{re.escape(name)}</title>\s*<path d="([^"]*)"', chart)
    assert path
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", path[1])]


def test_a_line_goes_through_its_points() -> None:
    _, (_, _, delay), (_, _, against) = overview([entry("mine")], "full")
    middle = (LEFT + RIGHT) / 2, (LOW + HIGH) / 2
    points = curve(delay, "mine")
    assert points[:3] == [pytest.approx(p, abs=0.01) for p in ((LEFT, LOW), middle, (RIGHT, HIGH))]
    points = curve(against, "mine")
    assert len(points) == 3, "what is not known is left out"
    assert points[0] == pytest.approx((LEFT, HIGH), abs=0.01), "0 has a place on a logarithmic axis"
    assert points[2] == pytest.approx((RIGHT, LOW), abs=0.01)
    assert LEFT < points[1][0] < RIGHT


def test_steps_hold_their_value_and_the_dot_is_the_score_within_the_budget() -> None:
    (_, _, chart), *_ = overview([entry("mine"), entry("other one", "other")], "full")
    corners = [y for _, y in curve(chart, "mine")]
    assert sorted({round(y, 1) for y in corners}, reverse=True) == [round((LOW + HIGH) / 2, 1), round(HIGH, 1)]
    assert curve(chart, "mine")[-1][0] == pytest.approx(RIGHT, abs=0.01)
    across = curve(chart, "mine, 5% stopped")
    assert across[0][1] == across[1][1] == pytest.approx((LOW + HIGH) / 2, abs=0.01)
    assert "other one, 5%" not in chart


def test_a_chart_brings_no_markup_no_address_and_no_colour_of_its_own() -> None:
    evil = "<b>#0072b2</b>"
    for chart in (*(chart for _, _, chart in overview([entry(evil)], "full")), *of_entry(entry(evil), "full")):
        assert evil not in chart
        assert not re.search(r"https?://|url\(|font-family|<style", chart)
        assert not re.search(r'style="[^"]*#[0-9a-f]{6}', chart)
        assert chart.startswith('<svg viewBox="0 0 420 300" role="img" aria-label="')
        assert chart.endswith("</svg>")
    assert "var(--c0)" in of_entry(entry(evil), "full")[0]
    assert "&lt;b&gt;#0072b2" in overview([entry(evil)], "full")[0][2], "a name stands as it is"


def test_the_same_numbers_give_the_same_chart() -> None:
    assert of_entry(entry("mine"), "full") == of_entry(entry("mine"), "full")


def test_nothing_to_draw_is_an_empty_frame() -> None:
    assert all("<title>" not in chart for _, _, chart in overview([], "full"))
