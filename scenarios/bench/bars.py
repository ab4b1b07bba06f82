"""A picture of a table: one column of it as bars, what is ours apart from its peers."""

from pathlib import Path
from typing import TYPE_CHECKING

from trainwreck.evaluation.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trainwreck.scenarios.bench.table import Table

# Okabe and Ito's palette, which colour-blind readers can tell apart.
OWN, PEER = "#D55E00", "#0072B2"


def save(table: "Table", path: Path) -> None:
    """Draw and write a PNG."""
    figure = draw(table)
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=110))


def draw(table: "Table") -> "Figure":
    """A bar for every row that has a number in the column of `table.bars`; ValueError for a table without."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    if table.bars is None:
        raise ValueError(f"{table.name} has no bars")
    at = table.columns.index(table.bars.column)
    drawn = [(str(row[0]), float(row[at])) for row in table.rows if row[at] != ""]
    names, values = [name for name, _ in drawn], [value for _, value in drawn]
    colours = [PEER if name in table.bars.peers else OWN for name in names]
    figure = Figure(figsize=(7.2, 0.32 * len(names) + 0.9), layout="constrained")
    axis = figure.subplots()
    held = axis.barh(names, values, color=colours, height=0.7)
    written = [f"{value:.3g}" if value < 1000 else f"{value:.0f}" for value in values]
    axis.bar_label(held, written, fontsize=7, padding=3)
    axis.invert_yaxis()  # the first row on top
    if table.bars.log:
        axis.set_xscale("log")
    axis.margins(x=0.12)
    axis.set_xlabel(table.bars.column, fontsize=8)
    axis.tick_params(which="both", labelsize=7)
    axis.grid(axis="x", alpha=0.2, lw=0.5)
    axis.set_axisbelow(True)
    legend = [Patch(color=OWN, label="trainwreck"), Patch(color=PEER, label="peer")]
    figure.legend(handles=legend, fontsize=7, ncols=2, loc="outside upper right", frameon=False)
    return figure
