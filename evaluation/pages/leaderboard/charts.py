"""The charts of the leaderboard's page: matplotlib's SVG inside the page, in the colours of its scheme."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from trainwreck.evaluation.constants import BUDGETS, HEADLINE_BUDGET, RATE_STEPS
from trainwreck.evaluation.leaderboard.columns import HEADLINE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (420, 300)  # points: text of 12 is readable where a phone shows a chart at full width
INKS: dict[int | str, str] = {  # what a colour is drawn as, by its name in the page's style sheet; a line's is a number
    0: "#0072b2", 1: "#d55e00", 2: "#009e73", 3: "#b8478f", 4: "#b07d00", 5: "#3a9bd1",
    "other": "#8c8c8c", "text": "#1a1a1a", "mute": "#595959", "line": "#d0d0d0",
}  # fmt: skip
DASHES: tuple[tuple[float, ...], ...] = ((), (9, 3), (3, 2), (9, 3, 2, 3), (14, 3), (2, 4))  # of a line of width 1
POINTS = 60  # of a curve of incidence
Card = dict[str, Any]
Curve = tuple[Sequence[float], Sequence[float]]


def overview(entries: Sequence[dict[str, Any]], profile: str) -> list[tuple[str, str, Markup]]:
    """Title, what it shows, and the chart. style of an entry: a key of INKS, a number or "other"."""
    drawn = sorted(entries, key=lambda entry: entry["style"] == "other", reverse=True)  # grey ones below the coloured
    return [
        (
            "Operating curves",
            "Best in-time recall at each share of healthy runs stopped, the threshold picked on these runs: a curve to "
            "look at. The dots are scores at 5 % stopped, the threshold from calibration runs, with both intervals.",
            _operating(drawn, f"Operating curves, {profile} profile: in-time recall against healthy runs stopped"),
        ),
        (
            "Delay",
            "Share of failing runs detected by so many steps after the onset, at 5 % stopped. Runs lost or stopped "
            "before stay in the denominator.",
            _delays(drawn, f"Delay curves, {profile} profile: cumulative share detected against steps after the onset"),
        ),
        (
            "False alarms against delay",
            "Over all thresholds: mean delay as a share of the time there was (a miss is all of it) against false "
            "alarms, each of which ends its run. Lower and further left is better.",
            _against(drawn, f"Delay against false alarms, {profile} profile"),
        ),
    ]


def of_entry(entry: dict[str, Any], profile: str) -> tuple[Markup, Markup]:
    """An entry's own operating curve, and what became of the failing runs under it."""
    alone = {**entry, "style": 0}
    name = entry["detector"]
    return (
        _operating([alone], f"Operating curve of {name}, {profile} profile"),
        _delays(
            [alone],
            f"What became of the failing runs under {name} by steps after the onset, {profile} profile",
            events=True,
        ),
    )


def _operating(entries: Sequence[dict[str, Any]], label: str) -> Markup:
    shares = [*BUDGETS, *(share for e in entries for share in e["card"]["curves"]["operating"]["stopped"])]
    axes = _frame("healthy runs stopped", "in-time recall")
    _log(axes, shares, 1.0, "{:.4g} %", 100)
    axes.yaxis.set_major_formatter(_form("{:g} %", 100))
    for budget in BUDGETS:
        axes.axvline(budget, color=INKS["mute"], lw=1, ls=(0, (2, 3)))
        axes.text(budget, 1.0, f" {budget:.0%}", fontsize=11, color=INKS["mute"], va="top")
    for entry in entries:
        curve = entry["card"]["curves"]["operating"]
        _line(axes, _held((curve["stopped"], curve["recall"]), 1.0), entry, drawstyle="steps-post")
        frozen = entry["card"]["points"][HEADLINE]["recall"]
        (x, *across), (y, *up) = (
            [part[end] for end in ("value", "low", "high")] for part in (frozen["stopped"], frozen)
        )
        if entry["style"] != "other" and None not in (x, *across, y, *up):
            look: dict[str, Any] = {"color": INKS[entry["style"]], "lw": 1}
            gid = f"{entry['detector']}, {HEADLINE_BUDGET:.0%} stopped"
            axes.plot([*across, math.nan, x, x], [y, y, math.nan, *up], gid=gid, **look)
            axes.plot(x, y, "o", ms=7, gid=gid, **look)
    return _inline(axes, label)


def _delays(entries: Sequence[dict[str, Any]], label: str, events: bool = False) -> Markup:
    """Share detected by step; with `events`, of one entry, its interval and the competing events as well."""
    detected = [entry["card"]["points"][HEADLINE]["delay"]["from_onset"]["detected_by"] for entry in entries]
    end = max((step for by in detected for step in by["steps"]), default=0.0) or 1.0
    axes = _frame("steps after the onset", "detected")
    axes.set_xlim(0.0, end)
    axes.yaxis.set_major_formatter(_form("{:g} %", 100))
    for entry, by in zip(entries, detected, strict=True):
        if events and None not in by["low"]:
            axes.fill_between(by["steps"], by["low"], by["high"], color=INKS[0], alpha=0.2, lw=0)
        for event, ink in (("stopped_before", 3), ("lost", 1)) if events else ():
            curve = _thinned(entry["card"]["points"][HEADLINE]["delay"]["from_onset"]["incidence"][event])
            _line(
                axes, _held(curve, end), {"detector": event.replace("_", " "), "style": ink},
                drawstyle="steps-post", lw=1.6, ls=(0, (4, 2.5)),
            )  # fmt: skip
        known = [(step, share) for step, share in zip(by["steps"], by["value"], strict=True) if share is not None]
        curve = [step for step, _ in known], [share for _, share in known]
        _line(axes, _held(curve, end), entry | {"detector": "detected"} if events else entry)
    return _inline(axes, label)


def _against(entries: Sequence[dict[str, Any]], label: str) -> Markup:
    curves = [entry["card"]["curves"]["alarm_delay"] for entry in entries]
    axes = _frame(f"false alarms per {RATE_STEPS:,} steps watched", "delay")
    _log(axes, [rate for curve in curves for rate in curve["rate"] if rate is not None])
    axes.yaxis.set_major_formatter(_form("{:g} %", 100))
    for entry, curve in zip(entries, curves, strict=True):
        points = [point for point in zip(curve["rate"], curve["delay"], strict=True) if None not in point]
        _line(axes, ([x for x, _ in points], [y for _, y in points]), entry)
    return _inline(axes, label)


def _frame(x_label: str, y_label: str) -> "Axes":
    """Axes with room for their words; y from 0 to 1."""
    from matplotlib.figure import Figure

    axes = Figure(figsize=(SIZE[0] / 72, SIZE[1] / 72), dpi=72).add_axes((0.12, 0.147, 0.83, 0.79))
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel(x_label, fontsize=12, color=INKS["text"])
    axes.set_title(y_label, fontsize=11, color=INKS["mute"], loc="left", pad=4)
    axes.grid(color=INKS["line"], lw=0.6)
    axes.tick_params(length=0, pad=6, labelsize=12, labelcolor=INKS["text"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INKS["text"])
    return axes


def _log(
    axes: "Axes", values: Iterable[float], high: float | None = None, text: str = "{:g}", scale: float = 1
) -> None:
    """A logarithmic x axis of whole decades around the positive values, four at most, with a place for 0."""
    positive = [value for value in values if value > 0 and math.isfinite(value)]
    last = math.ceil(math.log10(high or max(positive, default=1.0)) - 1e-9)
    first = math.floor(math.log10(min(positive, default=10.0 ** (last - 2))) + 1e-9)
    first = max(min(first, last - 1), last - 4)
    axes.set_xscale("symlog", linthresh=10.0**first, linscale=0.3)
    axes.set_xlim(0.0, 10.0**last)
    axes.set_xticks([0.0, *(10.0**power for power in range(first, last + 1))])
    axes.xaxis.set_major_formatter(_form(text, scale))


def _form(text: str, scale: float = 1) -> Callable[[float, float], str]:
    return lambda value, _: text.format(value * scale)


def _line(axes: "Axes", curve: Curve, entry: dict[str, Any], **look: Any) -> None:
    """A curve that shows its name under the pointer."""
    style = entry["style"]
    width = 1.0 if style == "other" else 2.2
    dashes = () if style == "other" else DASHES[style]
    solid = {"lw": width, "ls": (0, [part / width for part in dashes]) if dashes else "-"}
    if len(curve[0]):
        axes.plot(*curve, color=INKS[style], gid=entry["detector"], **(solid | look))


def _held(curve: Curve, end: float) -> Curve:
    """The curve with its last share held to the end of the axis."""
    return [*curve[0], *([end] if len(curve[0]) else [])], [*curve[1], *curve[1][-1:]]


def _thinned(curve: dict[str, Any]) -> Curve:
    """At most POINTS of a rising curve, the last among them."""
    steps, shares = curve["steps"], curve["share"]
    stride = max(1, math.ceil(len(steps) / POINTS))
    kept = sorted({*range(0, len(steps), stride), len(steps) - 1}) if steps else []
    return [steps[i] for i in kept], [shares[i] for i in kept]


def _attributes(style: str) -> str:
    """Declarations of a `style` attribute as attributes of SVG, which has one for each but the shorthand `font`."""
    pairs = [part.partition(":") for part in style.split(";") if part.strip()]
    found = {name.strip(): value.strip() for name, _, value in pairs}
    if "font" in found:
        found["font-size"] = found.pop("font").split()[0]
    return "".join(f' {name}="{value}"' for name, value in found.items())


def _inline(axes: "Axes", label: str) -> Markup:
    """The chart without ids, with the style sheet's colours and text. label: what a reader who can't see it is told."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names: list[str] = []
    for line in axes.lines:
        if line.get_gid():
            names.append(str(line.get_gid()))
            line.set_gid(f"line-{len(names) - 1}")
    figure, buffer = axes.figure, StringIO()
    assert isinstance(figure, Figure)
    salt = label.encode("ascii", "backslashreplace").decode()  # a name may hold what UTF-8 does not
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):  # ids of one chart, the same each time
        figure.savefig(buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date")))
    text = buffer.getvalue()
    text = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<clipPath.*?</clipPath>|<!--.*?-->", "", text, flags=re.S
    )
    text = re.sub(r'<g id="(?!line-)[^"]*"(/?)>', r"<g\1>", text)
    text = re.sub(r' clip-path="[^"]*"| font-family: [^;"]*;|<defs>\s*</defs>|<g/>', "", text)
    text = re.sub(r' style="([^"]*)"', lambda at: _attributes(at[1]), text)  # which a page's policy forbids
    for name, colour in INKS.items():
        text = text.replace(colour, f"var(--{name if isinstance(name, str) else f'c{name}'})")
    text = re.sub(r'<g id="line-(\d+)">', lambda at: f"<g><title>{escape(names[int(at[1])])}</title>", text)
    inside = re.sub(r"\s*\n\s*", "\n", text[text.index(">", text.index("<svg")) + 1 :].strip())
    return Markup(f'<svg viewBox="0 0 {SIZE[0]} {SIZE[1]}" role="img" aria-label="{escape(label)}">{inside}')
