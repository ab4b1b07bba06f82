"""What people say of imported runs: a CSV with the columns file, outcome, failure_step and cause.

file is the log as it was given, its last part, with /RUN behind it where a log holds several runs.
outcome is healthy, failed or unknown. failure_step and cause may be missing; other columns are left
alone. A failure's step here is when someone saw it, which is no onset.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.readers.csv import Table

OUTCOMES = ("healthy", "failed", "unknown")


@dataclass(frozen=True)
class Label:
    """What is said of one run. place: where."""

    outcome: str
    failure_step: int | None
    cause: str | None
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
    for column in ("file", "outcome"):
        if column not in table.header:
            raise InputError(f"{file}: no column {column!r}; allowed: file, outcome, failure_step, cause")
    table.once([column for column in ("file", "outcome", "failure_step", "cause") if column in table.header])
    found: dict[str, Label] = {}
    for place, row in table.rows:
        if row["outcome"] not in OUTCOMES:
            raise InputError(str(unknown(f"{place}: outcome", row["outcome"], OUTCOMES)))
        step = table.numbers.step(row.get("failure_step"), f"{place}: column 'failure_step'")
        if step is not None and row["outcome"] == OUTCOMES[0]:
            raise InputError(f"{place}: failure_step {step} of a healthy run; allowed: of failed and unknown ones")
        if row["file"] in found:
            raise InputError(f"{place}: {row['file']!r} a second time; allowed: each log once")
        found[row["file"]] = Label(row["outcome"], step, row.get("cause") or None, place)
    return found
