"""Logs as training programs leave them: RUN.csv, RUN.jsonl or RUN.txt with the rows of the profile `logged`.

What a row has is drawn from the run's id (`evaluation/replay/logged/config.py`), and so is how it is written; in
brackets what was measured of the 65 clusters of public logs, the others are assumptions:

form    csv .50, jsonl .13, text .37 [.51, .12, .37]; a log that leaves NaN blank is no text
names   of columns and of lines, one of NAMES or TEXTS
clock   none .40, seconds since the start .35, Unix time .25; with a pause of 10 minutes to 2 hours between two steps,
        as of a job that waited to be resumed, in .20

logging.json has what was drawn for each run. Read with `import`, or asked with `diagnose`, a log has the rows that a
detector sees under the profile. One that leaves NaN blank has them with `--blank missing`: by the rule for blank
cells those at its end are read as NaN, which is not known while the run goes on. A row between others that has
nothing but a step is not read.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from trainwreck.evaluation.constants import COMMON_SIGNALS
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.files import write_json, write_text
from trainwreck.evaluation.logs.exporters.cells import cell
from trainwreck.evaluation.replay.logged.config import BLANK, LoggingConfig, config_of, drawn, pick
from trainwreck.evaluation.replay.profiles import LOGGED, observe
from trainwreck.evaluation.replay.rows import rows

FORMS = {"csv": 0.50, "jsonl": 0.13, "txt": 0.37}
CLOCKS = {"": 0.40, "elapsed": 0.35, "timestamp": 0.25}
PAUSED, PAUSE = 0.20, (600.0, 7200.0)  # seconds
BEGAN = 1_700_000_000.0  # Unix time of the first step of every run
SPEEDS = (0.05, 5.0)  # seconds a step

# A column for the step, and for each of COMMON_SIGNALS: loss, validation loss, gradient norm, learning rate.
NAMES = (
    ("step", "loss", "val_loss", "grad_norm", "lr"),
    ("_step", "train/loss", "val/loss", "train/grad_norm", "train/lr"),
    ("train/global_step", "train/loss", "eval/loss", "train/grad_norm", "train/learning_rate"),
    ("step", "train_loss", "val_loss", "grad_norm", "lr-AdamW"),
    ("iteration", "lm loss", "lm loss validation", "grad-norm", "learning-rate"),
)


@dataclass(frozen=True)
class Text:
    """A form of text log. begin: of a line; evaluation: of one with an evaluation, where that has a line of its own."""

    begin: str
    pair: str
    between: str
    names: tuple[str, ...]
    evaluation: str = ""


TEXTS = (
    Text("step:{step}/{total} ", "{name}:{value}", " ", ("train_loss", "val_loss", "grad_norm", "lr")),
    Text("iter {step}: ", "{name} {value}", ", ", ("loss", "val loss", "grad_norm", "lr"), "step {step}: "),
    Text("step: {step}  ", "{name}: {value}", "  ", ("loss", "loss", "grad_norm", "lr"), "validate step: {step}  "),
    Text("step {step:5}/{total} | ", "{name} {value}", " | ", ("loss", "val loss", "norm", "lr")),
)


@dataclass(frozen=True)
class File:
    """How a log is written. names: position in NAMES or TEXTS. seconds: of a step. pause: (step, seconds) before it."""

    form: str
    names: int
    clock: str
    seconds: float
    pause: tuple[int, float] | None = field(default=None)

    def time(self, step: int) -> str:
        """The cell of the clock."""
        paused = self.pause[1] if self.pause and step >= self.pause[0] else 0.0
        return f"{(BEGAN if self.clock == 'timestamp' else 0.0) + self.seconds * step + paused:.2f}"


def file_of(run_id: str) -> File:
    """How the log of a run is written; the same on every machine."""
    form = pick(FORMS, drawn(run_id, "form"))
    if form == "txt" and config_of(run_id).not_finite == BLANK:
        form = "csv"
    low, high = SPEEDS
    pause = None
    if drawn(run_id, "paused") < PAUSED:
        shortest, longest = PAUSE
        seconds = shortest + (longest - shortest) * drawn(run_id, "pause")
        pause = (20 + int(280 * drawn(run_id, "pause step")), round(seconds, 1))
    return File(
        form=form,
        names=int(drawn(run_id, "names") * len(TEXTS if form == "txt" else NAMES)),
        clock=pick(CLOCKS, drawn(run_id, "clock")),
        seconds=round(low + (high - low) * drawn(run_id, "speed"), 3),
        pause=pause,
    )


def write(dataset: DataSet, run_ids: Sequence[str], folder: Path, out: Path) -> dict[str, str]:
    """One log a run, and logging.json."""
    written, configs = {}, {}
    for run_id in run_ids:
        config, file = config_of(run_id), file_of(run_id)
        shown = observe(rows(dataset.trace(run_id)), LOGGED, run_id=run_id)
        lines = WRITERS[file.form](shown, config, file, int(dataset.run(run_id)["planned_steps"]))
        written[run_id] = f"{run_id}.{file.form}"
        write_text(folder / written[run_id], "".join(f"{line}\n" for line in lines))
        configs[run_id] = asdict(config) | asdict(file)
    write_json(folder / "logging.json", configs)
    return written


def _cells(row: Row, config: LoggingConfig) -> dict[str, str]:
    """Signal to its text, of those that a row has."""
    return {
        name: cell(row[name]) if name == "lr" else config.text(row[name])
        for name in COMMON_SIGNALS
        if row.get(name) is not None
    }


def _csv(shown: Iterator[Row], config: LoggingConfig, file: File, total: int) -> Iterator[str]:
    step, *names = NAMES[file.names]
    columns = {signal: name for signal, name in zip(COMMON_SIGNALS, names, strict=True) if signal in config.signals}
    yield ",".join([step, *columns.values(), *([_clock(file)] if file.clock else [])])
    for row in shown:
        cells = _cells(row, config)
        time = [file.time(row["step"])] if file.clock else []
        yield ",".join([str(row["step"]), *(cells.get(signal, "") for signal in columns), *time])


def _jsonl(shown: Iterator[Row], config: LoggingConfig, file: File, total: int) -> Iterator[str]:
    spelt = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    names = dict(zip(("step", *COMMON_SIGNALS), NAMES[file.names], strict=True))
    for row in shown:
        due = [name for name in config.signals if name != "validation_loss"] if config.due(row["step"]) else []
        cells = {"step": str(row["step"]), **dict.fromkeys(due, "null"), **_cells(row, config)}
        values = {names[signal]: spelt.get(value, value) for signal, value in cells.items()}
        values |= {_clock(file): file.time(row["step"])} if file.clock else {}
        yield "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in values.items()) + "}"


def _text(shown: Iterator[Row], config: LoggingConfig, file: File, total: int) -> Iterator[str]:
    form = TEXTS[file.names]
    names = dict(zip(COMMON_SIGNALS, form.names, strict=True))
    for row in shown:
        cells = _cells(row, config)
        apart = (
            {"validation_loss": cells.pop("validation_loss")} if form.evaluation and "validation_loss" in cells else {}
        )
        for begin, values in ((form.begin, cells), (form.evaluation, apart)):
            if values:
                pairs = [form.pair.format(name=names[signal], value=value) for signal, value in values.items()]
                pairs += [form.pair.format(name="time", value=f"{file.time(row['step'])}s")] if file.clock else []
                yield begin.format(step=row["step"], total=total) + form.between.join(pairs)


def _clock(file: File) -> str:
    return "_timestamp" if file.clock == "timestamp" else "elapsed"


WRITERS: Mapping[str, Callable[[Iterator[Row], LoggingConfig, File, int], Iterator[str]]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "txt": _text,
}
