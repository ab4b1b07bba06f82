"""Files that are whole or not there: atomic writes and checksums."""

import hashlib
import io
import json
import os
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from trainwreck.evaluation.errors import InputError, printable

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what a cell begins with that a spreadsheet takes for a formula

DEEPEST = 100  # brackets within brackets of a JSON document


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a temporary path beside `path`, then move it there in one step.

    InputError where the system does not let it: a folder that can't be made, a full disk.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror or error})") from error


def write_folder(path: Path, fill: Callable[[Path], object]) -> None:
    """Call `fill` with a temporary folder beside `path`, then move it there in one step.

    InputError where `path` holds something already, or the system does not let it.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        what = "is not empty" if path.is_dir() else "is a file"
        raise InputError(f"out: {str(path)!r} {what}; allowed: a folder that is new or empty")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tmp-", dir=path.parent) as name:
            made = Path(name) / "made"
            made.mkdir()
            fill(made)
            if path.exists():
                path.rmdir()
            made.replace(path)
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror or error})") from error


@contextmanager
def locked(lock: Path, folder: Path, setting: str = "out") -> Iterator[None]:
    """Hold a lock file while `folder` is written. InputError where another process has it, or it can't be made."""
    held = FileLock(lock, timeout=0)
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        held.acquire()
    except Timeout:
        raise InputError(f"{setting}: {str(folder)!r} is being written by another process") from None
    except OSError as error:
        raise InputError(f"{folder}: can't be written ({error.strerror or error})") from error
    try:
        yield
    finally:
        held.release()


def write_json(path: Path, content: Any) -> None:
    """Sorted, indented JSON, atomically. NaN is refused: JSON has none."""
    text = json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n"
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """UTF-8 text, atomically. What UTF-8 has no place for (a file's name can hold it) is written as its code."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", errors="backslashreplace"))


def csv_cell(value: Any) -> Any:
    """A cell for a CSV that people open: an apostrophe goes before text that a spreadsheet would run as a formula.

    >>> csv_cell("=1+1"), csv_cell("-2 steps"), csv_cell("-2.5"), csv_cell(-2.5), csv_cell("Ada")
    ("'=1+1", "'-2 steps", '-2.5', -2.5, 'Ada')
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r", " ")  # alone it ends a row for some readers
    if not value.startswith(FORMULAS):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def write_csv(path: Path, table: "pd.DataFrame") -> None:
    """A table as a CSV that people open, atomically; see `csv_cell`."""
    cells = table.map(csv_cell).rename(columns=csv_cell)
    write_text(path, cells.to_csv(index=False, lineterminator="\n"))


def read_json(path: Path) -> Any:
    """Content of a JSON file; InputError with the file's name where it is missing or broken."""
    check_regular(path)
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: missing") from None
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error})") from None
    except ValueError as error:
        raise InputError(f"{path}: damaged, not JSON ({printable(error)})") from None


def parse_json(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """What a JSON text says. pairs: see `json.loads`. ValueError for anything that Python can't hold safely too.

    That is a document with more than `DEEPEST` brackets inside each other, and a whole number of more digits than
    Python converts.
    """
    try:
        found = json.loads(text, object_pairs_hook=pairs)
    except RecursionError:
        raise ValueError(f"over {DEEPEST} brackets deep") from None
    if text.count("[") + text.count("{") > DEEPEST:
        level = [found]
        for _ in range(DEEPEST):
            level = [one for value in level if isinstance(value, (dict, list)) for one in _parts(value)]
            if not level:
                return found
        raise ValueError(f"over {DEEPEST} brackets deep")
    return found


def _parts(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return (one for one in (value.values() if isinstance(value, dict) else value) if isinstance(one, (dict, list)))


def check_regular(path: Path) -> None:
    """InputError for what may never end when it is read, or never begin: a FIFO, a device, a socket."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return  # whoever opens it says why
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "a FIFO" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise InputError(f"{path}: {kind} is not allowed; allowed: a file or folder")


def write_parquet(path: Path, tables: Iterable[pa.Table]) -> None:
    """One row group a table (at least one), zstd, atomically. The same tables give the same bytes.

    Numbers that hardly repeat gain nothing from a dictionary; with their bytes split into streams, signs
    and exponents lie together and pack well (higher levels of zstd gain 2 % more). With the smallest and
    largest run_id of each group on record, a reader that wants one run skips the others.
    """
    groups = iter(tables)
    first = next(groups)
    schema = first.schema
    floats = [name for field in schema for name in _float_columns(field)]
    others = [field.name for field in schema if not _float_columns(field)]

    def write(temporary: Path) -> None:
        with pq.ParquetWriter(
            temporary,
            schema,
            compression="zstd",
            use_dictionary=others,
            use_byte_stream_split=floats,
            write_statistics=["run_id"],
        ) as writer:
            for table in chain([first], groups):
                writer.write_table(table, row_group_size=max(1, len(table)))

    write_atomically(path, write)


def _float_columns(field: pa.Field) -> list[str]:
    """The name, as Parquet has it, of a column of floats or of lists of them; none for another."""
    if pa.types.is_list(field.type) and pa.types.is_floating(field.type.value_type):
        return [f"{field.name}.list.element"]
    return [field.name] if pa.types.is_floating(field.type) else []


def write_arrays(path: Path, facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Numbers and one piece of JSON as a compressed .npz, atomically. The same content gives the same bytes."""
    import numpy as np

    text = np.frombuffer(json.dumps(facts, sort_keys=True, allow_nan=False).encode(), dtype=np.uint8)

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, facts=text, **arrays)

    write_atomically(path, save)


def read_arrays(path: Path, command: str) -> tuple[dict[str, Any], dict[str, "np.ndarray"]]:
    """What `write_arrays` wrote; nothing in the file runs. InputError where it is missing, damaged or another's.

    command: what writes such files, for the message.
    """
    import numpy as np

    foreign = InputError(f"{path}: damaged, or not what `{command}` writes")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: missing") from None
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error})") from None
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        facts = json.loads(arrays.pop("facts").tobytes().decode())
    except (ValueError, KeyError, EOFError, AttributeError, TypeError, OSError, zipfile.BadZipFile, zlib.error):
        raise foreign from None
    if not isinstance(facts, dict):
        raise foreign
    return facts, arrays


def copy(source: Path, path: Path) -> None:
    """The bytes of another file, atomically."""
    write_atomically(path, lambda temporary: temporary.write_bytes(source.read_bytes()))


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
