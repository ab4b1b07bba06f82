"""Live: detectors on the log of a training run, what is wrong with a run, and checks before one."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainwreck.commands import choices
from trainwreck.commands.choices import DETECTOR, PATH, SEEDS, Number, ScenarioId, Suggested
from trainwreck.commands.options import (
    as_json,
    as_severity,
    as_size,
    blank_option,
    every_option,
    log_format_option,
    log_limits_options,
    map_option,
    pattern_option,
    profile_option,
    settings,
    severity_option,
    size_option,
)
from trainwreck.commands.tables import print_json, print_table
from trainwreck.evaluation.errors import InputError, printable, printable_lines
from trainwreck.evaluation.progress import progress

if TYPE_CHECKING:
    from trainwreck.evaluation.live.monitor import Alarm
    from trainwreck.evaluation.live.watch import Ended
    from trainwreck.evaluation.logs.limits import LogLimits

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
@click.argument("log", metavar="FILE", type=PATH)
@click.option(
    "--detector",
    "detectors",
    type=DETECTOR,
    multiple=True,
    required=True,
    help="A name, or file.py:Class. May be repeated.",
)
@click.option("--follow", is_flag=True, help="Go on as the log is written; it need not be there yet.")
@click.option(
    "--on-alarm",
    type=Suggested(lambda: ("log", "stop", "cmd:")),
    default="log",
    show_default=True,
    metavar="log|stop|cmd:COMMAND",
    help="stop: end at the first alarm. cmd: run the command with the alarm as JSON on stdin.",
)
@click.option("--pid", type=int, help="The training's process: `stop` sends it SIGTERM; no wait beyond it.")
@click.option("--kill-after", type=Number(), help="With --pid: seconds from SIGTERM until SIGKILL; never by default.")
@click.option("--idle", type=Number(), help="Seconds without a row after which to end.")
@click.option("--every", type=Number(0.01), default=1.0, show_default=True, help="Seconds between two readings.")
@click.option(
    "--format",
    type=Suggested(lambda: choices.FOLLOWED_FORMATS),
    metavar="FORMAT",
    help=f"{', '.join(choices.FOLLOWED_FORMATS)}; by default what it is called.",
)
@map_option
@log_limits_options
@click.option("--json", "as_json", is_flag=True, help="Alarms, notes and the end as JSON, one a line.")
def watch(
    log: Path,
    detectors: Sequence[str],
    follow: bool,
    on_alarm: str,
    pid: int | None,
    kill_after: float | None,
    idle: float | None,
    every: float,
    format: str | None,
    mapping: Sequence[str],
    limits: "LogLimits",
    as_json: bool,
) -> None:
    """Run detectors on the log of a training run.

    The log may be complete, or with --follow still being written.
    FILE is CSV, JSON Lines, a TensorBoard event file or folder, or Lightning's version folder. Exit code 0: no
    alarm; 1: an alarm; 2: bad input, or a detector that crashed; 130: interrupted.
    """
    for option, value in (("--pid", pid), ("--idle", None if idle is None else f"{idle:g}")):
        if value is not None and not follow:
            raise InputError(f"{option}: {value} is not allowed without --follow; allowed: both")
    if kill_after is not None and (pid is None or on_alarm != "stop"):
        raise InputError(f"--kill-after: {kill_after:g} is not allowed; allowed: with --pid and --on-alarm stop")
    from trainwreck.evaluation.live.actions import at_command_line
    from trainwreck.evaluation.live.monitor import Monitor
    from trainwreck.evaluation.live.sources import open_log
    from trainwreck.evaluation.live.training_process import TrainingProcess
    from trainwreck.evaluation.live.watch import watch as run
    from trainwreck.evaluation.logs.readers import parse_mapping

    screen = _Json() if as_json else _Terminal() if sys.stdout.isatty() else _Lines()
    monitor = Monitor(list(detectors), say=screen.note)
    process = None if pid is None else TrainingProcess(pid)
    act = at_command_line(on_alarm, process, screen.note, kill_after)
    source = open_log(log, format, parse_mapping(mapping), wait=follow, limits=limits)
    if not log.exists():
        screen.note(f"{log}: not there yet, waiting for it")
    try:
        ended = run(
            source, monitor, screen, act,
            follow=follow, every=every, idle=idle, alive=lambda: process is None or process.runs(),
        )  # fmt: skip
    finally:
        source.close()
        screen.close()
        if process is not None:
            process.close()
    screen.end(ended)
    if monitor.crashed:
        name, why = next(iter(monitor.crashed.items()))
        raise InputError(f"detector {name}: crashed: {why}")
    if ended.alarms:
        sys.exit(ALARMED)


class _Lines:
    """A line for each alarm, note and row that comes live, as it comes."""

    def row(self, step: int, values: Any, *, live: bool) -> None:
        if live:
            self._print(_shown(step, values))

    def alarm(self, alarm: "Alarm") -> None:
        self._print(f"ALARM  {printable(alarm)}")

    def note(self, line: str) -> None:
        print(f"note: {printable(line)}", file=sys.stderr, flush=True)

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
        self.console.print(f"ALARM  {printable(alarm)}", style="bold red", markup=False)

    def note(self, line: str) -> None:
        self.console.print(f"note: {printable(line)}", style="yellow", markup=False)

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


@click.command()
@click.argument("log", metavar="LOG", type=PATH)
@click.argument("run", metavar="[RUN]", required=False)
@log_format_option
@map_option
@blank_option
@every_option
@pattern_option
@profile_option
@log_limits_options
@click.option("--out", type=PATH, help="Write the answer about one run as an HTML page too.")
@as_json
def diagnose(
    log: Path,
    run: str | None,
    format: str | None,
    mapping: Sequence[str],
    blank: str | None,
    every: int | None,
    pattern: str | None,
    profile: str,
    limits: "LogLimits",
    out: Path | None,
    as_json: bool,
) -> None:
    """Say what is wrong with a run, since when and why.

    LOG is whatever `trainwreck import` reads, or the folder of a data set; RUN is one of its runs, all by default.
    The answer has the rules that hold and the rows that they hold at, the causes that fit, the labelled runs that look
    alike, what to check and to log next, the proven cure; or that nothing is wrong that this log could show, and what
    it could not show. --profile: as if only that had been logged.
    """
    from trainwreck.evaluation.diagnosis.diagnosis import diagnose as ask
    from trainwreck.evaluation.diagnosis.subjects import only, subjects
    from trainwreck.evaluation.logs.readers import parse_mapping
    from trainwreck.scenarios.spec.pages import page

    runs = subjects(
        log,
        run,
        format=format,
        mapping=parse_mapping(mapping),
        blank=blank,
        every=every,
        pattern=pattern,
        limits=limits,
    )
    if out:
        only(runs, log)
    found = []
    with progress("diagnose", quiet=as_json or len(runs) == 1) as tick:
        for name, trace in runs:
            found.append(ask(trace, name, page, profile))
            if not as_json:
                print(printable_lines(found[-1].text()), flush=True)
            tick(len(found), len(runs), name)
    if out:
        from trainwreck.evaluation.diagnosis.page import write_page

        write_page(found[0], out)
    if as_json:
        print_json([one.to_dict() for one in found])
    elif out:
        print(f"page: {out}")


@click.command()
@click.argument("target", required=False, type=ScenarioId(files=True))
@settings
@click.option("--check", "names", multiple=True, help="Only this one. May be repeated.")
@click.option("--seed", type=SEEDS, default=0, show_default=True)
@severity_option
@size_option
@click.option("--all", "everything", is_flag=True, help="Every scenario and its twin, in place of a target.")
@click.option("--record", is_flag=True, help="With --all: write the table under results/preflight/.")
@as_json
def preflight(
    target: str | None,
    overrides: Sequence[str],
    names: Sequence[str],
    seed: int,
    severity: str | None,
    size: str | None,
    everything: bool,
    record: bool,
    as_json: bool,
) -> None:
    """Check a model and a batch before training.

    TARGET is package.module:function or file.py:function, a function without arguments that returns
    (model, inputs, targets): any torch.nn.Module that returns logits, one batch, class ids. For a loss, a
    training step, an optimizer or a vocabulary of your own it returns trainwreck.Preflight(model, inputs,
    targets, loss=..., step=..., optimizer=..., vocab_size=..., ignore_index=...).

    TARGET may also be the id of a scenario: its faulty run and its twin are checked before the first
    step under the fault. Exit code 0: every check passes or does not apply; 1: one fails; 2: bad input.
    With --all: 1 where one fails on a twin.
    """
    if everything == (target is not None):
        raise InputError("target: one of TARGET and --all; allowed: file.py:function, package.module:function, an id")
    if record and not everything:
        raise InputError("--record: is not allowed here; allowed: with --all")
    if everything:
        return _on_all(seed, record, as_json)
    assert target is not None, "just checked"
    if ":" in target:
        if overrides or severity or size:
            raise InputError(f"target: {target!r} takes no settings; allowed: settings of a scenario")
        return _on_code(target, names, seed, as_json)
    from trainwreck.scenarios.preflight.table import examine

    found = examine(
        target, seed=seed, severity=as_severity(severity), size=as_size(size), overrides=overrides, names=names
    )
    if as_json:
        print_json(found.to_dict())
    else:
        print(f"{target}, seed {seed}, before step {found.step}; faulty run:")
        _print_findings(found.faulty)
        print("\ntwin:")
        _print_findings(found.twin)
    if found.failed("faulty"):
        sys.exit(1)


def _on_code(target: str, names: Sequence[str], seed: int, as_json: bool) -> None:
    from trainwreck.scenarios.preflight import Verdict, from_factory
    from trainwreck.scenarios.preflight import preflight as ask

    subject = from_factory(target, seed)
    with progress("preflight", quiet=as_json) as tick:
        found = ask(subject, names, seed=seed, tick=tick)
    if as_json:
        print_json([finding.to_dict() for finding in found])
    else:
        _print_findings(found)
    if any(finding.verdict is Verdict.FAIL for finding in found):
        sys.exit(1)


def _on_all(seed: int, record: bool, as_json: bool) -> None:
    from trainwreck.scenarios.preflight.table import examine_all, markdown
    from trainwreck.scenarios.preflight.table import record as write
    from trainwreck.scenarios.spec.registry import scenarios

    with progress("preflight", quiet=as_json) as tick:
        found = examine_all(list(scenarios()), seed=seed, tick=tick)
    if record:
        write(found)
    if as_json:
        print_json([one.to_dict() for one in found])
    else:
        print(markdown(found), end="")
    if any(one.failed("twin") for one in found):
        sys.exit(1)


def _print_findings(found: Sequence[Any]) -> None:
    print_table(("check", "verdict", "evidence"), [(f.check, f.verdict.value, f.evidence) for f in found])
