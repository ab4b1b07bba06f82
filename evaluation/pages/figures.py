"""Pictures of runs: faulty, twin and cured over the steps, with onset, visible step, cure and alarms marked."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainwreck.evaluation.dataset.schema import BY_NAME, EVALUATIONS, Axis, Role, RunKind
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import unknown
from trainwreck.evaluation.replay.rows import logged_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can tell apart.
COLOURS = {"faulty": "#D55E00", "twin": "#0072B2", "cured": "#009E73"}
DASHES = {"faulty": "-", "twin": (0, (5, 1.5)), "cured": (0, (1.5, 1))}  # for those who print without colours
CLOCKS = {  # key in Story.steps: name in the legend, colour, line style
    "s": ("onset", "#000000", "-"),
    "cure": ("cure", "#009E73", ":"),
    "v": ("visible", "#CC79A7", "--"),
    "p": ("point of no return", "#7A5600", "-."),
}
ALWAYS = ("loss", "grad_norm")
UNITS = {  # of the schema: in words
    "1": "no unit",
    "nats/token": "nats per token",
    "s": "seconds",
    "share": "share, 0 to 1",
    "tokens/s": "tokens per second",
}
OWN_UNITS = {  # of an objective, where they are others: signal to words
    "policy": {
        "loss": "nats per token, then policy loss",
        "validation_loss": "1 less the mean reward",
        "fresh_loss": "1 less the mean reward",
    }
}


@dataclass
class Story:
    """What one figure shows.

    steps: onset (s), visible step (v), point of no return (p) and cure, by the keys of CLOCKS.
    telling: the most diagnostic signal. signals: a panel for each; by default loss, gradient norm and `telling`.
    alarms: detector to its first alarm. called: what the curves of "faulty" are called (`curve_name`).
    """

    title: str
    traces: Mapping[str, Trace]  # "faulty", "twin", "cured"
    telling: str
    steps: Mapping[str, int | None] = field(default_factory=dict)
    alarms: Mapping[str, int] = field(default_factory=dict)
    floor: float | None = None
    signals: Sequence[str] = ()
    called: str = "faulty"


def curve_name(kind: str) -> str:
    """What the curves of a run of this kind are called beside those of twin and cure."""
    return {RunKind.IMPORTED.value: "run", RunKind.LOOK_ALIKE.value: "look-alike"}.get(kind, "faulty")


def draw(story: Story) -> "Figure":
    """A figure with a panel for each signal, and a row of alarms. Raises InputError for a signal that is none."""
    from matplotlib.figure import Figure

    signals = _signals(story)
    rows = len(signals) + (1 if story.alarms else 0)
    heights = [1.0] * len(signals) + ([0.18 + 0.11 * len(story.alarms)] if story.alarms else [])
    figure = Figure(figsize=(7.2, 1.75 * sum(heights) + 0.7), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, 1, sharex=True, height_ratios=heights))
    figure.suptitle(as_drawn(story.title), fontsize=11, parse_math=False)
    for axis, name in zip(axes, signals, strict=False):
        _panel(axis, story, name)
    if story.alarms:
        alarm_row(axes[-1], story.alarms)
    for axis in axes:
        _clocks(axis, story.steps, label=axis is axes[0])
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].legend(
        handles, labels, fontsize=7, ncols=len(labels), loc="lower right", bbox_to_anchor=(1.0, 1.1), frameon=False,
        columnspacing=1.2, handlelength=2.2,
    )  # fmt: skip
    axes[-1].set_xlabel("step", fontsize=8)
    return figure


def _signals(story: Story) -> list[str]:
    wanted = list(dict.fromkeys(story.signals)) or shown(story.telling)
    for name in wanted:
        if name not in BY_NAME:
            raise unknown("signal", name, BY_NAME)
    return wanted


def shown(telling: str) -> list[str]:
    """The three signals of a picture: loss, gradient norm and the most diagnostic one, or else the validation loss."""
    wanted = list(dict.fromkeys([*ALWAYS, telling]))
    return wanted if len(wanted) == 3 else [*wanted, "validation_loss"]


def caption(name: str) -> str:
    """What a signal's one curve is called; `unit` has its unit."""
    signal = BY_NAME[name]
    return name.replace("_", " ") + (", ranks with another" if signal.role is Role.HASH else WORDS[signal.axis])


def unit(name: str, objective: str = "") -> str:
    """The unit of a signal's one curve, in words. objective: of the run."""
    signal = BY_NAME[name]
    usual = "ranks" if signal.role is Role.HASH else UNITS.get(signal.unit, signal.unit)
    return OWN_UNITS.get(objective, {}).get(name, usual)


def gap_unit(objective: str = "") -> str:
    """What the difference of two validation losses is in, to be put behind the number. objective: of the runs.

    >>> gap_unit(), gap_unit("policy")
    ('nats', 'of mean reward')
    """
    return "of mean reward" if "reward" in unit("validation_loss", objective) else "nats"


def save(story: Story, path: Path) -> None:
    """Draw and write a PNG."""
    from trainwreck.evaluation.files import write_atomically

    figure = draw(story)
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=110))


def reduced(trace: Trace, name: str) -> np.ndarray:
    """One curve for a signal: the number itself, or what the layers, heads or positions have to say.

    The worst layer for norms, maxima and shares, the spread over heads, the late against the early
    positions. Units as the signal's; of a hash, how many ranks have another than the first.
    """
    values = trace[name].astype(np.float64)
    if values.ndim == 1:
        return values
    axis = BY_NAME[name].axis
    if BY_NAME[name].role is Role.HASH:
        return np.asarray((values[:, 1:] != values[:, :1]).sum(1), np.float64)
    if axis is Axis.HEADS:
        high, low = values.max(1), values.min(1)
    elif axis in (Axis.POSITIONS, Axis.AGES):
        high, low = _mean(values[:, :2]), _mean(values[:, -2:])
    elif axis is Axis.GROUPS:
        return np.asarray(np.fmax.reduce(values, 1))  # a model may lack a group
    else:
        return np.asarray(values.max(1))
    with np.errstate(invalid="ignore"):  # infinite on both sides
        return np.asarray(high - low)


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over the last axis of what is known, [S]; NaN where nothing is."""
    known = (~np.isnan(values)).sum(1)
    total = np.nansum(values, 1)
    return np.asarray(np.divide(total, known, out=np.full(len(values), np.nan), where=known > 0))


WORDS = {
    Axis.LAYERS: ", largest layer",
    Axis.BLOCKS: ", largest layer",
    Axis.HEADS: ", spread over heads",
    Axis.POSITIONS: ", early less late",
    Axis.AGES: ", early less late",
    Axis.RANKS: ", largest of the ranks",
    Axis.GROUPS: ", largest of the groups",
    Axis.SCALAR: "",
}


def _panel(axis: "Axes", story: Story, name: str) -> None:
    signal = BY_NAME[name]
    drawn = []
    for role in ("twin", "cured", "faulty"):
        if role not in story.traces:
            continue
        trace, called = story.traces[role], story.called if role == "faulty" else role
        curve = reduced(trace, name)
        steps = trace.steps
        if (logged := logged_at(trace, name)) is not None:
            steps, curve = steps[logged], curve[logged]
        finite = np.isfinite(curve)
        shown_values = np.where(finite, curve, np.nan)
        axis.plot(steps, shown_values, color=COLOURS[role], ls=DASHES[role], lw=1.1, label=called, alpha=0.9)
        drawn.append(curve[finite])
        if not finite.all():
            first = np.flatnonzero(~finite)[0]
            step, kind = int(steps[first]), "NaN" if np.isnan(curve[first]) else "infinite"
            here = axis.get_xaxis_transform()
            axis.plot([step], [0.96], "x", color=COLOURS[role], transform=here, ms=6, mew=2)
            axis.annotate(
                f"{called} is {kind} from step {step}", (step, 0.96), xytext=(6, -8 - 8 * len(drawn)), xycoords=here,
                textcoords="offset points", color=COLOURS[role], fontsize=6.5,
            )  # fmt: skip
    values = np.concatenate(drawn) if drawn else np.zeros(0)
    if signal.positive and wide(values):
        log_axis(axis, values)
    elif signal.unit == "share" and len(values):
        axis.set_ylim(-0.03, max(0.1, 1.06 * float(values.max())))
    if name in ("loss", *EVALUATIONS) and name.endswith("loss") and story.floor is not None:
        axis.axhline(story.floor, color="#999999", lw=0.8, ls="-.")
    trained_for = next(iter(story.traces.values())).objective
    axis.set_title(f"{caption(name)} ({unit(name, trained_for)})", fontsize=8, loc="left")
    axis.tick_params(which="both", labelsize=7)
    axis.grid(alpha=0.2, lw=0.5)


def wide(values: np.ndarray) -> bool:
    """Whether finite values are all positive, and the largest is over five times the least."""
    return bool(len(values) and values.min() > 0 and values.max() > 5 * values.min())


def log_axis(axis: "Axes", values: np.ndarray) -> None:
    """A logarithmic axis of values with the numbers as on other axes: 0.5, not 5 x 10^-1."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if values.max() < 300 * values.min() else (1,)))
    axis.yaxis.set_major_formatter(lambda value, place: f"{value:g}")
    axis.yaxis.set_minor_formatter(NullFormatter())


def _clocks(axis: "Axes", steps: Mapping[str, int | None], label: bool) -> None:
    for key, (name, colour, style) in CLOCKS.items():
        step = steps.get(key)
        if step is not None:
            axis.axvline(step, color=colour, ls=style, lw=0.9, label=f"{name} = {step}" if label else None)


def png_url(figure: "Figure", dpi: int) -> str:
    """A figure as a data URL of a PNG, for the src of an <img>."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def as_drawn(text: str) -> str:
    """A name that others gave, in one line; a question mark stands for a character that can not be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def alarm_row(axis: "Axes", alarms: Mapping[str, int], title: str = "first alarms") -> None:
    """A line of text a detector, with a mark at its first alarm, the earliest on top."""
    names: Sequence[str] = sorted(alarms, key=lambda name: alarms[name])
    axis.scatter([alarms[n] for n in names], range(len(names)), marker="v", s=14, color="#E69F00", zorder=3)
    axis.set_yticks(range(len(names)), [as_drawn(name) for name in names], fontsize=5.5, parse_math=False)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_title(title, fontsize=8, loc="left")
    axis.grid(alpha=0.2, lw=0.5, axis="x")
    axis.tick_params(axis="x", labelsize=7)
