"""Neptune: what neptune-exporter writes (Parquet), and tables of series (CSV).

Parquet: a row a value, with `run_id`, `attribute_path`, `attribute_type`, `step` and `float_value`; of it the
attributes of type `float_series` are read, and each run in it becomes one. CSV: a table with a column `run` or
`experiment` beside `step`, as `fetch_metrics` gives it; or one series with `step` and `value`, which does not say
what it is: `--map value=loss`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.limits import CELL, POINT, Memory
from trainwreck.evaluation.logs.log import Asked, Log, Points, checked_step
from trainwreck.evaluation.logs.names import choose
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.readers.csv import read_csv

COLUMNS = ("run_id", "attribute_path", "attribute_type", "step", "float_value")
SERIES = "float_series"


def exported_files(path: Path) -> list[Path]:
    """A Parquet file itself, or every one under a folder that has the columns of an export."""
    return [file for file in ([path] if path.is_file() else sorted(path.rglob("*.parquet"))) if _is_export(file)]


def read_neptune(path: Path, asked: Asked) -> list[Log]:
    """Every run of an export, named by its id."""
    if path.is_file() and path.suffix != ".parquet":
        return read_csv(path, asked, "neptune")
    files = exported_files(path)
    if not files:
        raise InputError(f"{path}: no Parquet file with the columns {', '.join(COLUMNS)} in it")
    runs: dict[str, dict[str, Points]] = {}
    sources: dict[str, dict[Path, None]] = {}
    for file in files:
        for number, (run, name, step, value) in enumerate(_values(file, asked.memory), start=1):
            if value is not None:
                at = Numbers().step(step, f"{file}: value {number} of {name!r}, run {run}")
                if at is None:
                    raise InputError(f"{file}: {name!r} of run {run} has a value without a step; allowed: a step")
                asked.memory.take(POINT, str(file))
                runs.setdefault(run, {}).setdefault(name, Points()).add(checked_step(at, str(file)), value)
                asked.memory.limits.check_columns(len(runs[run]), str(file))
                sources.setdefault(run, {})[file] = None
    if not runs:
        raise InputError(f"{path}: no value of a {SERIES} in it")
    logs = []
    for run, series in runs.items():
        choice = choose(list(series), asked.mapping, f"{path} (run {run})", has_step=False)
        points = {target: series[name] for name, target in choice.signals.items()}
        logs.append(Log(run if len(runs) > 1 else "", "neptune", list(sources[run]), choice, points))
    return logs


def _is_export(file: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return file.suffix == ".parquet" and set(COLUMNS) <= set(pq.read_schema(file).names)
    except (pa.ArrowException, OSError):
        return False


def _values(file: Path, memory: Memory) -> Iterator[tuple[str, str, str | None, float | None]]:
    """Run, attribute, step and value of every entry of a series, in the order of the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    memory.take_file(file)
    try:
        whole = pq.ParquetFile(file, read_dictionary=list(COLUMNS[:4]))  # a long text once, however often it stands
        with memory.for_a_while():
            memory.take(CELL * whole.metadata.num_rows, str(file))
            table = whole.read(columns=list(COLUMNS))
            values = table["float_value"].cast(pa.float64())
            columns = [*(_texts(table[name], file) for name in COLUMNS[:4]), values.to_pylist()]
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(f"{file}: damaged, not Parquet of Neptune ({error})") from None
    for run, name, kind, step, value in zip(*columns, strict=True):
        if kind == SERIES:
            if run is None or name is None:
                raise InputError(f"{file}: a value without {COLUMNS[0]} or {COLUMNS[1]}; allowed: both")
            yield run, name, step, value


def _texts(column: Any, file: Path) -> list[str | None]:
    """A column of texts, or of what is written as one, with one object for equal texts."""
    import pyarrow as pa

    found: list[str | None] = []
    for chunk in column.chunks:
        if not pa.types.is_dictionary(chunk.type):
            if pa.types.is_nested(chunk.type):
                raise InputError(f"{file}: a column is {chunk.type}; allowed: text")
            found += [None if one is None else str(one) for one in chunk.to_pylist()]
            continue
        texts = [None if one is None else str(one) for one in chunk.dictionary.to_pylist()]
        found += [None if i is None else texts[i] for i in chunk.indices.to_pylist()]
    return found
