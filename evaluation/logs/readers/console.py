"""Text logs: the lines that training programs print, known by their form, or described with `--pattern`.

A known form has a beginning that gives the step, and then names with numbers, which are columns from
there on: `--map` and the known names hold for them. Of the forms below the one that most lines have is
taken; all other lines are left alone, and so are colours and what a progress bar overwrote. Forms:

modded-nanogpt  step:12/1000 train_loss:3.25 ...; step:125/1000 val_loss:3.1 ...
nanoGPT         iter 10: loss 3.25, time ...; step 250: train loss 3.2, val loss 3.3
litgpt          Epoch 1 | iter 8 step 2 | loss train: 3.25, val: n/a ...; iter 8: val loss 3.3, ...
                The step is `iter`, which its lines of validation have too.
Megatron-LM     iteration 10/ 1000 | ... | lm loss: 3.25E+00 | ...; validation loss at iteration 10 | ...
torchtitan      step: 10  loss: 3.25  grad_norm: 0.5 ...; validate step: 10  loss: 3.3 ...
llm.c           s:10 trl:3.25 ...; step 10/1000 | loss 3.25 ... | norm 0.5 ... (build-nanogpt and nanochat too)
Transformers    {'loss': 3.25, 'grad_norm': 0.5, ..., 'epoch': 0.1}; {'eval_loss': 3.3, ...}
                These have no step: `--every N`. An evaluation has the step of the line before it.
"""

import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.limits import CELL, ROW, Memory
from trainwreck.evaluation.logs.log import Asked, Log
from trainwreck.evaluation.logs.names import STEP, signal_of
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.rows import Row, log_of_rows
from trainwreck.evaluation.logs.text import read_text

PATTERN_SECONDS = 20  # of the processor, for all lines of a log
LONGEST = 10_000  # characters; a longer line is nothing that a training program prints
_VALUE = r"[+-]?(?:\d|\.\d|(?:nan|inf(?:inity)?|n/a)(?![a-z]))[^\s,|;]*"
_SPACED = re.compile(rf"(?P<name>[a-z][\w /()-]{{0,100}}?)(?:\s*[:=]\s*|\s+)(?P<value>{_VALUE})", re.IGNORECASE)
_QUOTED = re.compile(r"""['"](?P<name>[^'"]+)['"]\s*:\s*['"]?(?P<value>[^'",}\s]+)""")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Form:
    """One form of line. begin: up to where the names start, with the step. renamed: names that mean something else."""

    begin: re.Pattern[str]
    renamed: Mapping[str, str] = field(default_factory=dict)
    pair: re.Pattern[str] = _SPACED


KNOWN: dict[str, tuple[Form, ...]] = {
    "modded-nanogpt": (Form(re.compile(r"\bstep:(?P<step>\d+)/\d+\s")),),
    "nanoGPT": (Form(re.compile(r"^\s*(?:iter|step) (?P<step>\d+):\s")),),
    "litgpt": (
        Form(re.compile(r"\biter (?P<step>\d+) step \d+\s*[:|]")),
        Form(re.compile(r"^\s*iter (?P<step>\d+): (?=val loss)")),
    ),
    "Megatron-LM": (
        Form(re.compile(r"(?<!at )\biteration\s+(?P<step>\d+)/\s*\d+\s*\|")),
        Form(
            re.compile(r"validation loss at iteration (?P<step>\d+)(?: on validation set)?\s*\|"),
            {"lm loss value": "validation loss"},
        ),
    ),
    "torchtitan": (
        Form(re.compile(r"\bvalidate step:\s*(?P<step>\d+)\s"), {"loss": "validation_loss"}),
        Form(re.compile(r"(?<!validate )\bstep:\s*(?P<step>\d+)\s")),
    ),
    "llm.c": (
        Form(re.compile(r"^\s*s:(?P<step>\d+)\s"), {"trl": "train_loss", "tel": "val_loss", "norm": "grad_norm"}),
        Form(re.compile(r"^\s*step\s+(?P<step>\d+)(?:/\d+)?(?:\s*\([\d.]+%\))?\s*\|"), {"norm": "grad_norm"}),
    ),
    "Transformers": (Form(re.compile(r"(?=\{[^{}]*['\"](?:eval_)?loss['\"]\s*:)"), pair=_QUOTED),),
}  # fmt: skip


def most_lines(file: Path, memory: Memory) -> tuple[str, int]:
    """The known form that most lines of a file have, and how many; empty and 0 where none has one."""
    counts = dict.fromkeys(KNOWN, 0)
    for _, line in _lines(file, memory):
        for name, forms in KNOWN.items():
            counts[name] += _match(line, forms) is not None
    best = max(counts, key=lambda name: counts[name])
    return (best, counts[best]) if counts[best] else ("", 0)


def read_console(file: Path, asked: Asked) -> list[Log]:
    """The one run of a text log."""
    form = "--pattern" if asked.pattern else most_lines(file, Memory(asked.memory.limits))[0]
    if not form:
        raise InputError(
            f"{file}: no line in a known form ({', '.join(KNOWN)}); say how lines look with --pattern REGEX, which "
            "has groups (?P<step>...) and (?P<loss>...)"
        )
    rows: list[Row] = []
    names: dict[str, None] = {}
    with _bounded(file) if asked.pattern else nullcontext():
        for number, line in _lines(file, asked.memory):
            place = f"{file}, line {number}"
            found = _by_pattern(line, asked.pattern) if asked.pattern else _known(line, KNOWN[form], asked, place)
            if found:
                asked.memory.take(ROW + CELL * len(found), place)
                rows.append((place, found))
                names |= dict.fromkeys(found)
    if not rows:
        raise InputError(f"--pattern: no line of {file} has it; allowed: a regular expression that is in its lines")
    if STEP not in names and asked.every is None and not any(t.signal == STEP for t in asked.mapping.values()):
        where = "the groups of --pattern have" if asked.pattern else f"{rows[0][0]}: lines of {form} have"
        raise InputError(f"{where} no step; number the lines with --every N, the steps from one to the next")
    log = log_of_rows("text", file, list(names), rows, asked, Numbers(), writes_nan=True)
    log.rules.update(Counter({f"lines of {form}": len(rows)}))
    return [log]


def _lines(file: Path, memory: Memory) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(StringIO(read_text(file, memory), newline="\n"), start=1):
        for part in line.rstrip("\n").split("\r"):
            if len(part) <= LONGEST:
                yield number, _COLOUR.sub("", part)


def _match(line: str, forms: tuple[Form, ...]) -> tuple[Form, re.Match[str]] | None:
    for form in forms:
        begin = form.begin.search(line)
        if begin and form.pair.search(line, begin.end()):
            return form, begin
    return None


def _known(line: str, forms: tuple[Form, ...], asked: Asked, place: str) -> dict[str, str]:
    """The columns of a line; empty where it has not the form."""
    matched = _match(line, forms)
    if matched is None:
        return {}
    form, begin = matched
    row = {name: value for name, value in begin.groupdict().items() if value is not None}
    for pair in form.pair.finditer(line, begin.end()):
        name = pair["name"].strip()
        name = form.renamed.get(name, name)
        known = signal_of(name)[0] or name in asked.mapping
        if name in begin.groupdict() or (name in row and not known):
            continue
        if row.get(name, pair["value"]) != pair["value"]:
            raise InputError(f"{place}: {name!r} stands twice, as {row[name]} and {pair['value']}; allowed: once")
        row[name] = pair["value"]
    return row


@contextmanager
def _bounded(file: Path) -> Iterator[None]:
    """A limit on the CPU time of a pattern: some take the cube of a line's length. Only where signals arrive."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def over(number: int, frame: object) -> None:
        raise InputError(f"--pattern: over {PATTERN_SECONDS} s in {file}; allowed: one that a line decides at once")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATTERN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _by_pattern(line: str, pattern: re.Pattern[str]) -> dict[str, str]:
    found = pattern.search(line)
    return {name: value for name, value in found.groupdict().items() if value is not None} if found else {}
