"""What a diagnosis is asked about: the runs of a log that `import` can read, or of a data set."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import named
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.logs.imported import said_name
from trainwreck.evaluation.logs.limits import LogLimits, Memory
from trainwreck.evaluation.logs.names import Target
from trainwreck.evaluation.logs.readers.formats import read
from trainwreck.evaluation.logs.rules import to_trace

MOST_NAMES = 3  # of runs in a message


@dataclass(frozen=True)
class Subjects:
    """Runs by name; iterating gives name and telemetry of each, which is read then."""

    names: tuple[str, ...]
    trace: Callable[[str], Trace]

    def __iter__(self) -> Iterator[tuple[str, Trace]]:
        return ((name, self.trace(name)) for name in self.names)

    def __len__(self) -> int:
        return len(self.names)


def subjects(
    log: Path,
    run: str | None = None,
    *,
    format: str | None = None,
    mapping: Mapping[str, Target] | None = None,
    blank: str | None = None,
    every: int | None = None,
    pattern: str | None = None,
    limits: LogLimits | None = None,
) -> Subjects:
    """The runs of a log, or the one that is named. A data set is a folder with a manifest, or "sample".

    format, mapping, blank, every, pattern: as for `import`, not allowed for a data set. limits: of a log. InputError as
    there, and for a run that is not there.
    """
    folder = named(log)
    if (folder / "manifest.json").is_file():
        given = {"format": format, "map": mapping or None, "blank": blank, "every": every, "pattern": pattern}
        refused = next((name for name, value in given.items() if value is not None), None)
        if refused:
            raise InputError(f"--{refused}: not allowed for the data set {log}; allowed: for logs")
        data = load(folder)
        chosen = data.runs["run_id"].tolist() if run is None else [data.run(run)["run_id"]]
        return Subjects(tuple(map(str, chosen)), data.trace)
    found = read(log, format, mapping, blank=blank, every=every, pattern=pattern, limits=limits)
    logs = {said_name(log, one.name): one for one in found}
    seen = {name for one in found for name in (*one.choice.signals, one.choice.step)}
    unused = [column for column in mapping or {} if column not in seen]
    if unused:
        raise InputError(f"--map: {log} has no column {unused[0]!r}")
    chosen = [name for name, one in logs.items() if run in (None, name, one.name)]
    if not chosen:
        raise unknown("run", run, [one.name or name for name, one in logs.items()])
    return Subjects(tuple(chosen), lambda name: to_trace(logs[name], name, Memory(limits))[0])


def only(found: Subjects, log: Path) -> tuple[str, Trace]:
    """The one run; InputError for several, with the names of some."""
    if len(found) > 1:
        names = ", ".join(found.names[:MOST_NAMES])
        raise InputError(f"{log}: it has several runs, and one is asked for; allowed: one of {names} ...")
    return next(iter(found))
