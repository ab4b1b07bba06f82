"""CSV in every dialect, by stated rules; what could only be guessed is refused with its line."""

import csv
import io
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.log import Asked
from trainwreck.evaluation.logs.readers.csv import read_csv
from trainwreck.evaluation.logs.rules import to_trace

SIGNALS = ("loss", "grad_norm", "lr")
NAN = ("nan", "NaN", "NAN", "-nan", "nan(ind)", "1.#QNAN", "-1.#IND")
INFINITY = ("inf", "Inf", "+infinity", "INFINITY", "1.#INF")
EMPTY = ("", " ", "NA", "N/A", "null", "None", "-")
values = st.one_of(st.floats(width=32), st.none())
points = st.lists(st.tuples(st.integers(0, 40), values, values, values), min_size=1, max_size=25).filter(
    lambda found: any(value is not None for row in found for value in row[1:])
)


@st.composite
def dialects(draw: Any) -> dict[str, Any]:
    separator = draw(st.sampled_from(",;\t|"))
    return {
        "separator": separator,
        "comma": separator != "," and draw(st.booleans()),
        "quoting": draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        "newline": draw(st.sampled_from(["\n", "\r\n"])),
        "encoding": draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])),
        "blank": draw(st.integers(0, 3)),
        "spelling": draw(st.integers(0, 99)),
        "header_again": draw(st.integers(0, 30)),
        "ends": draw(st.booleans()),
        "float_steps": draw(st.booleans()),
    }


def written(rows: list[tuple[Any, ...]], dialect: dict[str, Any]) -> bytes:
    def number(value: float | None) -> str:
        spelling = dialect["spelling"]
        if value is None:
            return EMPTY[spelling % len(EMPTY)]
        if math.isnan(value):
            return NAN[spelling % len(NAN)]
        if math.isinf(value):
            return ("-" if value < 0 else "") + INFINITY[spelling % len(INFINITY)].lstrip("+")
        text = repr(value)
        return text.replace(".", ",") if dialect["comma"] else text

    stream = io.StringIO()
    table = csv.writer(
        stream, delimiter=dialect["separator"], quoting=dialect["quoting"], lineterminator=dialect["newline"]
    )
    header = ["Step", "train/loss", "grad_norm", "Learning Rate", "note"]
    stream.write(dialect["newline"] * dialect["blank"])
    table.writerow(header)
    for i, (step, *numbers) in enumerate(rows):
        stream.write(dialect["newline"] * (dialect["blank"] if i % 4 == 3 else 0))
        if i + 1 == dialect["header_again"]:
            table.writerow(header)
        table.writerow([f"{step}.0" if dialect["float_steps"] else step, *map(number, numbers), f"a {i}"])
    text = stream.getvalue()
    return (text if dialect["ends"] else text.removesuffix(dialect["newline"])).encode(dialect["encoding"])


def expected(rows: list[tuple[Any, ...]]) -> dict[str, dict[int, float]]:
    """Signal to step to value, the last written."""
    return {name: {row[0]: row[i] for row in rows if row[i] is not None} for i, name in enumerate(SIGNALS, start=1)}


def at_the_end(rows: list[tuple[Any, ...]]) -> set[int]:
    """Steps of rows after the last that has a loss or a gradient norm: they stay, with a value or without."""
    last = max((i for i, row in enumerate(rows) if row[1] is not None or row[2] is not None), default=len(rows))
    return {row[0] for row in rows[last + 1 :]}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(rows=points, dialect=dialects())
def test_every_dialect_says_the_same(rows: list[tuple[Any, ...]], dialect: dict[str, Any], tmp_path: Any) -> None:
    file = tmp_path / "run.csv"
    file.write_bytes(written(rows, dialect))
    (log,) = read_csv(file, Asked(blank="missing"))
    trace, account = to_trace(log, "r")
    model = expected(rows)
    assert trace.steps.tolist() == sorted({step for points in model.values() for step in points} | at_the_end(rows))
    for name, found in model.items():
        if not found:
            assert name not in trace.signals
            continue
        logged = trace.logged.get(name, np.ones(len(trace), bool))
        assert trace.steps[logged].tolist() == sorted(found)
        np.testing.assert_array_equal(trace[name][logged], np.array([found[s] for s in sorted(found)], np.float32))
        assert account[name]["points"] == len(found)
        wrote = sum(row[SIGNALS.index(name) + 1] is not None for row in rows)
        assert account[name]["points"] + account[name]["repeated"] == wrote
    again = Trace.from_table(trace.to_table())
    assert np.array_equal(again.steps, trace.steps)
    assert set(again.logged) == set(trace.logged)


def test_rules_are_counted(read_text: Any) -> None:
    trace, account, log = read_text("step,loss\n0,4\n10,3\n20,2\n20,2\n10,5\n40,1\nstep,loss\n50,0.5\n60,1e39\n70")
    assert trace.steps.tolist() == [0, 10, 20, 40, 50, 60]
    assert trace["loss"].tolist() == [4.0, 5.0, 2.0, 1.0, 0.5, math.inf]
    assert account["loss"] == {
        "points": 6, "repeated": 2, "conflicting": 1, "reordered": 1, "overflowed": 1, "interval": 10, "gaps": 1,
    }  # fmt: skip
    assert log.rules == {"repeated headers": 1, "cut off last line": 1}


def test_repeats_of_nan_do_not_conflict(read_text: Any) -> None:
    _, account, _ = read_text("step,loss\n1,nan\n1,nan\n1,nan\n2,nan\n2,1\n")
    assert (account["loss"]["repeated"], account["loss"]["conflicting"]) == (3, 1)


def test_decimal_commas_are_counted_and_one_file_has_one_mark(read_text: Any) -> None:
    trace, _, log = read_text("step;loss\n1;2,5\n2;3\n3;4,25\n")
    assert trace["loss"].tolist() == [2.5, 3.0, 4.25]
    assert log.rules == {"decimal commas": 2}


REFUSED = {
    "text": ("step,loss\n1,2\n2,oops\n", "line 3: column 'loss': 'oops' is not a number"),
    "thousands": ("step;loss\n1;1.234,5\n", "line 2: column 'loss': '1.234,5' is not a number"),
    "two marks": ("step;loss\n1;2,5\n2;2.5\n", "line 3: column 'loss': '2.5' has a decimal point"),
    "a quoted comma": (
        'step,loss\n1,"2,5"\n',
        "line 2: column 'loss': '2,5' is not a number; a decimal comma is known",
    ),
    "a bare comma": ("step,loss\n1,2,5\n", "line 2: 3 cells where the header has 2"),
    "underscores": ("step,loss\n1,1_000\n", "line 2"),
    "too few cells": ("step,loss,lr\n1,2\n2,3,4\n", "line 2: 2 cells where the header has 3"),
    "no step": ("step,loss\n1,2\n,3\n", "line 3: column 'step' is empty"),
    "half a step": ("step,loss\n1,2\n1.5,3\n", "line 3: column 'step': step '1.5' is not a whole number"),
    "a step in thousands": ("step;loss\n1,000;2\n", "line 2: column 'step': step '1,000' is not a whole number"),
    "a step before 0": ("step,loss\n-1,2\n", "line 2: step -1 is not allowed"),
    "a step too far": ("step,loss\n2147483648,2\n", "line 2: step 2147483648 is not allowed; allowed: 0 to 2147483647"),
    "nan for a step": ("step,loss\nnan,2\n", "line 2: column 'step': step 'nan' is not a whole number"),
    "an open quote": ('step,loss\n1,"2\n2,3\n', "line 3: not CSV"),
    "a column twice": ("step,loss,loss\n1,2,3\n", "column 'loss' stands twice"),
    "no known step": (
        "epoch,loss\n1,2\n",
        "known step: 'epoch', 'loss'; name it with --map COLUMN=step",
    ),
    "no known signal": ("step,accuracy\n1,2\n", "no column is a known signal: 'step', 'accuracy'"),
    "nothing logged": ("step,loss\n1,\n2,\n", "no column is a known signal"),
    "a header alone": ("step,loss\n", "run.csv: no value is logged; allowed: steps and a signal or more"),
    "nothing": ("\n\n", "empty"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_line(name: str, read_text: Any) -> None:
    text, message = REFUSED[name]
    with pytest.raises(InputError) as error:
        read_text(text)
    assert message in str(error.value)
    assert "run.csv" in str(error.value)
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_text_are_named_with_their_line(read_text: Any) -> None:
    with pytest.raises(InputError, match=r"run\.csv, line 3: not UTF-8 text"):
        read_text(b"step,loss\n1,2\n2,\xff\n")


def test_a_column_that_is_not_read_may_hold_anything(read_text: Any) -> None:
    _, _, log = read_text('step,loss,note\n1,2,"two\nlines, 2;5"\n2,3,\n')
    assert log.choice.ignored == {"note": "no known signal"}
    with pytest.raises(InputError, match="line 4"):
        read_text('step,loss,note\n1,2,"two\nlines"\n2,x,\n')
