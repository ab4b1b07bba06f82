"""What the command line prints: JSON, tables, the leaderboard."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainwreck.evaluation.errors import printable_lines

if TYPE_CHECKING:
    from trainwreck.evaluation.leaderboard.transfer.transfer import Transfer


def number(value: float | None, sign: str = "") -> str:
    """Three decimals, or a dash for None and NaN. sign: "+" to show one."""
    return "-" if value is None or value != value else format(value, f"{sign}.3f")


def shortened(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def print_json(content: Any) -> None:
    """Indented JSON."""
    print(json.dumps(content, indent=2))


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A plain table; None is a dash. A terminal has a width to wrap to; elsewhere a row is a line."""
    cells = [["-" if cell is None else printable_lines(str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
        for row in (head, *cells):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*head, box=None, pad_edge=False, header_style="bold")
    for row in cells:
        table.add_row(*map(escape, row))
    Console().print(table)


def print_page(content: dict[str, Any]) -> None:
    """A scenario's page."""
    from rich.console import Console
    from rich.markdown import Markdown

    lines = [f"# {content['id']}: {content['title']}", ""]
    lines += [f"**{name}.** {text}\n" for name, text in content["sections"].items()]
    lines += [f"Family: {content['family']}. Sizes: {', '.join(content['sizes'])}. Tells: `{content['telling']}`.\n"]
    console = Console()
    console.print(Markdown("\n".join(lines)))
    _print_injected(content)
    console.print()
    console.print(Markdown(_knobs(content)))


def _print_injected(content: dict[str, Any]) -> None:
    """The settings in which a scenario is not the default of its size, and the lines that its fault changes."""
    from rich.console import Console
    from rich.markdown import Markdown

    default = f"default of size {content['size']}"
    lines = [f"## Setup\n\n{content['base']}\n"]
    if content["settings"]:
        lines += [f"| setting | {default} | here |", "|---|---|---|"]
        lines += [f"| `{r['setting']}` | {_shown(r['default'])} | {_shown(r['here'])} |" for r in content["settings"]]
    else:
        lines += [f"No setting differs from the {default}."]
    lines += [
        "",
        "## Changed lines\n",
        f"{content['when']} The lines are those of the program that `trainwreck reproducer` writes.\n",
    ]
    lines += [content["no_lines"]]
    console = Console()
    console.print(Markdown("\n".join(lines)))
    if content["lines"]:
        console.print()
    styles = {"-": "red", "+": "green"}
    for line in content["lines"]:
        console.print(line, style=styles.get(line[:1]), markup=False, highlight=False, soft_wrap=True)


def _shown(value: object) -> str:
    """A setting's value as the command line takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _knobs(content: dict[str, Any]) -> str:
    """The knobs of a scenario by the names that set them, with their values by severity."""
    from trainwreck.scenarios.config.settings import leaves
    from trainwreck.scenarios.spec.overrides import KNOBS

    by_key: dict[str, dict[str, str]] = {}
    for level, knobs in content["knobs_by_severity"].items():
        for key, value in leaves(knobs, KNOBS).items():
            by_key.setdefault(key, {})[level] = _shown(value)
    if not by_key:
        return "Knobs: none."
    texts = []
    for key, values in by_key.items():
        alike = len(set(values.values())) == 1
        levels = [f"{value} {level}" for level, value in values.items()]
        texts.append(f"`{key}` ({next(iter(values.values())) if alike else ', '.join(levels)})")
    key, values = next(iter(by_key.items()))
    example = f"`trainwreck run {content['id']} {key}={next(iter(values.values()))}`"
    return f"Knobs: {', '.join(texts)}. Set one as in {example}."


def print_run(facts: dict[str, Any]) -> None:
    """The runs of a scenario side by side, and their onsets."""
    rows = [
        (r["role"], r["run_id"], r["steps"], number(r["final_loss"]), number(r["final_gap"], "+"))
        for r in facts["runs"]
    ]
    print_table(("run", "id", "steps", f"final loss ({facts['loss_unit']})", "gap to twin"), rows)
    print(f"onset: step {facts['onset_step']}; cure: {facts['cure_step']}; signature: {facts['signature']}")
    if len(facts["causes"]) > 1:
        print(
            "; ".join(
                f"{id}: from step {at}, signature: {facts['signatures'][id]}" for id, at in facts["causes"].items()
            )
        )
    if facts["kind"] is not None:
        print(f"harm: {_harm(facts)}; kind: {facts['kind']}")
    print(f"picture: {facts['picture']}")


def _harm(facts: dict[str, Any]) -> str:
    """Whether the faulty run ended off its twin, on which side, and on which it does where the failure is shown."""
    gap = next(run["final_gap"] for run in facts["runs"] if run["role"] == "faulty")
    side = {"either": "above or below"}.get(facts["harm"], facts["harm"])
    off = "above" if (gap or 0.0) > 0 else "below"
    end = "not finite" if gap is None else f"{abs(gap):.3f} {facts['gap_unit']} {off} the twin"
    return f"ended {end} (a failing run of it ends {side})"


def print_paired_tests(rows: Sequence[dict[str, Any]], name: str, budgets: Sequence[float]) -> None:
    """By how much a detector is ahead of each other one at each false-alarm budget, with p-values."""
    heads = [f"{what} at {budget:.0%}" for budget in budgets for what in ("in-time recall", f"{name} ahead by", "p")]
    print_table(
        ("profile", "detector", *heads),
        [
            (
                row["profile"],
                row["detector"],
                *(
                    text
                    for budget in budgets
                    for text in (
                        number(row[f"recall_{budget}"]),
                        number(row[f"ahead_{budget}"], "+"),
                        f"{row[f'p_{budget}']:.2g}",
                    )
                ),
            )
            for row in rows
        ],
    )


def print_board(rows: Sequence[dict[str, Any]], at: str) -> None:
    """The rows of a leaderboard, each number with its interval. Rows that share a rank can't be told apart.

    at: the operating point, of `choices.AT`.
    """
    from trainwreck.evaluation.leaderboard.columns import BY_NAME, ceilings, cells, confinements, heads, terminal

    for sentence in ceilings(rows):
        print(f"{sentence}.")
    print(f"operating point: {BY_NAME[at].title}. {BY_NAME[at].what}")
    columns = terminal(at)
    print_table(heads(columns), [cells(row, columns) for row in rows])
    for sentence in confinements(rows):
        print(sentence)


def print_transfer(found: "Transfer") -> None:
    """Two boards compared: the correlations, recall and rank of each detector on both, what thresholds stop."""
    from trainwreck.evaluation.intervals import interval_text, number_text

    print(f"{len(found.detectors)} detectors, in-time recall at {found.at}, profile {found.profile}")
    print_table(
        ("", "correlation", "ceiling of REAL", "ceiling of BOARD"),
        [
            (head, interval_text(*value), *(number(found.ceiling[one][name]) for one in ("real", "board")))
            for head, name, value in (
                ("Spearman", "spearman", found.spearman),
                ("Kendall", "kendall", found.kendall),
            )
        ],
    )
    print_table(
        ("detector", "recall on REAL", "rank", "recall on BOARD", "rank", "healthy of REAL stopped"),
        [
            (
                row["detector"],
                number(row["real"]),
                f"{row['real_rank']:g}",
                number(row["board"]),
                f"{row['board_rank']:g}",
                number_text(row["stopped"], ".0%"),
            )
            for row in found.to_frame().to_dict("records")
        ],
    )
    if found.median_stopped.value == found.median_stopped.value:
        stopped = interval_text(*found.median_stopped, ".0%")
        print(f"Thresholds of BOARD stop {stopped} of the healthy runs of REAL in the median detector.")
    for note in found.notes:
        print(f"note: {note}")
