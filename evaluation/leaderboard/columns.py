"""The columns of a leaderboard wherever one is shown: in a terminal, as Markdown, in the report and on its own page.

A row is one of `ranking.table`; CSV, JSON and Parquet hold the rows themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from trainwreck.evaluation.constants import RATE_STEPS
from trainwreck.evaluation.intervals import number_text, row_interval_text


class Column(NamedTuple):
    """key: of the row. form: of its number, or "" for words. interval: whether the row has KEY_low and KEY_high."""

    key: str
    head: str
    what: str = ""
    form: str = ".2f"
    interval: bool = True


ENTRY = (
    Column("rank", "rank", form=".0f", interval=False),
    Column("detector", "detector", form="", interval=False),
    Column("profile", "profile", form="", interval=False),
)
RECALL = Column("recall_0.05", "in-time recall at 5 %")
SKILL = Column("skill", "W*", "cost skill, rollback, one run in ten failing: best blind policy 0, alarm at v 1")
FALSE_ALARMS = f"false_alarms_per_{RATE_STEPS}"

TERMINAL = (
    *ENTRY,
    RECALL,
    Column("stopped_0.05", "stopped"),
    Column(FALSE_ALARMS, "false alarms / 10k", form=".1f"),
    SKILL,
    Column("top1", "cause"),
    Column("top1_within_set", "in set"),
)
RECORD = (
    *ENTRY,
    RECALL,
    Column("stopped_0.05", "healthy stopped", form=".0%", interval=False),
    Column("recall_default", "recall at default"),
    Column("stopped_default", "healthy stopped", form=".0%", interval=False),
    Column(FALSE_ALARMS, "false alarms / 10,000"),
    SKILL,
    Column("top1", "cause (top 1)"),
)
UPDATE = Column("update_us", "\u00b5s/row", "mean time of an update", ".1f", interval=False)
REPORT = (*RECORD, UPDATE)
PAGE = (
    RECALL._replace(
        head="recall at 5 %",
        what="in-time recall, the threshold frozen so that at most 5 % of calibration runs are stopped",
    ),
    Column("stopped_0.05", "healthy stopped", "share of healthy test runs that the frozen threshold stops", ".0%"),
    Column("recall_without_easy", "without easy", "the same recall without scenarios that every one-liner solves"),
    Column("recall_0.01", "recall at 1 %", "in-time recall with at most 1 % of calibration runs stopped"),
    Column("recall_default", "recall, default", "in-time recall of the detector's own alarm"),
    Column("stopped_default", "healthy stopped", "share of healthy runs that its own alarm stops", ".0%"),
    Column("stopped_look_alike_default", "look-alikes stopped", "share of look-alikes that its own alarm stops", ".0%"),
    Column(FALSE_ALARMS, "false alarms", f"new alarms per {RATE_STEPS:,} healthy steps", ".1f"),
    Column("delay_share", "delay", "onset to alarm as a share of the time until the run is lost; a miss is 1"),
    Column("lead", "lead", "share of the time between visible and lost that is left at the alarm"),
    SKILL,
    Column("top1", "cause, top 1", "in time and the true cause named first; macro over causes"),
    Column("top1_within_set", "within set, top 1", "the same where any cause of the equivalence set is right"),
    Column("top3", "cause, top 3", "in time and the true cause among the first three"),
    Column("top3_within_set", "within set, top 3", "the same where any cause of the equivalence set is right"),
    UPDATE,
)


def heads(columns: Sequence[Column]) -> list[str]:
    """The heading of each column."""
    return [column.head for column in columns]


def cells(row: Mapping[str, Any], columns: Sequence[Column]) -> list[str]:
    """A row as text, a cell a column. Beside a name: on how many runs it failed, and what its claim rests on."""
    return [_cell(row, column) for column in columns]


def markdown(rows: Iterable[Mapping[str, Any]], columns: Sequence[Column]) -> list[str]:
    """The rows as a Markdown table, a line a list entry."""
    lines = [heads(columns), *(cells(row, columns) for row in rows)]
    head, *body = [f"| {' | '.join(line)} |" for line in lines]
    return [head, "|" + "---|" * len(columns), *body]


def claim_text(row: Mapping[str, Any]) -> str:
    """What the score of a submission rests on, with its recall on private seeds; "" for what is no submission."""
    private = row_interval_text(row, "private_recall") if row.get("private_recall") is not None else ""
    return ": ".join(part for part in (row.get("claim", ""), private) if part)


def _cell(row: Mapping[str, Any], column: Column) -> str:
    value = row[column.key]
    if column.interval:
        return row_interval_text(row, column.key, column.form)
    if column.key == "detector":
        failed = f"failed on {row['crashed']} runs" if row["crashed"] else ""
        notes = [note for note in (failed, claim_text(row)) if note]
        return f"{value} ({'; '.join(notes)})" if notes else str(value)
    return number_text(value, column.form)
