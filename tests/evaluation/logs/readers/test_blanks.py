"""Blank cells: NaN where the writer left it blank, missing where nothing was logged, and counted either way."""

from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.imported import import_logs
from trainwreck.evaluation.logs.readers import parse_mapping, read

HEALTHY = [f"{10 * i},{4 - i / 50},1.5,0.001,{3.9 - i / 60 if i % 10 == 0 else ''},train" for i in range(31)]
CRASHED = [f"{10 * i},,,0.001,,train" for i in range(31, 41)]
HEADER = "step,loss,grad_norm,lr,val_loss,kind"


def text(*lines: str, header: str = HEADER) -> str:
    return "\n".join([header, *lines]) + "\n"


def nans(trace: Any, name: str) -> list[int]:
    """Steps at which a signal is logged as NaN."""
    logged = trace.logged.get(name, np.ones(len(trace), bool))
    if name == "validation_loss":
        logged = trace.evaluated
    return trace.steps[logged & np.isnan(trace[name])].tolist()


def test_a_loss_that_is_blank_from_some_row_on_is_nan(read_text: Any) -> None:
    trace, account, log = read_text(text(*HEALTHY, *CRASHED))
    assert trace.steps.tolist() == list(range(0, 410, 10))
    assert nans(trace, "loss") == nans(trace, "grad_norm") == list(range(310, 410, 10))
    assert nans(trace, "validation_loss") == []
    assert account["loss"]["points"] == 41
    assert log.blanks is not None
    assert log.blanks.nan == {"loss": 10, "grad_norm": 10}
    assert log.blanks.missing == {"validation_loss": 37}
    assert (log.blanks.rule, log.blanks.rows) == ("rule", 10)
    assert log.blanks.since is not None
    assert log.blanks.since[0].endswith("run.csv, line 33")
    assert log.blanks.since[1] == 310


def test_rows_of_validation_that_are_blank_are_nan_in_the_validation_loss(read_text: Any) -> None:
    rows = [line for i in range(6) for line in (f"{i},3,1,0.1,,train", f"{100 * i},,,,3,val")]
    trace, _, log = read_text(text(*rows, *(f"{600 + i},,,,,val" for i in range(4))))
    assert log.blanks.nan == {"validation_loss": 4}
    assert nans(trace, "validation_loss") == [600, 601, 602, 603]
    assert nans(trace, "loss") == []


MISSING = {
    "validation alone at the end": [*HEALTHY, *(f"{400 + i},,,,3.3,val" for i in range(5))],
    "fewer rows than three": [*HEALTHY, *CRASHED[:2]],
    "a value comes again": [*HEALTHY, *CRASHED, "500,3,1,0.001,,train"],
    "rows of another kind": [*HEALTHY, *(f"{400 + i},,,,,sample" for i in range(5))],
    "NaN by name": [*HEALTHY, "305,nan,inf,0.001,,train", *CRASHED],
    "rows like it were blank before": [*HEALTHY[:10], "95,,,0.001,,train", *HEALTHY[10:], *CRASHED],
    "the steps are over already": [*HEALTHY, *(f"{10 * i},,,0.001,,train" for i in range(10))],
}


@pytest.mark.parametrize("case", MISSING)
def test_else_it_is_missing_and_no_step_is_lost(case: str, read_text: Any) -> None:
    lines = MISSING[case]
    trace, _, log = read_text(text(*lines))
    assert log.blanks.nan == {}
    named = sum(",nan," in line for line in lines)
    assert len(nans(trace, "loss")) == named
    assert log.blanks.missing["loss"] == sum(line.split(",")[1] == "" for line in lines)
    assert trace.steps.tolist() == sorted({int(line.split(",")[0]) for line in lines})


def test_steps_without_any_value_at_the_end_stay(read_text: Any) -> None:
    trace, _, log = read_text("step,loss\n1,3\n2,2\n3,\n4,\n")
    assert trace.steps.tolist() == [1, 2, 3, 4]
    assert trace.logged["loss"].tolist() == [True, True, False, False]
    assert log.blanks.missing == {"loss": 2}


def test_in_a_table_with_a_column_a_run_a_blank_is_the_end_of_the_run(read_text: Any) -> None:
    rows = [f"{i},3,{'' if i > 9 else 2}" for i in range(20)]
    for header, mapping in (("step,loss_long,loss_short", "loss_short=loss"), ("step,long,short", "short=loss")):
        trace, _, log = read_text(text(*rows, header=header), mapping)
        assert nans(trace, "loss") == []
        assert "goes on" in log.blanks.why


def test_a_row_before_the_first_value_says_nothing(read_text: Any) -> None:
    _, _, log = read_text("step,loss\n0,\n1,3\n2,2\n3,\n4,\n5,\n")
    assert (log.blanks.nan, log.blanks.missing) == ({"loss": 3}, {"loss": 1})


def test_one_flag_says_it_either_way(read_text: Any) -> None:
    crashed = text(*HEALTHY, *CRASHED)
    trace, _, log = read_text(crashed, blank="missing")
    assert nans(trace, "loss") == []
    assert log.blanks.missing["loss"] == 10
    short = text(*HEALTHY, *CRASHED[:1])
    trace, _, log = read_text(short, blank="nan")
    assert nans(trace, "loss") == nans(trace, "grad_norm") == [310]
    assert (log.blanks.rule, log.blanks.nan) == ("nan", {"loss": 1, "grad_norm": 1})
    with pytest.raises(InputError, match=r"--blank: 'zero' is not allowed.*allowed: nan, missing"):
        read_text(short, blank="zero")


def test_null_is_a_blank_cell_and_a_name_that_is_not_there_is_none(read_text: Any) -> None:
    rows = [f'{{"step": {i}, "loss": {3 if i < 6 else "null"}}}' for i in range(10)]
    trace, _, log = read_text("\n".join(rows) + "\n", name="run.jsonl")
    assert nans(trace, "loss") == [6, 7, 8, 9]
    rows = [f'{{"step": {i}, "loss": 3}}' if i < 6 else f'{{"step": {i}, "saved": 1}}' for i in range(10)]
    trace, _, log = read_text("\n".join(rows) + "\n", name="run.jsonl")
    assert (log.blanks.nan, log.blanks.missing) == ({}, {})
    assert trace.steps.tolist() == list(range(6))


def test_a_writer_that_spells_nan_out_leaves_no_blank_for_it(tmp_path: Any) -> None:
    file = tmp_path / "metrics.csv"
    file.write_text(text(*(f"{i},{3 if i < 6 else ''}" for i in range(10)), header="step,train_loss"), encoding="utf-8")
    (log,) = read(file)
    assert (log.format, log.blanks) == ("lightning", None)
    (log,) = read(file, blank="nan")
    assert log.blanks.nan == {"loss": 4}


def test_the_manifest_counts_them(tmp_path: Any) -> None:
    file = tmp_path / "run.csv"
    file.write_text(text(*HEALTHY, *CRASHED), encoding="utf-8")
    (entry,) = import_logs([file], tmp_path / "out", mapping=parse_mapping(["loss=loss"]))
    assert entry["rows"] == 41
    assert entry["blanks"]["nan"]["loss"] == 10
    assert entry["blanks"]["missing"] == {"validation_loss": 37}
    assert (entry["blanks"]["rule"], entry["blanks"]["rows"]) == ("rule", 10)
