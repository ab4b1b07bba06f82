"""Runs a scenario's program as anyone would, and holds its numbers against the lab's own runs of the same seed."""

import hashlib
import os
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainwreck.evaluation.files import read_json, write_json
from trainwreck.scenarios.reproducers.program import Program
from trainwreck.scenarios.reproducers.text import text as program_text
from trainwreck.scenarios.spec.run_spec import family_of
from trainwreck.scenarios.training.loop import train

# Nats per token. Runs that stay this close to the lab's to their last step agree as floats; rounding grows
# in a training that is chaotic, as the lab's own float32 and float64 runs leave each other.
CLOSE = 1e-3
PATIENCE = 1800  # seconds of wall time, on a machine that others use too


@dataclass(frozen=True)
class Agreement:
    """What one program did.

    difference: largest of a training loss from the lab's, over all runs and the steps at which both are finite, nats.
    exit_code: 0 where the signature is there, the twin has none and the cured run ends as the twin does.
    close_for: steps before some run leaves the lab's by more than CLOSE; all_steps: how many there are.
    final: largest difference of a final validation loss; None where one has none. seconds: of one core.
    """

    scenario: str
    lines: int
    exit_code: int
    agreement: str  # float, or signature
    close_for: int
    all_steps: int
    difference: float
    final: float | None
    seconds: float
    program: str  # a hash of its text


def check(id: str, kept: Path) -> Agreement:
    """Run the program of a scenario, unless `kept` has what became of the very same one."""
    text = program_text(Program(id))
    digest = hashlib.sha256(f"{torch.__version__}\n{text}".encode()).hexdigest()[:16]
    record = kept / f"{id}.json"
    if record.exists() and (found := Agreement(**read_json(record))).program == digest:
        return found
    kept.mkdir(parents=True, exist_ok=True)
    file, numbers = kept / f"{id}.py", kept / f"{id}.npz"
    file.write_text(text, encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, "-P", str(file), str(numbers)],
        env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not numbers.exists():
        raise RuntimeError(f"{id}: the program failed: {done.stderr.strip()[-500:]}")
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = Agreement(
        scenario=id,
        lines=text.count("\n"),
        exit_code=done.returncode,
        **_differences(id, numbers),
        seconds=round(seconds, 1),
        program=digest,
    )
    write_json(record, asdict(found))
    numbers.unlink()
    return found


def _differences(id: str, numbers: Path) -> dict[str, Any]:
    specs = family_of(id, [0])
    traces = {
        spec.role.value: result.trace for spec, result in zip(specs, train([s.job() for s in specs]), strict=True)
    }
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
    return {
        "agreement": "float" if close_for == all_steps else "signature",
        "close_for": close_for,
        "all_steps": all_steps,
        "difference": largest,
        "final": max(ended) if ended else None,
    }
