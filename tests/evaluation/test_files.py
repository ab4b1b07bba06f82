"""Files are whole or not there; reading a broken one is one line."""

import hashlib
import json
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import (
    csv_cell,
    read_json,
    sha256,
    write_atomically,
    write_csv,
    write_folder,
    write_json,
    write_parquet,
    write_text,
)


def put(text: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(text)

    return write


def test_the_new_file_takes_the_place_of_the_old(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "a.txt"
    write_atomically(file, put("old"))
    write_atomically(file, put("new"))
    assert file.read_text() == "new"
    assert list(file.parent.iterdir()) == [file]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644, "others may read it, unlike a temporary file"


def test_it_is_written_beside_its_place_so_that_moving_it_is_one_step(tmp_path: Path) -> None:
    file, seen = tmp_path / "a.txt", []
    file.write_text("old")

    def write(path: Path) -> None:
        seen.append(path.parent)
        path.write_text("half")
        assert file.read_text() == "old", "untouched until the new one is whole"

    write_atomically(file, write)
    assert seen == [tmp_path]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, ValueError])
@pytest.mark.parametrize("existing", [True, False])
def test_an_exception_leaves_the_old_file_and_no_litter(
    error: type[BaseException], existing: bool, tmp_path: Path
) -> None:
    file = tmp_path / "a.txt"
    if existing:
        file.write_text("old")

    def write(path: Path) -> None:
        path.write_text("half")
        raise error("broken off")

    with pytest.raises(error, match="broken off"):
        write_atomically(file, write)
    assert {f.name: f.read_text() for f in tmp_path.iterdir()} == ({"a.txt": "old"} if existing else {})


def test_a_move_that_fails_leaves_no_litter(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    (folder / "inside").mkdir(parents=True)
    with pytest.raises((InputError, OSError)):
        write_atomically(folder, put("new"))
    assert [f.name for f in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't be written") as error:
        write_atomically(tmp_path / "file" / "a.txt", put("new"))
    assert "\n" not in str(error.value)
    assert str(tmp_path / "file" / "a.txt") in str(error.value)


def test_json_is_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    content = {"b": [1, 2.5, None, True], "a": {"text": "caf\u00e9"}}
    write_json(tmp_path / "1.json", content)
    write_json(tmp_path / "2.json", dict(reversed(content.items())))
    assert read_json(tmp_path / "1.json") == content
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_json_cannot_hold_is_refused_and_the_old_file_stays(value: object, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_json(file, {"old": 1})
    with pytest.raises((ValueError, TypeError)):
        write_json(file, {"new": value})
    assert read_json(file) == {"old": 1}
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "missing"),
        (b"", "damaged, not JSON"),
        (b'{"a": 1', "damaged, not JSON"),
        (b'{"a": 1}}', "damaged, not JSON"),
        (b"\xff\xfe\x00", "damaged, not JSON"),
    ],
)
def test_a_bad_json_file_is_one_line_that_names_it(content: bytes | None, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_json(file)
    assert str(error.value).startswith(f"{file}: {complaint}")
    assert "\n" not in str(error.value)


def test_parquet_has_a_row_group_a_table_and_the_same_bytes_again(tmp_path: Path) -> None:
    tables = [pa.table({"x": np.arange(n, dtype=np.float32)}) for n in (5, 1, 300)]
    for name in ("1", "2"):
        write_parquet(tmp_path / name, tables)
    file = pq.ParquetFile(tmp_path / "1")
    assert [file.read_row_group(i) for i in range(file.num_row_groups)] == tables
    assert file.metadata.row_group(2).column(0).compression == "ZSTD"
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_sha256_is_that_of_the_bytes(tmp_path: Path) -> None:
    file = tmp_path / "a"
    for content in (b"", json.dumps(list(range(9999))).encode()):
        file.write_bytes(content)
        assert sha256(file) == hashlib.sha256(content).hexdigest()


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"

    def broken(folder: Path) -> None:
        (folder / "half").write_text("half", encoding="utf-8")
        raise InputError("no")

    with pytest.raises(InputError, match=r"^no$"):
        write_folder(out, broken)
    assert list(out.parent.iterdir()) == []
    out.mkdir()
    write_folder(out, lambda folder: (folder / "whole").write_text("whole", encoding="utf-8"))
    assert [path.name for path in out.parent.rglob("*")] == ["out", "whole"]
    assert out.stat().st_mode & 0o777 == tmp_path.joinpath("deep").stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("name", "why"), [("file", "'.*file' is a file"), ("full", "'.*full' is not empty"), ("file/x", "can't be written")]
)
def test_a_folder_that_is_taken_is_left_alone(name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "full" / "thesis").write_text("mine", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=why):
        write_folder(tmp_path / name, lambda folder: None)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("text", ["=1+1", "+1 step", "-2 steps", "@SUM(A1)", "\t=1", "\r=1", "=HYPERLINK(1)"])
def test_text_that_a_spreadsheet_would_run_is_quoted(text: str, tmp_path: Path) -> None:
    assert csv_cell(text) == f"'{text}".replace("\r", " ")
    write_csv(tmp_path / "a.csv", pd.DataFrame([{"name": text, "number": -1.5, "=head": 1}]))
    found = pd.read_csv(tmp_path / "a.csv")
    assert found.columns.tolist() == ["name", "number", "'=head"]
    assert found["number"].tolist() == [-1.5]
    assert found["name"][0].startswith("'")


@pytest.mark.parametrize("value", [-1.5, 3, "Ada", "-1.5", "+2", "a=1", "", None])
def test_numbers_and_other_text_stay(value: object) -> None:
    assert csv_cell(value) == value


def test_half_of_a_surrogate_pair_becomes_its_code(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "a\ud800b")
    assert (tmp_path / "a.txt").read_text("utf-8") == "a\\ud800b"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' + "1" * 5000 + "}", '{"a": "\\'])
def test_json_that_breaks_a_parser_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.json: damaged, not JSON \("):
        read_json(tmp_path / "a.json")
