"""`trainwreck watch`: detectors beside a training run, by the log that it writes."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainwreck.evaluation.errors import InputError

if TYPE_CHECKING:
    from trainwreck.evaluation.live.monitor import Alarm
    from trainwreck.evaluation.live.watch import Ended

ALARMED = 1
SHOWN = ("loss", "validation_loss", "grad_norm", "lr")
REASONS = {
    "end": "the log ends",
    "stopped": "stopped by the alarm",
    "idle": "nothing came for so long",
    "gone": "the process is gone",
    "crashed": "no detector is left",
}


@click.command()
@click.argument("log", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--detector", "detectors", multiple=True, required=True, help="A name, or file.py:Class. May be repeated."
)
@click.option("--follow", is_flag=True, help="Go on as the log is written; it need not be there yet.")
@click.option(
    "--on-alarm", default="log", show_default=True, metavar="log|stop|cmd:COMMAND",
    help="stop: end at the first alarm. cmd: run the command with the alarm as JSON on stdin.",
)  # fmt: skip
@click.option(
    "--pid", type=click.IntRange(1), help="The training's process: `stop` sends it SIGTERM; no wait beyond it."
)
@click.option("--idle", type=click.FloatRange(0), help="Seconds without a row after which to end.")
@click.option("--every", type=click.FloatRange(0.01), default=1.0, show_default=True, help="Seconds between two looks.")
@click.option("--format", help="csv, jsonl or tensorboard; by default what it is called.")
@click.option("--map", "mapping", multiple=True, metavar="COLUMN=SIGNAL", help="What a column is. May be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Alarms, notes and the end as JSON, one a line.")
def watch(
    log: Path,
    detectors: Sequence[str],
    follow: bool,
    on_alarm: str,
    pid: int | None,
    idle: float | None,
    every: float,
    format: str | None,
    mapping: Sequence[str],
    as_json: bool,
) -> None:
    """Detectors on a log, also on one that is still being written.

    FILE is CSV, JSON Lines, a TensorBoard event file or folder, or Lightning's version folder. Exit code 0: no
    alarm; 1: an alarm; 2: bad input, or a detector that crashed; 130: interrupted.
    """
    for option, value in (("--pid", pid), ("--idle", idle)):
        if value is not None and not follow:
            raise InputError(f"{option}: {value:g} is not allowed without --follow; allowed: both")
    from trainwreck.evaluation.live.actions import at_command_line
    from trainwreck.evaluation.live.monitor import Monitor
    from trainwreck.evaluation.live.sources import open_log
    from trainwreck.evaluation.live.watch import watch as run
    from trainwreck.evaluation.logs.readers import parse_mapping

    screen = _Json() if as_json else _Terminal() if sys.stdout.isatty() else _Lines()
    monitor = Monitor(list(detectors), say=screen.note)
    act = at_command_line(on_alarm, pid, screen.note)
    if pid is not None and not _alive(pid):
        raise InputError(f"--pid: {pid} is not allowed; allowed: a process that runs")
    source = open_log(log, format, parse_mapping(mapping), wait=follow)
    if not log.exists():
        screen.note(f"{log}: not there yet, waiting for it")
    try:
        ended = run(
            source, monitor, screen, act,
            follow=follow, every=every, idle=idle, alive=lambda: pid is None or _alive(pid),
        )  # fmt: skip
    finally:
        source.close()
        screen.close()
    screen.end(ended)
    if monitor.crashed:
        name, why = next(iter(monitor.crashed.items()))
        raise InputError(f"detector {name}: crashed: {why}")
    if ended.alarms:
        sys.exit(ALARMED)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's, and there
        return True
    return True


class _Lines:
    """A line for each alarm, note and row that comes live, as it comes."""

    def row(self, step: int, values: Any, *, live: bool) -> None:
        if live:
            self._print(_shown(step, values))

    def alarm(self, alarm: "Alarm") -> None:
        self._print(f"ALARM  {alarm}")

    def note(self, line: str) -> None:
        print(f"note: {line}", file=sys.stderr, flush=True)

    def end(self, ended: "Ended") -> None:
        where = "no row" if ended.last_step is None else f"{ended.rows} rows, to step {ended.last_step}"
        rules = "".join(f"; {count} {what}" for what, count in ended.rules.items())
        self._print(f"{REASONS[ended.reason]}: {where}, {ended.alarms} alarms{rules}")

    def close(self) -> None:
        """Nothing is held open."""

    def _print(self, line: str) -> None:
        print(line, flush=True)


class _Terminal(_Lines):
    """The latest row on one line that is written over, alarms above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.console = Console(highlight=False)
        self.live = Live(console=self.console, auto_refresh=False)  # begun with the first row

    def row(self, step: int, values: Any, *, live: bool) -> None:
        from rich.text import Text

        if not self.live.is_started:
            self.live.start()
        self.live.update(Text(_shown(step, values), style="dim"), refresh=live)

    def alarm(self, alarm: "Alarm") -> None:
        self.console.print(f"ALARM  {alarm}", style="bold red", markup=False)

    def note(self, line: str) -> None:
        self.console.print(f"note: {line}", style="yellow", markup=False)

    def close(self) -> None:
        self.live.stop()


class _Json(_Lines):
    """One object a line."""

    def row(self, step: int, values: Any, *, live: bool) -> None:
        """Rows are in the log already."""

    def alarm(self, alarm: "Alarm") -> None:
        self._write("alarm", alarm.to_dict())

    def note(self, line: str) -> None:
        self._write("note", {"note": line})

    def end(self, ended: "Ended") -> None:
        self._write("end", ended._asdict())

    def _write(self, event: str, facts: dict[str, Any]) -> None:
        self._print(json.dumps({"event": event, **facts}, allow_nan=False))


def _shown(step: int, values: Any) -> str:
    scalars = {str(target): value for target, value in values.items() if target.entry is None}
    return f"step {step}" + "".join(f"  {name} {scalars[name]:.4g}" for name in SHOWN if name in scalars)
