"""Runs a scenario's program as anyone would run it; how safe its outcome is, and its numbers beside the lab's."""

import hashlib
import os
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainwreck.evaluation.files import read_json, write_json
from trainwreck.scenarios.reproducers.margin import CLOSE, Starts, loaded, moved_starts, outcome
from trainwreck.scenarios.reproducers.program import Program
from trainwreck.scenarios.reproducers.text import text as program_text
from trainwreck.scenarios.training.loop import train

PATIENCE = 3600  # seconds of wall time, on a machine that others use too


@dataclass(frozen=True)
class Beside:
    """A program's numbers beside those of the lab's own runs.

    difference: largest of a training loss from the lab's, over all runs and the steps at which both are finite, nats.
    close_for: steps before some run leaves the lab's by more than CLOSE; all_steps: how many there are.
    final: largest difference of a final validation loss; None where one has none.
    """

    agreement: str  # float, or signature
    close_for: int
    all_steps: int
    difference: float
    final: float | None


@dataclass(frozen=True)
class Agreement:
    """What one program did.

    exit_code: 0 where the signature is there, the twin has none and the cured run ends as the twin does. gap, steady:
    how safe that is, see `margin.Outcome`. printed: a hash of what it printed. seconds: of one core. lab: None where
    it was not compared.
    """

    scenario: str
    lines: int
    exit_code: int
    gap: float | None  # none where a final loss is not finite
    steady: bool
    seconds: float
    printed: str
    program: str  # a hash of its text
    lab: Beside | None = None


def check(id: str, kept: Path, *, beside_lab: bool = True) -> Agreement:
    """Run the program of a scenario, unless `kept` has what became of the very same one.

    Its numbers stay in `kept` until they are compared with the lab's, so that it need not be run again for that.
    """
    program = Program(id)
    text = program_text(program)
    digest = _digest(text)
    record, numbers = kept / f"{id}.json", kept / f"{id}.npz"
    found = _kept(record)
    if found is not None and found.program == digest and (found.lab or not beside_lab):
        return found
    if found is None or found.program != digest or not numbers.exists():
        found = _run(id, text, digest, kept)
        write_json(record, asdict(found))
    if beside_lab:
        found = replace(found, lab=_beside_lab(program, numbers))
        write_json(record, asdict(found))
        numbers.unlink()
    return found


def check_starts(id: str, kept: Path) -> Starts:
    """Train the setup of a scenario's program from several starts, unless `kept` has that of the very same one."""
    program = Program(id)
    digest, record = _digest(program_text(program)), kept / f"{id}.json"
    if record.exists() and (facts := read_json(record))["program"] == digest:
        return Starts(**facts["starts"])
    found = moved_starts(program)
    kept.mkdir(parents=True, exist_ok=True)
    write_json(record, {"program": digest, "starts": asdict(found)})
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(f"{torch.__version__}\n{text}".encode()).hexdigest()[:16]


def _kept(record: Path) -> Agreement | None:
    if not record.exists():
        return None
    facts = read_json(record)
    if "steady" not in facts:  # of an earlier version
        return None
    return Agreement(**facts | {"lab": Beside(**facts["lab"]) if facts["lab"] else None})


def _run(id: str, text: str, digest: str, kept: Path) -> Agreement:
    kept.mkdir(parents=True, exist_ok=True)
    file, numbers = kept / f"{id}.py", kept / f"{id}.npz"
    file.write_text(text, encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-P", str(file), str(numbers)],
        env=os.environ | {"PYTHONPATH": ""}, capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not numbers.exists():
        raise RuntimeError(f"{id}: the program failed: {done.stderr.decode().strip()[-500:]}")
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    runs: dict[str, dict[str, np.ndarray]] = {}
    with np.load(numbers) as mine:
        for name in mine:
            kind, _, signal = name.partition("/")
            runs.setdefault(kind, {})[signal] = mine[name]
    margin = outcome(loaded(text), runs)
    return Agreement(
        scenario=id,
        lines=text.count("\n"),
        exit_code=done.returncode,
        gap=margin.gap if np.isfinite(margin.gap) else None,
        steady=margin.steady,
        seconds=round(seconds, 1),
        printed=hashlib.sha256(done.stdout).hexdigest()[:12],
        program=digest,
    )


def _beside_lab(program: Program, numbers: Path) -> Beside:
    specs = program.specs
    results = train([spec.job() for spec in specs.values()])
    traces: dict[str, Any] = {role.value: result.trace for role, result in zip(specs, results, strict=True)}
    close_for = all_steps = max(len(trace) for trace in traces.values())
    largest, finals = 0.0, []
    with np.load(numbers) as mine:
        for kind, trace in traces.items():
            own, theirs = mine[f"{kind}/loss"].astype(float), trace["loss"].astype(float)
            n = min(len(own), len(theirs))
            with np.errstate(invalid="ignore"):
                gap = np.abs(own[:n] - theirs[:n])
            finite = np.isfinite(gap)
            one_alone = np.isfinite(own[:n]) != np.isfinite(theirs[:n])
            away = np.flatnonzero(one_alone | (np.where(finite, gap, 0.0) > CLOSE))
            if len(away) or len(own) != len(theirs):
                close_for = min(close_for, int(away[0]) if len(away) else n)
            largest = max(largest, float(gap[finite].max(initial=0.0)))
            finals.append(abs(float(mine[f"{kind}/validation_loss"][-1]) - trace.final_loss()))
    ended = [gap for gap in finals if np.isfinite(gap)]
    return Beside(
        agreement="float" if close_for == all_steps else "signature",
        close_for=close_for,
        all_steps=all_steps,
        difference=largest,
        final=max(ended) if ended else None,
    )
