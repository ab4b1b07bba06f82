"""The tables of a board: one operating point each, the ceiling above, columns of held-out runs where there are any."""

from typing import Any

import pytest

from trainwreck.evaluation.leaderboard.columns import (
    BY_NAME,
    OPERATING,
    TABLES,
    UNSEEN,
    ceilings,
    cells,
    having,
    heads,
    markdown,
    record,
    suffix,
    terminal,
)


def row(profile: str = "full", **changed: Any) -> dict[str, Any]:
    keys = {column.key for table in TABLES for column in table.columns if column.interval} | {"visible_in_time"}
    numbers = {f"{key}{end}": 0.25 for key in keys for end in ("", "_low", "_high")}
    return {"rank": 1, "detector": "mine", "profile": profile, "crashed": 0, "update_us": 1.5} | numbers | changed


@pytest.mark.parametrize("table", [table for table in TABLES if table.point in OPERATING])
def test_all_scores_of_a_table_are_of_its_operating_point(table: Any) -> None:
    others = [point for point in OPERATING if point != table.point]
    free = {"recall_without_easy", "recall_seen", *UNSEEN}  # of the headline alone
    keys = {column.key for column in table.columns} - free - {"false_alarms_per_10000"}
    assert all(key.endswith(suffix(table.point)) for key in keys)
    assert not [key for key in keys for point in others if key.endswith(f"_{point}")]
    assert {f"lead{suffix(table.point)}", f"skill{suffix(table.point)}", f"top1{suffix(table.point)}"} <= keys


def test_a_terminal_has_the_area_beside_the_headline_alone() -> None:
    assert [name for name in BY_NAME if "area" in heads(terminal(name))] == ["5%", "none"]
    shown = dict(zip(heads(terminal("1%")), cells(row(**{"recall_0.01": 0.5}), terminal("1%")), strict=True))
    assert shown["in-time recall"] == "0.50 [0.25, 0.25]"


def test_held_out_runs_have_columns_only_where_there_are_any() -> None:
    table = BY_NAME["5%"]
    none = dict.fromkeys(UNSEEN)
    assert {"seen", "unseen cause", "unseen base"} <= set(heads(having([row(**none), row()], record(table))))
    for missing in (None, float("nan")):
        left = heads(having([row(**dict.fromkeys(UNSEEN, missing))], record(table)))
        assert not {"seen", "unseen cause", "unseen base"} & set(left)
        assert "of visible" in left


def test_the_ceiling_is_one_sentence_a_profile() -> None:
    rows = [row("full", visible_in_time=0.9449), row("full"), row("minimal", visible_in_time=0.6)]
    assert ceilings(rows) == [
        "94 % of failing runs are visible in time under the profile full",
        "60 % of failing runs are visible in time under the profile minimal",
    ]
    assert ceilings([row(visible_in_time=None)]) == []


def test_markdown_has_a_table_an_operating_point_and_no_time() -> None:
    lines = markdown([row(), row("minimal", crashed=2)])
    assert lines[0] == "25 % of failing runs are visible in time under the profile full."
    tables = [line for line in lines if line.startswith("| rank")]
    assert len(tables) == len(TABLES)
    assert sum(line.startswith("| 1 | mine (failed on 2 runs) | minimal |") for line in lines) == len(TABLES)
    assert not any("row" in line for line in tables)
