"""What a detector in a process of its own may take."""

import math
from dataclasses import dataclass, fields
from pathlib import Path

from trainwreck.evaluation.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """row_seconds: wall time of one row. start_seconds: of loading, and of each reset. memory_mb: resident, in
    MiB, of all its processes; a single allocation of twice as much fails at once. output_kb: what it prints in a run,
    and one answer of a command, in KiB. disk_mb: files in its folder, in MiB. minutes: wall time of all runs together,
    for each 1,000 runs and at least once. batch: rows that are handed over at a time; the process sees them one by one,
    and with 1 no later row is in it when it answers. readable: files and folders that it may read besides Python, the
    system's programs and its own file. confined: whether the system is asked to keep it to these.

    Raises InputError for a limit that is not allowed.
    """

    row_seconds: float = 10.0
    start_seconds: float = 60.0
    memory_mb: float = 2048.0
    output_kb: float = 1024.0
    disk_mb: float = 256.0
    minutes: float = 10.0
    batch: int = 1
    readable: tuple[str, ...] = ()
    confined: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "readable", tuple(str(Path(path).absolute()) for path in self.readable))
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "readable":
                for path in value:
                    if not Path(path).exists():
                        raise InputError(f"readable: {path!r} is not there; allowed: a file or folder")
            elif field.name == "confined":
                continue
            elif field.name == "batch":
                if not (isinstance(value, int) and 1 <= value <= 1024):
                    raise InputError(f"batch: {value!r} is not allowed; allowed: 1 to 1024")
            elif not (isinstance(value, (int, float)) and 0 < value < math.inf):
                raise InputError(f"{field.name}: {value!r} is not allowed; allowed: a finite number above 0")
