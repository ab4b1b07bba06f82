"""A picture of a real run: its curves as logged, the labelled step, the first alarms."""

from collections.abc import Mapping

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.logs.real_runs.runs import RealRun, logged
from trainwreck.evaluation.pages.figures import alarm_row, log_axis, png_url, unit, wide

SHOWN = {"loss": "#0072B2", "validation_loss": "#009E73", "grad_norm": "#0072B2"}
MOST_NAMES = 12  # alarms that are named


def picture(run: RealRun, trace: Trace, alarms: Mapping[str, int]) -> str:
    """A PNG as a data URL. alarms: detector to its first alarm."""
    from matplotlib.figure import Figure

    curves = {name: logged(trace, name) for name in SHOWN}
    panels = [["loss", "validation_loss"], *([["grad_norm"]] if len(curves["grad_norm"][0]) else [])]
    named = sorted(alarms, key=lambda name: alarms[name])[:MOST_NAMES]
    heights = [1.0] * len(panels) + ([0.18 + 0.11 * len(named)] if named else [])
    figure = Figure(figsize=(6.4, 1.7 * sum(heights) + 0.4), layout="constrained")
    axes = np.atleast_1d(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights))
    for axis, names in zip(axes, panels, strict=False):
        for name in names:
            steps, values = curves[name]
            finite = np.isfinite(values)
            if finite.any():
                axis.plot(
                    steps, np.where(finite, values, np.nan), color=SHOWN[name], lw=0.9,
                    marker="." if finite.sum() < 30 else None, label=name.replace("_", " "),
                )  # fmt: skip
            if len(values) and not finite.all():
                at = steps[~finite][0]
                axis.plot([at], [0.96], "x", color=SHOWN[name], transform=axis.get_xaxis_transform(), ms=6, mew=2)
        values = np.concatenate([curves[name][1] for name in names])
        values = values[np.isfinite(values)]
        if wide(values):
            log_axis(axis, values)
        axis.set_title(f"{names[0].replace('_', ' ')} ({unit(names[0])})", fontsize=8, loc="left")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=7, frameon=False, loc="upper right")
        axis.tick_params(which="both", labelsize=7)
        axis.grid(alpha=0.2, lw=0.5)
    if named:
        more = f", the first {MOST_NAMES} of {len(alarms)}" if len(alarms) > MOST_NAMES else ""
        alarm_row(axes[-1], {name: alarms[name] for name in named}, f"first alarms{more}")
    if run.failure_step is not None:
        for axis in axes:
            axis.axvline(run.failure_step, color="#000000", lw=0.9)
    axes[-1].set_xlabel("step", fontsize=8)
    axes[-1].tick_params(axis="x", labelsize=7)
    return png_url(figure, 90)
