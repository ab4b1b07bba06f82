"""Neptune: what neptune-exporter writes (Parquet), and tables of series (CSV).

Parquet: a row a value, with `run_id`, `attribute_path`, `attribute_type`, `step` and `float_value`; of it the
attributes of type `float_series` are read, and each run in it becomes one. CSV: a table with a column `run` or
`experiment` beside `step`, as `fetch_metrics` gives it; or one series with `step` and `value`, which does not say
what it is: `--map value=loss`.
"""

from collections.abc import Iterator
from pathlib import Path

from trainwreck.evaluation.errors import InputError
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
        for number, (run, name, step, value) in enumerate(_values(file), start=1):
            if value is not None:
                at = Numbers().step(step, f"{file}: value {number} of {name!r}, run {run}")
                if at is None:
                    raise InputError(f"{file}: {name!r} of run {run} has a value without a step; allowed: a step")
                runs.setdefault(run, {}).setdefault(name, Points()).add(checked_step(at, str(file)), value)
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
    except pa.ArrowInvalid:
        return False


def _values(file: Path) -> Iterator[tuple[str, str, str | None, float | None]]:
    """Run, attribute, step and value of every entry of a series, in the order of the file."""
    import pyarrow.parquet as pq

    columns = pq.read_table(file, columns=list(COLUMNS)).to_pydict()
    for run, name, kind, step, value in zip(*(columns[column] for column in COLUMNS), strict=True):
        if kind == SERIES:
            yield run, name, None if step is None else str(step), value
