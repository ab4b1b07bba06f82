"""A picture of the attention benchmark: time against length, a panel for each width and pass."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwreck.evaluation.files import write_atomically
from trainwreck.scenarios.bench.attention import CUDNN, FLASH, FLEX, MATERIALISED, OFF, ON
from trainwreck.scenarios.bench.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can tell apart.
STYLES = {
    FLASH: ("#0072B2", "o"),
    CUDNN: ("#009E73", "s"),
    FLEX: ("#E69F00", "^"),
    MATERIALISED: ("#CC79A7", "v"),
    OFF: ("#999999", "x"),
    ON: ("#D55E00", "D"),
}


def save(table: Table, path: Path) -> None:
    """Draw and write a PNG."""
    figure = draw(table)
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=110))


def draw(table: Table) -> "Figure":
    """Milliseconds of every subject, and the floor below which no attention can be."""
    from matplotlib.figure import Figure

    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    widths = sorted({row["width"] for row in rows})
    passes = list(dict.fromkeys(row["pass"] for row in rows))
    figure = Figure(figsize=(3.8 * len(widths), 2.9 * len(passes) + 0.5), layout="constrained")
    axes = figure.subplots(len(passes), len(widths), squeeze=False, sharex=True)
    for line, name in zip(axes, passes, strict=True):
        for axis, width in zip(line, widths, strict=True):
            _panel(axis, [row for row in rows if row["pass"] == name and row["width"] == width])
            axis.set_title(f"{name}, width {width} (ms)", fontsize=8, loc="left")
    for axis in axes[-1]:
        axis.set_xlabel("length", fontsize=8)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, ncols=4, loc="outside upper center", frameon=False)
    return figure


def _panel(axis: Any, rows: list[dict[str, Any]]) -> None:
    lengths = sorted({row["length"] for row in rows})
    floors = {row["length"]: max(row["floor: memory, ms"], row["floor: arithmetic, ms"]) for row in rows}
    for name, (colour, marker) in STYLES.items():
        own = [row for row in rows if row["what"] == name and row["ms (median)"] != ""]
        drawn = [row["length"] for row in own], [row["ms (median)"] for row in own]
        axis.plot(*drawn, color=colour, marker=marker, ms=3, lw=1.1, label=name)
    axis.plot(lengths, [floors[length] for length in lengths], color="#000000", ls="--", lw=0.8, label="floor")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("")
    axis.set_xticks(lengths, [str(length) for length in lengths], fontsize=7)
    axis.tick_params(which="both", labelsize=7)
    axis.grid(alpha=0.2, lw=0.5)
