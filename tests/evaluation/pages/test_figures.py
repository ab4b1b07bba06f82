"""Pictures of runs: nothing blank, nothing clipped, every panel with its unit, every clock and alarm marked."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread

from trainwreck.evaluation.dataset.schema import BY_NAME, SIGNALS, Axis, Role
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.registry import builtin_detectors
from trainwreck.evaluation.pages.figures import CLOCKS, COLOURS, DASHES, Story, draw, reduced, save, unit

CLOCK_STEPS = {"s": 30, "v": 44, "cure": 50, "p": 70}
ALARMS = {"zclip": 61, "playbook": 33, "nonfinite_loss": 90}


@pytest.fixture
def make_story(make_trace: Any) -> Callable[..., Story]:
    def make(telling: str = "layer_grad_norm", **changed: Any) -> Story:
        traces = {"faulty": make_trace("f", seed=1), "twin": make_trace("t", seed=2), "cured": make_trace("c", seed=3)}
        facts = {"traces": traces, "steps": CLOCK_STEPS, "alarms": ALARMS} | changed
        return Story("high_lr, clear, seed 0", telling=telling, **facts)

    return make


def pixels(figure: Figure) -> np.ndarray:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=100)
    file.seek(0)
    return imread(file)[..., :3]


def has_colour(image: np.ndarray, colour: str) -> bool:
    return bool((np.abs(image - np.array(to_rgb(colour))).max(-1) < 0.12).any())


def panel_of(figure: Figure, title: str) -> Axes:
    (found,) = [axis for axis in figure.axes if axis.get_title(loc="left").startswith(title)]
    return found


def verticals(axis: Axes) -> list[float]:
    """Where lines from bottom to top stand."""
    return [x[0] for x, y in (line.get_data() for line in axis.lines) if list(y) == [0, 1] and x[0] == x[1]]


def assert_nothing_clipped(figure: Figure) -> None:
    FigureCanvasAgg(figure).draw()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= 0


def test_every_curve_and_mark_leaves_its_colour(make_story: Callable[..., Story]) -> None:
    image = pixels(draw(make_story()))
    for colour in [*COLOURS.values(), *(colour for _, colour, _ in CLOCKS.values()), "#E69F00"]:
        assert has_colour(image, colour), colour
    without = pixels(draw(make_story(traces={"faulty": make_story().traces["faulty"]}, steps={}, alarms={})))
    assert has_colour(without, COLOURS["faulty"])
    assert not has_colour(without, COLOURS["twin"])


def test_as_svg_it_has_its_words_and_curves(make_story: Callable[..., Story]) -> None:
    file = BytesIO()
    draw(make_story()).savefig(file, format="svg")
    paths = ET.fromstring(file.getvalue()).iter("{http://www.w3.org/2000/svg}path")
    drawn = {style for path in paths if "stroke: " in (style := path.get("style", ""))}
    for colour in COLOURS.values():
        assert any(colour.lower() in style.lower() for style in drawn)


@pytest.mark.parametrize("name", BY_NAME)
def test_every_signal_can_be_the_most_diagnostic(name: str, make_story: Callable[..., Story]) -> None:
    """Panels for loss, gradient norm and it, each with its unit."""
    figure = draw(make_story(name))
    *panels, alarms = figure.axes
    third = name if name not in ("loss", "grad_norm") else "validation_loss"
    for axis, shown in zip(panels, ("loss", "grad_norm", third), strict=True):
        title = axis.get_title(loc="left")
        assert title.startswith(shown.replace("_", " "))
        assert title.endswith(f"({unit(shown)})")
        assert not title.endswith(("(1)", "(s)", "/s)", "/token)")), "in words"
    assert alarms.get_xlabel() == "step"


# Of each kind of signal the one with the longest title: to lay a figure out takes most of what it takes to draw it.
LONGEST = {s.axis: s.name for s in sorted(BY_NAME.values(), key=lambda s: len(f"{s.name} ({unit(s.name)})"))}


@pytest.mark.parametrize("name", LONGEST.values())
def test_the_longest_titles_are_not_cut_off(name: str, make_story: Callable[..., Story]) -> None:
    assert_nothing_clipped(draw(make_story(name)))


def test_the_losses_of_runs_on_rewards_are_none_of_tokens(make_story: Callable[..., Story]) -> None:
    story = make_story(telling="validation_loss", alarms={})
    for trace in story.traces.values():
        trace.objective = "policy"
    titles = [axis.get_title(loc="left") for axis in draw(story).figure.axes]
    assert titles[0] == "loss (nats per token, then policy loss)"
    assert titles[-1] == "validation loss (1 less the mean reward)"
    assert unit("loss") == "nats per token"


def test_clocks_are_in_every_panel_and_the_legend_names_them(make_story: Callable[..., Story]) -> None:
    figure = draw(make_story())
    for axis in figure.axes:
        assert sorted(verticals(axis)) == sorted(CLOCK_STEPS.values())
    words = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert set(words) == {
        "faulty", "twin", "cured", "onset = 30", "visible = 44", "cure = 50", "point of no return = 70"
    }  # fmt: skip
    assert len(words) == 7, "each once"
    assert [line.get_linestyle() for line in figure.axes[0].lines[:3]] == ["--", "--", "-"]
    assert len(set(map(str, DASHES.values()))) == 3, "told apart without colours"


@pytest.mark.parametrize("onset", [0, 30])
def test_a_clock_that_does_not_exist_is_not_drawn(onset: int, make_story: Callable[..., Story]) -> None:
    figure = draw(make_story(steps={"s": onset, "v": None}))
    assert all(verticals(axis) == [onset] for axis in figure.axes)


def test_alarms_are_marked_at_their_step_the_first_on_top(make_story: Callable[..., Story]) -> None:
    axis = panel_of(draw(make_story()), "first alarms")
    (marks,) = axis.collections
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert names == sorted(ALARMS, key=lambda name: ALARMS[name])
    assert dict(zip(names, np.asarray(marks.get_offsets())[:, 0], strict=True)) == ALARMS
    low, high = axis.get_ylim()
    assert low > high, "counted from the top"
    assert len(draw(make_story(alarms={})).axes) == 3, "no empty row"


def test_long_names_are_neither_clipped_nor_on_top_of_each_other(make_story: Callable[..., Story]) -> None:
    alarms = {name: 5 * i for i, name in enumerate([*builtin_detectors(), "a_detector_with_a_name_of_forty_letters_"])}
    story = make_story("attention_mass_other_document", alarms=alarms)
    story.title = "a_scenario_with_a_name_of_forty_letters_, subtle, seed 2147483647"
    figure = draw(story)
    assert_nothing_clipped(figure)
    labels = panel_of(figure, "first alarms").get_yticklabels()
    assert len(labels) == len(alarms)
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 for below, above in pairwise(boxes))


def test_curves_are_the_numbers(make_story: Callable[..., Story]) -> None:
    story = make_story("validation_loss")
    figure = draw(story)
    for name in ("loss", "validation_loss"):
        curves = {line.get_label(): line for line in panel_of(figure, name.replace("_", " ")).lines}
        for role, trace in story.traces.items():
            steps, values = trace.evaluations if name == "validation_loss" else (np.arange(len(trace)), trace[name])
            np.testing.assert_array_equal(curves[role].get_xdata(), steps)
            np.testing.assert_array_equal(curves[role].get_ydata(), values.astype(np.float64))
            assert curves[role].get_color() == COLOURS[role]


def test_the_floor_is_a_line_under_both_losses(make_story: Callable[..., Story]) -> None:
    figure = draw(make_story("validation_loss", floor=1.25))
    for title, count in (("loss", 1), ("validation loss", 1), ("grad norm", 0)):
        assert sum(list(line.get_ydata()) == [1.25, 1.25] for line in panel_of(figure, title).lines) == count


def test_the_floor_of_losses_is_none_of_what_else_is_evaluated(make_story: Callable[..., Story]) -> None:
    lines = panel_of(draw(make_story("cache_gap", floor=1.25)), "cache gap").lines
    assert not any(list(line.get_ydata()) == [1.25, 1.25] for line in lines)


@pytest.mark.parametrize(
    ("telling", "start", "bad"),
    [("position_loss", start, bad) for start in (0, 60, 119) for bad in (np.nan, np.inf, -np.inf)]
    + [(name, 60, np.inf) for name in ("layer_grad_norm", "head_entropy", "age_loss", "validation_loss", "dead_share")],
)
def test_a_run_that_goes_non_finite_is_drawn_and_marked(
    telling: str, start: int, bad: float, make_story: Callable[..., Story]
) -> None:
    story = make_story(telling)
    faulty = story.traces["faulty"]
    for values in faulty.signals.values():
        values[start:] = bad
    figure = draw(story)
    assert has_colour(pixels(figure), COLOURS["twin"])
    for axis in figure.axes[:2]:
        (cross,) = [line for line in axis.lines if line.get_marker() == "x"]
        assert (list(cross.get_xdata()), cross.get_color()) == ([start], COLOURS["faulty"])
        (curve,) = [line for line in axis.lines if line.get_label() == "faulty"]
        np.testing.assert_array_equal(np.isfinite(curve.get_ydata()), np.arange(120) < start)


@pytest.mark.parametrize("telling", ["adapter_norm", "fresh_loss"])
def test_what_a_run_has_not_is_not_called_nan(telling: str, make_story: Callable[..., Story]) -> None:
    """Adapters that are added in mid-run have no norm before; a twin without any has none at all."""
    story = make_story(telling)
    for role, first in (("faulty", 40), ("twin", 120), ("cured", 0)):
        values = np.full(120, np.nan, np.float32)
        values[first:] = 0.5
        story.traces[role].signals[telling] = values
        story.traces[role].evaluated[:] = True
    panel = draw(story).axes[2]
    assert not [line for line in panel.lines if line.get_marker() == "x"]
    assert not panel.texts
    drawn = {line.get_label(): list(line.get_xdata()) for line in panel.lines}
    assert drawn["faulty"] == list(range(40, 120))
    assert drawn["twin"] == []


def test_a_finite_run_has_no_cross(make_story: Callable[..., Story]) -> None:
    assert not [line for axis in draw(make_story()).axes for line in axis.lines if line.get_marker() == "x"]


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
def test_one_curve_for_a_signal(signal: Any, make_trace: Any) -> None:
    trace: Trace = make_trace("r")
    curve, values = reduced(trace, signal.name), trace[signal.name].astype(np.float64)
    for t in range(0, len(trace), 17):
        if signal.axis is Axis.SCALAR:
            wanted = values[t]
        elif signal.axis is Axis.HEADS:
            wanted = max(values[t]) - min(values[t])
        elif signal.axis in (Axis.POSITIONS, Axis.AGES):
            wanted = (values[t][0] + values[t][1]) / 2 - (values[t][-2] + values[t][-1]) / 2
        elif signal.role is Role.HASH:
            wanted = 0.0  # of one rank
        else:
            wanted = max(values[t])
        np.testing.assert_equal(curve[t], wanted)


def test_ages_that_a_batch_has_not_are_left_out(make_trace: Any) -> None:
    trace: Trace = make_trace("r")
    ages = trace["age_loss"].astype(np.float64)
    trace["age_loss"][:, -1] = np.nan
    trace["age_loss"][3, -2:] = np.nan
    curve = reduced(trace, "age_loss")
    assert np.isnan(curve[3])
    assert curve[4] == (ages[4, 0] + ages[4, 1]) / 2 - ages[4, -2]


def test_save_writes_a_png_and_nothing_else(make_story: Callable[..., Story], tmp_path: Path) -> None:
    save(make_story(), tmp_path / "pictures" / "a.png")
    assert [file.name for file in (tmp_path / "pictures").iterdir()] == ["a.png"]
    assert has_colour(imread(tmp_path / "pictures" / "a.png")[..., :3], COLOURS["twin"])


@pytest.mark.parametrize("name", ["$\\frac{$.py", "$x$", "two\nlines", "\x1b[31m", "a\ud800"])
def test_a_name_is_drawn_as_it_is(name: str, make_story: Callable[..., Story]) -> None:
    """Not as mathematics, which need not parse."""
    story = make_story(alarms={name: 30})
    story.title = name
    figure = draw(story)
    pixels(figure)
    shown = figure.axes[-1].get_yticklabels()[0].get_text()
    assert shown.isprintable()
    assert figure.get_suptitle() == shown
    if name.isprintable():
        assert shown == name
