"""Labels of real runs, written by people: a CSV with a row a run.

file          the log as it was given, its last part, with /RUN behind it where a log holds several runs;
              a data set's run_id serves too when it is scored
outcome       healthy, failed or unknown
failure_step  may be missing: the step at which someone saw the failure, which is no onset
cause         may be missing
cluster       may be missing: what the run shares with others, a sweep or a code base

The first three are also known as run, status and step. Other columns are left alone.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.logs.readers.csv import Table

HEALTHY, FAILED, UNKNOWN = OUTCOMES = ("healthy", "failed", "unknown")
COLUMNS = {
    "file": ("file", "run"),
    "outcome": ("outcome", "status"),
    "failure_step": ("failure_step", "step"),
    "cause": ("cause",),
    "cluster": ("cluster",),
}


@dataclass(frozen=True)
class Label:
    """The label of one run. place: its file and line."""

    outcome: str
    failure_step: int | None
    cause: str | None
    cluster: str | None
    place: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe, without the place."""
        facts = asdict(self)
        del facts["place"]
        return facts


def read_labels(file: Path) -> dict[str, Label]:
    """Labels by the name of the log. InputError, with the line, for anything but the above."""
    if not file.is_file():
        raise InputError(f"--labels: {str(file)!r} is not a file")
    table = Table(file)
    spelt = {column: _spelt(table, column, names) for column, names in COLUMNS.items()}
    table.once([name for name in spelt.values() if name])
    found: dict[str, Label] = {}
    for place, row in table.rows:
        cells = {column: row.get(name) if name else None for column, name in spelt.items()}
        if cells["outcome"] not in OUTCOMES:
            raise InputError(str(unknown(f"{place}: {spelt['outcome']}", cells["outcome"], OUTCOMES)))
        step = table.numbers.step(cells["failure_step"], f"{place}: column {spelt['failure_step']!r}")
        if step is not None and cells["outcome"] == HEALTHY:
            raise InputError(
                f"{place}: {spelt['failure_step']} {step} of a healthy run; allowed: of failed and unknown ones"
            )
        name = cells["file"] or ""
        if name in found:
            raise InputError(f"{place}: {name!r} a second time; allowed: each log once")
        found[name] = Label(cells["outcome"], step, cells["cause"] or None, cells["cluster"] or None, place)
    return found


def _spelt(table: Table, column: str, names: tuple[str, ...]) -> str | None:
    """What a column is called in this file; None where it is missing."""
    present = [name for name in names if name in table.header]
    if len(present) > 1:
        raise InputError(f"{table.file}: columns {present[0]!r} and {present[1]!r} are the same; allowed: one of them")
    if not present and column in ("file", "outcome"):
        allowed = ", ".join("/".join(names) for names in COLUMNS.values())
        raise InputError(f"{table.file}: no column {' or '.join(map(repr, names))}; allowed: {allowed}")
    return present[0] if present else None
