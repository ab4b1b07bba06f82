"""How far a program's outcome is from another one: by the numbers of its runs, and by starts moved in their last bits.

Rounding differs between processors, and a training at the edge of stability amplifies it until two runs have nothing in
common but their statistics. So an outcome is safe where it does not rest on a number close to its bound, and where it
is the same from several starts that differ by less than a float32 can tell.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trainwreck.kernels.random import generator
from trainwreck.scenarios.reproducers.program import Program
from trainwreck.scenarios.reproducers.text import text as program_text
from trainwreck.scenarios.training.loop import fresh_state, train

OFF, DRAWS = 0.01, 8  # how far every signal is moved, and how often it is drawn in which direction
LAST_BITS = 1e-7  # relative; a float32 has steps of 1.2e-7
Runs = Mapping[str, Mapping[str, np.ndarray]]  # by kind and signal, as the program keeps them


@dataclass(frozen=True)
class Outcome:
    """What a program concludes from its runs.

    shown: the signature is there in the faulty run and not in the twin; True where there is nothing to show.
    gap: of the final losses that must agree, in tolerances; past 1 the program exits with 1. steady: `shown` is the
    same with every signal off by OFF.
    """

    shown: bool
    gap: float
    steady: bool

    @property
    def holds(self) -> bool:
        """Whether the program exits with 0."""
        return self.shown and self.gap <= 1


def loaded(text: str) -> dict[str, Any]:
    """The names of a program, of which nothing is run. It leaves this process with one thread."""
    before = torch.are_deterministic_algorithms_enabled()
    space: dict[str, Any] = {"__name__": "reproducer"}
    exec(compile(text, "reproducer", "exec"), space)
    torch.use_deterministic_algorithms(before)
    return space


def outcome(space: Mapping[str, Any], runs: Runs) -> Outcome:
    """What the program of these names concludes from the runs."""
    final = {kind: float(run["validation_loss"][-1]) for kind, run in runs.items()}
    which, target = ("cured", "twin") if "cured" in runs else ("faulty", "twin")
    gap = abs(final[which] - (final[target] if target in final else space["ENTROPY"])) / space["TOLERANCE"]
    if "cured" not in runs:
        return Outcome(True, gap, True)
    shown = _shown(space, runs)
    moved = [_shown(space, _moved(runs, draw)) for draw in range(DRAWS)]
    return Outcome(shown, gap, all(found == shown for found in moved))


def from_moved_starts(program: Program, count: int) -> list[Outcome]:
    """Outcomes of the laboratory's runs of a program's setup: as it is first, then with initial weights moved."""
    space = loaded(program_text(program))
    names = {*program.harvest.signals, "validation_loss"}
    jobs, enter, found = [], {}, []
    for start in range(count):
        state = fresh_state(next(iter(program.specs.values())).job())
        if start:
            noise = generator(start, "reproducers/last_bits").standard_normal(state["parameters"].shape)
            state["parameters"] = state["parameters"] * torch.from_numpy(1 + LAST_BITS * noise).float()
        for spec in program.specs.values():
            job = dataclasses.replace(spec.job(), run_id=f"{spec.run_id}/{start}")
            jobs.append(job)
            enter[job.run_id] = (0, state)
    traces = [result.trace for result in train(jobs, enter=enter)]
    for start in range(count):
        mine = traces[start * len(program.specs) :]
        runs = {
            role.value: {name: np.asarray(trace[name]) for name in names}
            for role, trace in zip(program.specs, mine, strict=False)
        }
        found.append(outcome(space, runs))
    return found


def _shown(space: Mapping[str, Any], runs: Runs) -> bool:
    with np.errstate(all="ignore"):
        clauses = {kind: space["signature"](runs[kind], runs["twin"], space["ONSET"]) for kind in ("twin", "faulty")}
    held = {kind: all(c.values()) if isinstance(c, dict) else bool(c) for kind, c in clauses.items()}
    return held["faulty"] and not held["twin"]


def _moved(runs: Runs, draw: int) -> Runs:
    """Every signal of every run off by OFF, up or down; whole numbers, such as counts, stay."""

    def off(kind: str, name: str, values: np.ndarray) -> np.ndarray:
        factor = 1 + OFF * generator(draw, f"reproducers/{kind}/{name}").choice((-1, 1))
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(values == np.round(values), values, values * np.float32(factor))

    return {kind: {name: off(kind, name, values) for name, values in run.items()} for kind, run in runs.items()}
