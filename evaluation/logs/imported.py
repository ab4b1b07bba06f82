"""From logs to a data set that `load` opens, with nothing in it that the logs do not have.

Every run's kind is `imported`: cause and onset come from an injection, and here there was none. Labels
written by people, in a file of labels, are kept in the manifest. They are not labels by
experiment, so detectors are shown these runs but not scored on them:

manifest["imported"]   one entry a run, in the order of the runs table
    run_id, log, name, format         what was read, as it was given; which run in it
    files                             {file: sha256}
    step, columns, ignored            the step's column; column to signal; other column to why not
    rules                             what the reader skipped or rewrote, counted
    blanks                            blank cells read as nan and as missing by signal, and by which rule (`blanks`)
    signals                           signal to what `rules` did with its points
    label                             outcome, failure_step, cause and cluster as given; None without a label
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256 as checksum
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trainwreck.evaluation.dataset.dataset import IMPORTED, write_manifest, write_runs, write_telemetry
from trainwreck.evaluation.dataset.schema import RUN_FIELDS, RunKind
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import sha256, write_folder
from trainwreck.evaluation.logs.labels import Label, read_labels
from trainwreck.evaluation.logs.limits import LogLimits, Memory
from trainwreck.evaluation.logs.log import Log
from trainwreck.evaluation.logs.names import Target
from trainwreck.evaluation.logs.readers.formats import read
from trainwreck.evaluation.logs.rules import to_trace


def import_logs(
    paths: Sequence[Path],
    out: Path,
    *,
    format: str | None = None,
    mapping: Mapping[str, Target] | None = None,
    labels: Path | None = None,
    blank: str | None = None,
    every: int | None = None,
    pattern: str | None = None,
    limits: LogLimits | None = None,
) -> list[dict[str, Any]]:
    """Write the data set; the entries of its manifest. Nothing is written where any log is refused.

    mapping, blank, every, pattern, limits: see `read`.
    """
    given = read_labels(labels) if labels else {}
    entries: list[dict[str, Any]] = []
    traces: list[Trace] = []
    seen: set[str] = set()
    memory = Memory(limits)
    for path in paths:
        for log in read(path, format, mapping, blank=blank, every=every, pattern=pattern, limits=limits):
            seen |= {*log.choice.signals, *([log.choice.step] if log.choice.step else [])}
            entry, trace = _entry(path, log, given, memory)
            twin = next((other for other in entries if other["run_id"] == entry["run_id"]), None)
            if twin is not None:
                raise InputError(f"{log.place}: the same log as {twin['log']}; allowed: each once")
            entries.append(entry)
            traces.append(trace)
    unused = [column for column in mapping or {} if column not in seen]
    if unused:
        raise InputError(f"--map: no log has a column {unused[0]!r}")
    _check_labels(labels, given, entries)
    write_folder(out, lambda folder: _write(folder, entries, traces))
    return entries


def _entry(path: Path, log: Log, given: Mapping[str, Label], memory: Memory) -> tuple[dict[str, Any], Trace]:
    root = path if path.is_dir() else path.parent
    files = {file.relative_to(root).as_posix(): sha256(file) for file in log.files}
    run_id = _run_id(path, log.name, files)
    trace, account = to_trace(log, run_id, memory)
    label = given.get(said_name(path, log.name))
    _check_label(label, trace, log)
    columns = {name: target for name, target in log.choice.signals.items() if log.points[target].steps}
    empty = {name: "empty" for name in log.choice.signals if name not in columns}
    entry = {
        "run_id": run_id,
        "log": str(path),
        "name": log.name,
        "format": log.format,
        "files": files,
        "step": log.choice.step,
        "columns": {name: str(target) for name, target in columns.items()},
        "ignored": dict(sorted((log.choice.ignored | empty).items())),
        "rows": len(trace),
        "first_step": int(trace.steps[0]),
        "last_step": int(trace.steps[-1]),
        "rules": dict(sorted(log.rules.items())),
        "blanks": None if log.blanks is None else asdict(log.blanks),
        "signals": account,
        "label": None if label is None else label.to_dict(),
    }
    return entry, trace


def said_name(path: Path, name: str) -> str:
    """What a file of labels calls a run: the log as it was given, its last part, and which run in it."""
    return path.name + (f"/{name}" if name else "")


def _run_id(path: Path, name: str, files: Mapping[str, str]) -> str:
    """A readable part, and a hash of what was read."""
    stem = name or (path.stem if path.is_file() else path.resolve().name)
    readable = re.sub(r"[^A-Za-z0-9.-]+", "_", stem).strip("_.-")[:40]
    digest = checksum(repr((name, sorted(files.values()))).encode()).hexdigest()[:8]
    return f"{readable}-{digest}" if readable else digest


def _check_label(label: Label | None, trace: Trace, log: Log) -> None:
    step = None if label is None else label.failure_step
    if step is not None and not trace.steps[0] <= step <= trace.steps[-1]:
        assert label is not None
        raise InputError(
            f"{label.place}: failure_step {step} is not in {log.place}; allowed: {trace.steps[0]} to {trace.steps[-1]}"
        )


def _check_labels(file: Path | None, given: Mapping[str, Label], entries: Sequence[dict[str, Any]]) -> None:
    """InputError where a file of labels has labels, but for none of the logs."""
    if given and not any(entry["label"] for entry in entries):
        raise InputError(
            f"{file}: it names none of these logs; allowed in its first column: {Path(entries[0]['log']).name} "
            "and the like, with /RUN where a log holds several"
        )


def _write(folder: Path, entries: Sequence[dict[str, Any]], traces: Sequence[Trace]) -> None:
    rows = []
    for entry, trace in zip(entries, traces, strict=True):
        row: dict[str, Any] = dict.fromkeys(name for name, _, _ in RUN_FIELDS)
        row |= dict.fromkeys(("scenario", "cause", "family", "split", "severity", "size", "base", "twin_id"), "")
        row |= {"causes": "{}", "visible_steps": "{}", "context": "{}", "spec": "{}"}
        row |= {"run_id": trace.run_id, "kind": RunKind.IMPORTED.value, "last_step": entry["last_step"]}
        row["file"] = f"telemetry/{trace.run_id}.parquet"
        write_telemetry(folder, row["file"], [trace])
        rows.append(row)
    write_runs(folder, rows)
    write_manifest(
        folder, {"plan": IMPORTED, IMPORTED: list(entries), "environment": {"trainwreck": version("trainwreck")}}
    )
