"""CSV and JSON Lines while they are written: partial lines, rotation, rewritten files."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.live.tables import Csv, JsonLines, Table
from trainwreck.evaluation.logs.names import Target
from trainwreck.evaluation.logs.readers import parse_mapping, read

Follow = Callable[..., Table]
LOSS = Target("loss")
HEADER = "step;train/loss;note;val_loss\r\n"
TEXT = HEADER + '1;3,5;"a;\nb";\r\n2;nan;\u00e9;2,25\r\n\r\n' + HEADER + "3;;x;\r\n4;-inf;x;1\r\n"


def rows(table: Table) -> list[tuple[int, dict[str, float]]]:
    return [(step, {str(target): value for target, value in values.items()}) for step, values in table.poll()]


def append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.csv"


@pytest.fixture
def follow() -> Iterator[Follow]:
    """A table on a file, let go of after the test."""
    with ExitStack() as stack:
        yield lambda path, *mapping: stack.enter_context(
            closing((JsonLines if path.suffix == ".jsonl" else Csv)(path, parse_mapping(mapping)))
        )


def test_every_way_to_cut_a_file_gives_the_rows_that_import_reads(follow: Follow, path: Path) -> None:
    content = ("\ufeff" + TEXT).encode()
    path.write_bytes(content)
    (log,) = read(path)
    expected = {str(target): (points.steps, [str(v) for v in points.values]) for target, points in log.points.items()}
    for cut in range(1, len(content)):
        path.unlink()
        table = follow(path)
        found = list(table.poll())
        append(path, content[:cut])
        found += list(table.poll())
        append(path, content[cut:])
        found += [*table.poll(), *table.finish()]
        table.close()
        points: dict[str, tuple[list[int], list[str]]] = {}
        for step, values in found:
            for target, value in values.items():
                at, have = points.setdefault(str(target), ([], []))
                at.append(step)
                have.append(str(value))
        assert points == expected, cut
        assert table.rules["repeated headers"] == 1


def test_a_last_line_that_is_not_whole_is_waited_for(follow: Follow, path: Path) -> None:
    path.write_text("step,loss\n1,3\n2,", encoding="utf-8")
    table = follow(path)
    assert rows(table) == [(1, {"loss": 3.0})]
    append(path, "2.5")
    assert rows(table) == []
    append(path, "\n")
    assert rows(table) == [(2, {"loss": 2.5})]


@pytest.mark.parametrize(("left", "found"), [("3,1.5", [(3, 1.5)]), ("3", [])])
def test_what_is_left_at_the_end_is_taken_as_import_takes_it(
    follow: Follow, path: Path, left: str, found: list[Any]
) -> None:
    path.write_text("step,loss\n1,3\n" + left, encoding="utf-8")
    table = follow(path)
    list(table.poll())
    assert [(step, values[LOSS]) for step, values in table.finish()] == found
    (log,) = read(path)
    assert log.points[LOSS].steps == [1, *(step for step, _ in found)]
    assert table.rules == log.rules


def test_rotation_reads_the_rest_of_the_old_file_first(follow: Follow, path: Path) -> None:
    path.write_text("step,loss\n1,3\n", encoding="utf-8")
    table = follow(path)
    assert [step for step, _ in table.poll()] == [1]
    append(path, "2,2.9\n")
    path.rename(path.with_suffix(".1"))
    path.write_text("step,loss\n3,2.8\n", encoding="utf-8")
    assert [step for step, _ in table.poll()] == [2, 3]
    append(path, "4,2.7\n")
    assert [step for step, _ in table.poll()] == [4]


def test_a_file_that_is_moved_away_is_read_on_until_another_is_there(follow: Follow, path: Path) -> None:
    path.write_text("step,loss\n1,3\n", encoding="utf-8")
    table = follow(path)
    list(table.poll())
    path.rename(path.with_suffix(".1"))
    append(path.with_suffix(".1"), "2,2.9\n")
    assert [step for step, _ in table.poll()] == [2]
    append(path.with_suffix(".1"), "3,2.8\n")
    path.write_text("4,2.7\n", encoding="utf-8")  # without a header: the old one holds
    assert [step for step, _ in table.poll()] == [3, 4]


def test_a_file_that_was_emptied_goes_on_under_the_old_header(follow: Follow, path: Path) -> None:
    path.write_text("step,loss\n1,3\n2,2.9\n", encoding="utf-8")
    table = follow(path)
    list(table.poll())
    os.truncate(path, 0)
    assert rows(table) == []
    append(path, "3,2.8\n")
    assert rows(table) == [(3, {"loss": 2.8})]


@pytest.mark.parametrize("replace", [True, False], ids=["another file", "in place"])
def test_a_table_that_is_written_again_with_more_columns_is_not_seen_twice(
    follow: Follow, path: Path, replace: bool
) -> None:
    path.write_text("step,loss\n1,3\n2,nan\n", encoding="utf-8")
    table = follow(path)
    assert [step for step, _ in table.poll()] == [1, 2]
    text = "step,loss,val_loss\n1,3,\n2,nan,\n2,,2.5\n3,2.8,\n"
    if replace:
        (path.parent / "new").write_text(text, encoding="utf-8")
        (path.parent / "new").replace(path)
    else:
        path.write_text(text, encoding="utf-8")
    assert rows(table) == [(2, {"validation_loss": 2.5}), (3, {"loss": 2.8})]
    assert table.rules == {"rows written again": 2}


def test_another_run_in_the_same_place_is_read_from_its_start(follow: Follow, path: Path) -> None:
    path.write_text("step,loss\n1,3\n2,2.9\n", encoding="utf-8")
    table = follow(path)
    list(table.poll())
    path.write_text("step,loss\n1,3.1\n", encoding="utf-8")
    assert rows(table) == [(1, {"loss": 3.1})]


def test_json_lines_with_columns_that_come_and_go(follow: Follow, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"config": {"lr": "high"}, "seed": 1}\n{"step": 1, "train": {"loss": NaN}}\n', encoding="utf-8")
    table = follow(path)
    ((step, values),) = table.poll()
    assert (step, list(values)) == (1, [LOSS])
    append(path, '{"step": 2, "eval/loss": 2.5}\n{"step"')
    assert rows(table) == [(2, {"validation_loss": 2.5})]
    assert list(table.finish()) == []
    assert table.rules == {"cut off last line": 1}


def test_a_better_name_that_comes_later_is_taken_as_import_takes_it(follow: Follow, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    lines = [{"step": 1, "train_loss": 3.0}, {"step": 2, "train_loss": 2.9, "loss": 2.0}, {"step": 3, "train_loss": 9}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert rows(follow(path)) == [(1, {"loss": 3.0}), (2, {"loss": 2.0})]
    assert rows(follow(path, "train_loss=loss")) == [
        (1, {"loss": 3.0}), (2, {"loss": 2.9}), (3, {"loss": 9.0}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step,loss\n1,2\n2,3,4\n", "line 3: 3 cells where the header has 2"),
        ("step,loss\n1,two\n", "line 2: column 'loss': 'two' is not a number"),
        ("step,loss\n1,3\n,2\n", "line 3: column 'step' is empty where a value is logged"),
        ("loss\n2\n", "no column is a known step: 'loss'"),
        ("step,loss,loss\n1,2,3\n", "column 'loss' stands twice"),
        ("step,quality\n1,2\n", "no column is a known signal: 'step', 'quality'"),
        (b"step,loss\n1,2\n\xdf\n", "line 3: not UTF-8"),
        ("step,loss\n1,2\n".encode("utf-16"), "UTF-16 is not allowed here"),
        ('step,loss\n1,2\n2,"3"4"\n"\n', "line 4: not CSV"),
    ],
)
def test_what_is_refused(follow: Follow, path: Path, text: str | bytes, message: str) -> None:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    table = follow(path)
    with pytest.raises(InputError) as error:
        print([*table.poll(), *table.finish()])
    assert message in str(error.value)


@pytest.mark.parametrize("line", ["[1]", "{", "3"])
def test_json_that_is_no_object_is_refused(follow: Follow, tmp_path: Path, line: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"step": 1, "loss": 2}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"run.jsonl, line 2: not"):
        list(follow(path).poll())


def test_a_mapped_column_that_never_comes_is_told(follow: Follow, path: Path) -> None:
    path.write_text("step,loss\n1,2\n", encoding="utf-8")
    table = follow(path, "quality=lr")
    list(table.poll())
    with pytest.raises(InputError, match="--map: no log has a column 'quality'"):
        list(table.finish())
