"""What a log does not say is answered by one flag, or refused with its place: steps, names, units, runs."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.readers import read
from trainwreck.evaluation.logs.rules import to_trace


def test_rows_without_a_step_are_numbered(read_text: Any) -> None:
    text = "epoch,loss,val_loss\n0,3,\n0,2,\n0,,2.5\n1,1,\n"
    with pytest.raises(InputError, match=r"name it with --map COLUMN=step, or number the rows with --every N"):
        read_text(text)
    trace, _, log = read_text(text, every=50)
    assert trace.steps.tolist() == [50, 100, 150]
    assert trace.evaluated.tolist() == [False, True, False], "validation alone is of the row before it"
    assert (log.choice.step, log.rules) == (None, {"rows numbered 50 apart": 3})


def test_a_step_within_an_epoch_is_no_step(read_text: Any) -> None:
    text = "epoch,step,loss\n" + "".join(f"{e},{i},{3 - e}\n" for e in range(2) for i in range(3))
    with pytest.raises(InputError, match=r"line 5: column 'step' falls from 2 to 0 as 'epoch' rises from 0 to 1"):
        read_text(text)
    trace, _, log = read_text(text, every=1)
    assert trace.steps.tolist() == [1, 2, 3, 4, 5, 6]
    assert log.choice.ignored["step"] == "the rows are numbered with --every"
    resumed = "epoch,step,loss\n0,1,3\n1,2,3\n1,3,3\n1,2,3\n1,3,3\n"
    assert read_text(resumed)[0].steps.tolist() == [1, 2, 3]


def test_steps_that_begin_again_are_a_question(read_text: Any) -> None:
    """Without an epoch too: three passes over ten steps were one of ten rows."""
    text = "step,loss\n" + "".join(f"{i},{9 - e}\n" for e in range(3) for i in range(10))
    with pytest.raises(InputError, match=r"line 12: column .step. goes from 0 to 9 a second time, .* --every N"):
        read_text(text)
    assert read_text(text, every=1)[0].steps.tolist() == list(range(1, 31))
    kept = read_text(text, "step=step")[0]
    assert (kept.steps.tolist(), set(kept["loss"].tolist())) == (list(range(10)), {7.0})


@pytest.mark.parametrize(
    "steps",
    [
        [0, 1, 2, 3, 2, 3, 4],  # resumed
        [0, 1, 2, 3, 0, 1, 2, 3, 4, 5],  # begun again, and longer
        [0, 1, 0, 1],  # too short to tell
        [3, 2, 1, 0],
    ],
)
def test_a_run_that_was_resumed_is_none(steps: list[int], read_text: Any) -> None:
    text = "step,loss\n" + "".join(f"{step},2\n" for step in steps)
    assert read_text(text)[0].steps.tolist() == sorted(set(steps))


def test_nor_is_a_signal_whose_rows_follow_those_of_another(read_text: Any) -> None:
    text = "step,loss,val_loss\n" + "".join(f"{i},2,\n" for i in range(9)) + "".join(f"{i},,3\n" for i in range(9))
    trace = read_text(text)[0]
    assert (trace.steps.tolist(), trace.evaluated.all()) == (list(range(9)), True)


@pytest.mark.parametrize("every", [0, -3, 2**31])
def test_no_other_distance(every: int, read_text: Any) -> None:
    with pytest.raises(InputError, match=rf"--every: {every} is not allowed"):
        read_text("loss\n1\n", every=every)


def test_a_format_with_steps_of_its_own_takes_no_other(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--every: not allowed for .*: mlflow has a step with every value"):
        read(tmp_path, "mlflow", every=1)


def test_two_spellings_of_one_name_are_a_question(read_text: Any) -> None:
    text = "step,Train/Loss,train_loss\n1,2,3\n"
    with pytest.raises(InputError, match=r"'Train/Loss' and 'train_loss' are both loss; name one with --map") as error:
        read_text(text)
    assert "run.csv" in str(error.value)
    trace, _, log = read_text(text, "train_loss=loss")
    assert (trace["loss"].tolist(), log.choice.ignored["Train/Loss"]) == ([3.0], "loss is read from 'train_loss'")


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("step,loss,loss\n1,2,3\n", "run.csv", r"run\.csv, line 1: column 'loss' stands twice in the header"),
        (
            '{"step": 1, "loss": 2}\n{"step": 2, "loss": 2, "loss": 3}\n',
            "a.jsonl",
            r"line 2: 'loss' stands twice in one",
        ),
        (
            '{"step": 1, "train/loss": 2, "train": {"loss": 3}}\n',
            "a.jsonl",
            r"line 1: 'train/loss' stands twice in one",
        ),
    ],
)
def test_one_name_twice_is_refused_with_its_line(text: str, name: str, message: str, read_text: Any) -> None:
    with pytest.raises(InputError, match=message):
        read_text(text, name=name)


@pytest.mark.parametrize(("column", "unit"), [("val_bpb", "bits"), ("val ppl", "perplexity")])
def test_losses_in_two_units_are_refused(column: str, unit: str, read_text: Any) -> None:
    with pytest.raises(InputError, match=rf"'{column}' is in {unit} and 'loss' in nats by their names; .* --map"):
        read_text(f"step,loss,{column}\n1,2,3\n", f"{column}=validation_loss")
    assert read_text(f"step,loss,{column}\n1,2,3\n")[2].choice.ignored == {column: "no known signal"}
    both = read_text("step,train_bpb,val_bpb\n1,2,3\n", "train_bpb=loss", "val_bpb=validation_loss")
    assert both[0]["loss"].tolist() == [2.0]


def test_a_column_of_runs_parts_a_table(tmp_path: Path) -> None:
    file = tmp_path / "series.csv"
    file.write_text("run,step,metrics/x,train/loss\nR-1,1,5,3\nR-2,1,5,4\nR-1,2,5,2\n", encoding="utf-8")
    logs = read(file)
    assert [(log.name, to_trace(log, "r")[0]["loss"].tolist()) for log in logs] == [("R-1", [3.0, 2.0]), ("R-2", [4.0])]
    file.write_text("run,step,train/loss\nR-1,1,3\nR-2,1,4\n,2,2\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"series\.csv, line 4: column 'run' is empty"):
        read(file)


@pytest.mark.parametrize("header", ["sys/id,sys/state,train/loss", "Name,State,Created,train/loss"])
def test_a_table_with_a_row_a_run_is_refused(header: str, read_text: Any) -> None:
    with pytest.raises(InputError, match=r"run\.csv: a table of runs, one row each, has no steps"):
        read_text(f"{header}\nA-1,{header.count(',') * 'x,'}".rstrip(",") + "\n")


def test_a_chart_without_ranges(tmp_path: Path) -> None:
    file = tmp_path / "chart.csv"
    file.write_text("Step,fast - train/loss,slow - train/loss\n1,3,4\n2,2,\n3,1,\n4,1,\n", encoding="utf-8")
    fast, slow = read(file)
    assert (fast.format, fast.name, slow.name) == ("wandb", "fast", "slow")
    assert to_trace(slow, "r")[0].steps.tolist() == [1], "a run ends where it has no values any more"
    file.write_text("Step,train - loss,val - loss\n1,3,4\n", encoding="utf-8")
    (log,) = read(file)
    assert (log.format, sorted(map(str, log.points))) == ("csv", ["loss", "validation_loss"])


def neptune(path: Path, rows: list[tuple[str, str, str, str | None, float | None]]) -> Path:
    run, name, kind, step, value = zip(*rows, strict=True)
    steps = pa.array([None if s is None else Decimal(s) for s in step], pa.decimal128(18, 6))
    table = pa.table(
        {"run_id": run, "attribute_path": name, "attribute_type": kind, "step": steps,
         "float_value": pa.array(value, pa.float64())}
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


SERIES = "float_series"


def test_neptunes_export(tmp_path: Path) -> None:
    rows = [
        ("R-1", "train/loss", SERIES, "1", 3.0),
        ("R-1", "train/loss", SERIES, "2", float("nan")),
        ("R-1", "params/lr", "float", None, 0.1),
    ]
    neptune(tmp_path / "data" / "R-1_part_0.parquet", rows)
    neptune(tmp_path / "data" / "R-2_part_0.parquet", [("R-2", "val/loss", SERIES, "5", 2.0)])
    first, second = read(tmp_path / "data")
    assert (first.format, first.name, second.name) == ("neptune", "R-1", "R-2")
    assert [file.name for file in first.files] == ["R-1_part_0.parquet"]
    trace = to_trace(first, "r")[0]
    assert (trace.steps.tolist(), str(trace["loss"].tolist())) == ([1, 2], "[3.0, nan]")
    neptune(tmp_path / "half.parquet", [("R-1", "train/loss", SERIES, "1.5", 3.0)])
    with pytest.raises(InputError, match=r"half\.parquet: value 1 of 'train/loss', run R-1: step '1.500000' is not a"):
        read(tmp_path / "half.parquet")
    with pytest.raises(InputError, match="--every: not allowed"):
        read(tmp_path / "data", every=2)


def test_one_series_says_what_it_is_by_the_map(read_text: Any) -> None:
    text = ",step,value,timestamp\n0,1.0,3.5,2001-02-03\n1,2.0,2.5,2001-02-03\n"
    with pytest.raises(InputError, match="no column is a known signal"):
        read_text(text)
    trace, _, log = read_text(text, "value=loss", format="neptune")
    assert (log.format, trace["loss"].tolist()) == ("neptune", [3.5, 2.5])
