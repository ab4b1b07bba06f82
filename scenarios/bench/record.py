"""What is committed beside a benchmark's numbers: pictures, and the page over all records."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwreck.evaluation.files import read_json, write_atomically, write_text
from trainwreck.scenarios.bench.attention_cuda import CUDNN, FLASH, FLEX, MATERIALISED, OFF, ON
from trainwreck.scenarios.bench.table import ON_CUDA, SPEED, Goal, Table, markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can tell apart.
OWN, PEER = "#D55E00", "#0072B2"
STYLES = {
    FLASH: ("#0072B2", "o"),
    CUDNN: ("#009E73", "s"),
    FLEX: ("#E69F00", "^"),
    MATERIALISED: ("#CC79A7", "v"),
    OFF: ("#999999", "x"),
    ON: ("#D55E00", "D"),
}
HEAD = """# Speed: what was asked for, and what is measured

Every ratio was taken in one run beside its peer, and holds for the processor or GPU that it was taken on: there is a
record for each, and none replaces another's. Each page says how far it is from what the machine could do at
best, and why, with the measurement that shows it."""


def save_picture(table: Table, path: Path) -> None:
    """Draw and write a PNG: bars where the table has them, else the lines of the attention benchmark."""
    figure = bars(table) if table.bars else lines(table)
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=110))


def bars(table: Table) -> "Figure":
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


def lines(table: Table) -> "Figure":
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


def write_index(folder: Path) -> None:
    """Write README.md over the records in the folder, of which there is one by measurement and device."""
    write_text(folder / "README.md", page(records(folder)))


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """What each record says and where it was taken, by its path from the folder: measurement/device."""
    paths = sorted(path.parent for path in folder.glob("*/*/result.json"))
    return {
        str(path.relative_to(folder).as_posix()): read_json(path / "result.json")
        | {"environment": read_json(path / "environment.json")}
        for path in paths
    }


def page(found: dict[str, dict[str, Any]]) -> str:
    """found: of `records`."""
    rows = []
    for place, record in found.items():
        name, _, device = place.partition("/")
        for goal in (Goal(**facts) for facts in record.get("goals", ())):
            page = f"[{name}]({place}/README.md)"
            rows.append((page, device, goal.what, goal.bound, f"{goal.measured:.2f} x", _word(goal.met)))
    parts = [HEAD]
    if rows:
        parts.append(markdown(("page", "device", "what", "asked for", "measured", "met"), rows))
    parts += ["## All pages", "\n".join(_line(place, record) for place, record in found.items())]
    known = {SPEED + place.partition("/")[0] for place in found}
    missing = [f"`{name.removeprefix(SPEED)}`" for name in ON_CUDA if name not in known]
    if missing:
        parts.append(f"Not measured yet, since they need a CUDA device (`make gpu`): {', '.join(missing)}.")
    return "\n\n".join(parts) + "\n"


def _line(place: str, record: dict[str, Any]) -> str:
    name, where = place.partition("/")[0], record["environment"]
    device = ", ".join(where["gpus"]) if SPEED + name in ON_CUDA else where["processor"]
    return f"- [{name}]({place}/README.md): {record['title']} ({device})."


def _word(met: bool) -> str:
    return "yes" if met else "no"
