"""What a detector in a process of its own may take."""

import math
from dataclasses import dataclass, fields

from trainwreck.evaluation.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """row_seconds: wall time of one row. start_seconds: of loading, and of each reset. memory_mb: resident, in
    MiB; a single allocation of twice as much fails at once. output_kb: what it prints in a run, and one answer of a
    command, in KiB. batch: rows that are handed over at a time; the process sees them one by one, and with 1 no later
    row is in it when it answers.

    Raises InputError for a limit that is not allowed.
    """

    row_seconds: float = 10.0
    start_seconds: float = 60.0
    memory_mb: float = 2048.0
    output_kb: float = 1024.0
    batch: int = 32

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "batch":
                if not (isinstance(value, int) and 1 <= value <= 1024):
                    raise InputError(f"batch: {value!r} is not allowed; allowed: 1 to 1024")
            elif not (isinstance(value, (int, float)) and 0 < value < math.inf):
                raise InputError(f"{field.name}: {value!r} is not allowed; allowed: a finite number above 0")
