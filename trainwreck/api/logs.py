"""Functions on the training logs of others."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trainwreck.evaluation.constants import DEFAULT_PROFILE, LOG_COLUMNS, LOG_LINE_KB, LOG_MB

if TYPE_CHECKING:
    from trainwreck.dataset import DataSet
    from trainwreck.evaluation.diagnosis.diagnosis import Diagnosis


def import_logs(
    *logs: str | Path,
    out: str | Path,
    format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    labels: str | Path | None = None,
    blank: str | None = None,
    every: int | None = None,
    pattern: str | None = None,
    log_mb: float = LOG_MB,
    log_columns: int = LOG_COLUMNS,
    log_line_kb: float = LOG_LINE_KB,
) -> "DataSet":
    """Training logs as a data set in a new folder, so that detectors can be run over them.

    format: csv, jsonl, tensorboard, trainer_state, lightning, mlflow, wandb, neptune or text; by default what a log
    looks like. mapping: column to signal, where names differ (docs/logs.md). labels: CSV with run, status, step,
    cause, cluster. blank: nan or missing, what blank cells stand for; by default a rule. every: steps from one row to
    the next, where there is no step. pattern: regular expression of a text log's lines, with groups step and loss.
    log_mb, log_columns, log_line_kb: MiB of memory, columns, and KiB of a line that a log may take; InputError beyond.
    """
    from trainwreck.dataset import load
    from trainwreck.evaluation.logs.imported import import_logs as read
    from trainwreck.evaluation.logs.limits import LogLimits
    from trainwreck.evaluation.logs.readers import parse_mapping

    parsed = parse_mapping([f"{column}={signal}" for column, signal in (mapping or {}).items()])
    file = None if labels is None else Path(labels)
    paths = [Path(log) for log in logs]
    read(
        paths,
        Path(out),
        format=format,
        mapping=parsed,
        labels=file,
        blank=blank,
        every=every,
        pattern=pattern,
        limits=LogLimits(log_mb, log_columns, log_line_kb),
    )
    return load(Path(out))


def diagnose(
    log: str | Path,
    run: str | None = None,
    *,
    format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    blank: str | None = None,
    every: int | None = None,
    pattern: str | None = None,
    profile: str = DEFAULT_PROFILE,
    log_mb: float = LOG_MB,
    log_columns: int = LOG_COLUMNS,
    log_line_kb: float = LOG_LINE_KB,
) -> "Diagnosis":
    """What is wrong with a run, since when and why; or that nothing is that its log could show.

    log: what `import_logs` reads, or the folder of a data set; run: which of its runs, where it has several. format,
    mapping, blank, every, pattern, log_mb, log_columns, log_line_kb: as for `import_logs`. profile: as if only
    that had been logged.
    """
    from trainwreck.evaluation.diagnosis.diagnosis import diagnose as ask
    from trainwreck.evaluation.diagnosis.subjects import only, subjects
    from trainwreck.evaluation.logs.limits import LogLimits
    from trainwreck.evaluation.logs.readers import parse_mapping
    from trainwreck.scenarios.spec.pages import page

    parsed = parse_mapping([f"{column}={signal}" for column, signal in (mapping or {}).items()])
    limits = LogLimits(log_mb, log_columns, log_line_kb)
    runs = subjects(
        Path(log), run, format=format, mapping=parsed, blank=blank, every=every, pattern=pattern, limits=limits
    )
    name, trace = only(runs, Path(log))
    return ask(trace, name, page, profile)
