"""What a diagnosis is asked about: the runs of a log that `import` can read, or of a data set."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import named
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.logs.imported import said_name
from trainwreck.evaluation.logs.names import Target
from trainwreck.evaluation.logs.readers.formats import read
from trainwreck.evaluation.logs.rules import to_trace

MOST_NAMES = 3  # of runs in a message


def subjects(
    log: Path, run: str | None = None, *, format: str | None = None, mapping: Mapping[str, Target] | None = None
) -> Iterator[tuple[str, Trace]]:
    """Name and telemetry of each run, or of the one that is named. A data set is a folder with a manifest, or "sample".

    format, mapping: as for `import`, not allowed for a data set. InputError as there, and for a run that is not there.
    """
    folder = named(log)
    if (folder / "manifest.json").is_file():
        if format is not None or mapping:
            raise InputError(f"--format, --map: not allowed for the data set {log}; allowed: for logs")
        data = load(folder)
        for run_id in [data.run(run)["run_id"]] if run is not None else data.runs.index:
            yield str(run_id), data.trace(run_id)
        return
    logs = {said_name(log, one.name): one for one in read(log, format, mapping)}
    seen = {name for one in logs.values() for name in (*one.choice.signals, one.choice.step)}
    unused = [column for column in mapping or {} if column not in seen]
    if unused:
        raise InputError(f"--map: {log} has no column {unused[0]!r}")
    chosen = [name for name, one in logs.items() if run in (None, name, one.name)]
    if not chosen:
        raise unknown("run", run, [one.name or name for name, one in logs.items()])
    for name in chosen:
        yield name, to_trace(logs[name], name)[0]


def only(found: Iterator[tuple[str, Trace]], log: Path) -> tuple[str, Trace]:
    """The one run; InputError for several, with the names of some."""
    first, *others = list(islice(found, MOST_NAMES))
    if others:
        names = ", ".join(name for name, _ in (first, *others))
        raise InputError(f"{log}: it has several runs, and one is asked for; allowed: one of {names} ...")
    return first
