"""The columns of a leaderboard wherever one is shown: in a terminal, as Markdown, in the report and on its own page.

A row is one of `ranking.table`; CSV, JSON and Parquet hold the rows themselves. Each table has one operating point, and
all its scores are measured there. Ranks, and the order of the rows, are of the first.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from trainwreck.evaluation.constants import BUDGETS, HEADLINE_BUDGET, LARGEST_STOPPED, RATE_STEPS
from trainwreck.evaluation.intervals import number_text, row_interval_text

HEADLINE, DEFAULT = str(HEADLINE_BUDGET), "default"
OPERATING = (HEADLINE, *(str(budget) for budget in BUDGETS if budget != HEADLINE_BUDGET), DEFAULT)
FREE = "none"  # the table of what needs no threshold
FALSE_ALARMS = f"false_alarms_per_{RATE_STEPS}"
UNSEEN = ("recall_unseen_cause", "recall_unseen_base")


class Column(NamedTuple):
    """key: of the row. form: of its number, or "" for words. interval: whether the row has KEY_low and KEY_high."""

    key: str
    head: str
    what: str = ""
    form: str = ".2f"
    interval: bool = True


class Table(NamedTuple):
    """One operating point. name: of it, as an option takes it. title, what: in words. columns: of the scores alone."""

    point: str
    name: str
    title: str
    what: str
    columns: tuple[Column, ...]


def suffix(point: str) -> str:
    """What a row adds to the names of lead, delay, diagnosis and cost skill at an operating point."""
    return "" if point == HEADLINE else f"_{point}"


def _scores(point: str) -> tuple[Column, ...]:
    end = suffix(point)
    return (
        Column(f"recall_{point}", "in-time recall", "share of failing runs alarmed from the onset until they are lost"),
        Column(
            f"recall_of_visible{end}", "of visible", "the same over the share of failing runs that are visible in time"
        ),
        *(_GENERALISES if point == HEADLINE else ()),
        Column(f"stopped_{point}", "healthy stopped", "share of healthy test runs with an alarm", ".0%"),
        Column(f"stopped_look_alike_{point}", "look-alikes stopped", "share of look-alike runs with an alarm", ".0%"),
        *(_ALARMS if point == DEFAULT else ()),
        Column(
            f"delay_share{end}", "delay", "onset to alarm as a share of the time until the run is lost; a miss is 1"
        ),
        Column(f"lead{end}", "lead", "share of the time between visible and lost that is left at the alarm"),
        Column(f"skill{end}", "W*", "cost skill, rollback, one run in ten failing: best blind policy 0, alarm at v 1"),
        Column(f"top1{end}", "cause, top 1", "in time and the true cause named first; macro over causes"),
        Column(
            f"top1_within_set{end}", "within set, top 1", "the same where any cause of the equivalence set is right"
        ),
        Column(f"top3{end}", "cause, top 3", "in time and the true cause among the first three"),
        Column(
            f"top3_within_set{end}", "within set, top 3", "the same where any cause of the equivalence set is right"
        ),
    )


_GENERALISES = (
    Column("recall_without_easy", "without easy", "in-time recall without scenarios that every one-liner solves"),
    Column("recall_seen", "seen", "in-time recall on runs of which the training runs have everything"),
    Column(UNSEEN[0], "unseen cause", "in-time recall on runs whose cause no training run has"),
    Column(UNSEEN[1], "unseen base", "in-time recall on runs whose base, the healthy setup, no training run has"),
)
_ALARMS = (Column(FALSE_ALARMS, "false alarms", f"new alarms per {RATE_STEPS:,} healthy steps", ".1f"),)
_UP_TO = f"over shares stopped from 0 to {LARGEST_STOPPED:.0%}"
UPDATE = Column("update_us", "\u00b5s/row", "mean time of an update", ".1f", interval=False)
TABLES = (
    *(
        Table(
            point,
            f"{float(point):.0%}",
            f"{100 * float(point):g} % stopped",
            f"A threshold from calibration runs: {100 * float(point):g} % of further healthy and look-alike runs, a "
            "tenth of them look-alikes, are expected to be stopped.",
            _scores(point),
        )
        for point in OPERATING
        if point != DEFAULT
    ),
    Table(DEFAULT, DEFAULT, "published default", "The alarm that the detector itself gives.", _scores(DEFAULT)),
    Table(
        FREE,
        FREE,
        "no threshold",
        "Over all thresholds, on the measured runs: numbers to compare with other benchmarks, not to be had in use.",
        (
            Column("area", "area", f"mean in-time recall {_UP_TO}: area under the curve, at most 1"),
            Column("volume", "volume", "the same, averaged over the delay that is tolerated as well"),
            UPDATE,
        ),
    ),
)
BY_NAME = {table.name: table for table in TABLES}

ENTRY = (
    Column("rank", "rank", form=".0f", interval=False),
    Column("detector", "detector", form="", interval=False),
    Column("profile", "profile", form="", interval=False),
)
_TERMINAL = ("recall", "stopped", "stopped_look_alike", FALSE_ALARMS, "skill", "top1", "area", "volume")
_RECORD = (*_TERMINAL, "recall_of_visible", *UNSEEN, "recall_seen", "lead")


def terminal(name: str) -> tuple[Column, ...]:
    """The columns of a table for a terminal, entry first; that of the headline has the area too. name: of `BY_NAME`."""
    area = BY_NAME[FREE].columns[:1] if BY_NAME[name].point == HEADLINE else ()
    return (*ENTRY, *_of(BY_NAME[name], (*_TERMINAL, UPDATE.key)), *area)


def record(table: Table, *more: str) -> tuple[Column, ...]:
    """The columns of a table for a page of text, entry first. more: further keys; times make no two files the same."""
    return (*ENTRY, *_of(table, (*_RECORD, *more)))


def _of(table: Table, keys: Sequence[str]) -> tuple[Column, ...]:
    ends = ("", f"_{table.point}")
    return tuple(column for column in table.columns if any(column.key == f"{key}{end}" for key in keys for end in ends))


def having(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns without those by what was held out, where nothing was."""
    if any(number_text(row[key]) != "-" for row in rows for key in UNSEEN):
        return tuple(columns)
    return tuple(column for column in columns if column.key not in (*UNSEEN, "recall_seen"))


def ceilings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each profile: the share of failing runs that are visible in time, which bounds recall."""
    first = {row["profile"]: row for row in reversed(rows)}
    return [
        f"{100 * row['visible_in_time']:.0f} % of failing runs are visible in time under the profile {profile}"
        for profile, row in reversed(first.items())
        if number_text(row["visible_in_time"]) != "-"
    ]


def heads(columns: Sequence[Column]) -> list[str]:
    """The heading of each column."""
    return [column.head for column in columns]


def cells(row: Mapping[str, Any], columns: Sequence[Column]) -> list[str]:
    """A row as text, a cell a column. Beside a name: on how many runs it failed, and what its claim rests on."""
    return [_cell(row, column) for column in columns]


def markdown(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A board in Markdown, a line a list entry: the ceilings, then a table an operating point."""
    lines = [f"{sentence}." for sentence in ceilings(rows)]
    for table in TABLES:
        columns = having(rows, record(table))
        lines += ["", f"{table.title[0].upper()}{table.title[1:]}. {table.what}", "", *_markdown(rows, columns)]
    return lines


def _markdown(rows: Iterable[Mapping[str, Any]], columns: Sequence[Column]) -> list[str]:
    lines = [heads(columns), *(cells(row, columns) for row in rows)]
    head, *body = [f"| {' | '.join(line)} |" for line in lines]
    return [head, "|" + "---|" * len(columns), *body]


def claim_text(row: Mapping[str, Any]) -> str:
    """What the score of a submission rests on, with its recall on private seeds; "" for what is no submission."""
    private = row_interval_text(row, "private_recall") if row.get("private_recall") is not None else ""
    return ": ".join(part for part in (row.get("claim", ""), private) if part)


def confinements(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What kept the processes of detectors from the rest of the machine, a sentence for each kind that the rows have.

    Detectors of the harness's own process, and stored alarms of unknown origin, have none.

    >>> confinements([{"detector": "a", "confinement": ""}, {"detector": "b", "confinement": "seccomp"}])
    ['in a process of its own, confined by seccomp: b']
    """
    entries: dict[str, list[str]] = {}
    for row in rows:
        if row.get("confinement"):
            names = entries.setdefault(row["confinement"], [])
            if row["detector"] not in names:
                names.append(row["detector"])
    return [f"in a process of its own, confined by {text}: {', '.join(names)}" for text, names in entries.items()]


def _cell(row: Mapping[str, Any], column: Column) -> str:
    value = row[column.key]
    if column.interval:
        return row_interval_text(row, column.key, column.form)
    if column.key == "detector":
        failed = f"failed on {row['crashed']} runs" if row["crashed"] else ""
        notes = [note for note in (failed, claim_text(row)) if note]
        return f"{value} ({'; '.join(notes)})" if notes else str(value)
    return number_text(value, column.form)
