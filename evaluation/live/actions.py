"""What an alarm sets off: a line in the log, the end of the training, or a user's hook."""

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from typing import Literal

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.live.monitor import Alarm, logger
from trainwreck.evaluation.live.training_process import TrainingProcess

LOG, STOP, COMMAND = "log", "stop", "cmd:"
COMMAND_SECONDS = 60.0  # a command that takes longer is ended

OnAlarm = Literal["log", "stop"] | Callable[[Alarm], object]
"""log: a warning. stop: that, and the training ends. A function: called with the alarm; True ends the training."""

Action = Callable[[Alarm], bool]
"""Whether an alarm ends the training, or the watch."""


def in_training(on_alarm: OnAlarm) -> Action:
    """For callbacks. InputError for what is neither of the two words nor a function."""
    if callable(on_alarm):
        hook = on_alarm
        return lambda alarm: hook(alarm) is True
    if on_alarm not in (LOG, STOP):
        raise InputError(f"on_alarm: {on_alarm!r} is not allowed; allowed: {LOG}, {STOP}, a function")

    def act(alarm: Alarm) -> bool:
        logger.warning("%s", alarm)
        return on_alarm == STOP

    return act


def at_command_line(
    word: str, process: TrainingProcess | None, say: Callable[[str], object], kill_after: float | None = None
) -> Action:
    """For `trainwreck watch`: log, stop (which ends `process`, if there is one), or `cmd:` and a command.

    kill_after: seconds from SIGTERM to SIGKILL, None for never. InputError for any other word, which might be the name
    of a program, and for a command that is not there.
    """
    if word == LOG:
        return lambda alarm: False
    if word == STOP:
        return lambda alarm: _stop(process, say, kill_after)
    allowed = f"allowed: {LOG}, {STOP}, or {COMMAND} and a command that is installed"
    if not word.startswith(COMMAND):
        raise InputError(f"--on-alarm: {word!r} is not allowed; {allowed}")
    try:
        words = shlex.split(word.removeprefix(COMMAND))
    except ValueError as error:
        raise InputError(f"--on-alarm: {word!r} is not a command ({error})") from None
    if not words or shutil.which(words[0]) is None:
        raise InputError(f"--on-alarm: {word!r} is not allowed; {allowed}")
    return lambda alarm: _run(words, alarm, say)


def _stop(process: TrainingProcess | None, say: Callable[[str], object], kill_after: float | None) -> bool:
    if process is not None:
        process.end(say, kill_after)
    return True


def _run(words: list[str], alarm: Alarm, say: Callable[[str], object]) -> bool:
    """Run the command to its end, with the alarm on its stdin. What goes wrong is said and ends nothing."""
    text = json.dumps(alarm.to_dict(), allow_nan=False) + "\n"
    try:
        done = subprocess.run(words, input=text, text=True, check=False, timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        say(f"{words[0]}: ended after {COMMAND_SECONDS:.0f} s")
    except OSError as error:
        say(f"{words[0]}: can't be run ({error.strerror or error})")
    else:
        if done.returncode:
            say(f"{words[0]}: exit code {done.returncode}")
    return False
