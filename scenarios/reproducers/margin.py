"""How far a program's outcome is from another one: by the numbers of its runs, and by starts moved in their last bits.

Rounding differs between processors, and a training at the edge of stability amplifies it until two runs have nothing in
common but their statistics. So an outcome is safe where it does not rest on a number close to its bound, and where it
is the same from several starts that differ by less than a float32 can tell.
"""

import dataclasses
from collections.abc import Mapping, Sequence
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
# Nats per token. Runs that stay this close to each other to their last step agree as floats; rounding grows
# in a training that is chaotic, as the lab's own float32 and float64 runs leave each other.
CLOSE = 1e-3
FEW, MANY = 4, 12  # starts of a program whose runs stay within CLOSE of each other, and of one whose runs do not
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


@dataclass(frozen=True)
class Starts:
    """What became of a program from several starts that differ in their last bits.

    count, held: starts, and how many of them exit with 0. gap: the largest of a start, in tolerances; None where a
    final loss is not finite. apart: how far a training loss is at most from the first start's, nats; None where it is
    finite in one of the two alone.
    """

    count: int
    held: int
    gap: float | None
    apart: float | None


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


def moved_starts(program: Program) -> Starts:
    """Train a program's setup from FEW starts, and from MANY where its runs do not stay close to each other."""
    space = loaded(program_text(program))
    runs = _from_starts(program, range(FEW))
    apart = _apart(runs)
    if not apart <= CLOSE:
        runs += _from_starts(program, range(FEW, MANY))
        apart = _apart(runs)
    found = [outcome(space, one) for one in runs]
    gap = max(one.gap for one in found)
    return Starts(
        count=len(found),
        held=sum(one.holds for one in found),
        gap=gap if np.isfinite(gap) else None,
        apart=apart if np.isfinite(apart) else None,
    )


def from_moved_starts(program: Program, count: int) -> list[Outcome]:
    """Outcomes of the laboratory's runs of a program's setup: as it is first, then with initial weights moved."""
    space = loaded(program_text(program))
    return [outcome(space, runs) for runs in _from_starts(program, range(count))]


def _from_starts(program: Program, starts: range) -> list[Runs]:
    names = {*program.harvest.signals, "validation_loss", "loss"}
    jobs, enter = [], {}
    for start in starts:
        for spec in program.specs.values():
            job = dataclasses.replace(spec.job(), run_id=f"{spec.run_id}/{start}")
            state = fresh_state(job)
            if start:  # runs of one model are moved alike, and stay the same until the onset
                noise = generator(start, "reproducers/last_bits").standard_normal(state["parameters"].shape)
                state["parameters"] = state["parameters"] * torch.from_numpy(1 + LAST_BITS * noise).float()
            jobs.append(job)
            enter[job.run_id] = (0, state)
    runs = iter([{name: np.asarray(result.trace[name]) for name in names} for result in train(jobs, enter=enter)])
    return [{role.value: next(runs) for role in program.specs} for _ in starts]


def _apart(starts: Sequence[Runs]) -> float:
    """Largest difference of a training loss from that of the first start, over all runs; inf where one alone is NaN."""
    first, largest = starts[0], 0.0
    for runs in starts[1:]:
        for kind, run in runs.items():
            own, theirs = run["loss"].astype(float), first[kind]["loss"].astype(float)
            finite = np.isfinite(own)
            if len(own) != len(theirs) or (finite != np.isfinite(theirs)).any():
                return np.inf
            largest = max(largest, float(np.abs(own[finite] - theirs[finite]).max(initial=0.0)))
    return largest


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
