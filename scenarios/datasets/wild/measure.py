"""Which drawn setups train: `python -m trainwreck.scenarios.datasets.wild.measure 250` renews the file of them.

A setup is trained without a fault on two seeds, once as drawn and once at `MARGIN` times its rate, so that one on the
edge of stability is left out. It is kept where both runs are finite throughout, know more at their end than how
frequent each token is (under another objective: end at `LEFT` of their first validation loss or less), and end
no more than `WORSE` above their best validation loss. Numbers go up until so many are kept; with `--each 4` further
ones follow, those that are drawn for the failing scenarios that fewer than four of the kept setups fit, at most
`TRIES` for one. The file says of the others why not. Killed, it goes on from the numbers that are measured; those that
are drawn otherwise by now are measured anew.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import count, islice
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.files import read_json, write_json
from trainwreck.evaluation.progress import progress
from trainwreck.scenarios.config import drawn as stored
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.data.batches import validation
from trainwreck.scenarios.datasets.engines import Piece, in_workers
from trainwreck.scenarios.datasets.resources import core_seconds
from trainwreck.scenarios.datasets.wild.draw import drawn, fitting, leader, leaders
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.training.environment import cores, environment
from trainwreck.scenarios.training.loop import train

SEEDS = (0, 1)
MARGIN = 1.5  # times the rate
LEARNT = 0.05  # nats under the entropy of the tokens' frequencies
LEFT = 0.8  # of the validation loss before the first step
WORSE = 0.3  # nats
SIDE_BY_SIDE = 8  # runs
LOT = 24  # numbers that are given to the workers at once
TRIES = 8  # numbers of a scenario that too few setups fit


def measure(kept: int, each: int = 0, workers: int | None = None) -> None:
    """Measure numbers until so many setups are kept, and so many fit each failing scenario, as far as they train.

    The file is written whenever some are measured.
    """
    known = _known()
    with progress("setups") as told:
        while lot := _next(known, kept, workers or cores()) or _next_of_each(known, each):
            pieces = _pieces(lot)
            done = 0
            with closing(in_workers(_verdicts, pieces, workers=workers or cores(), so_far=str)) as found:
                for result in found:
                    known |= result.value
                    done += len(result.value)
                    _write(known)
                    told(done, len(lot), f"{len(_kept(known))} of {kept} kept", result.left)


def _next(known: dict[int, dict[str, Any]], kept: int, workers: int) -> list[int]:
    """Numbers to measure until so many setups are kept; none where they are."""
    lacking = kept - len(_kept(known))
    share = max(0.5, len(_kept(known)) / max(1, len(known)))
    wanted = min(LOT, max(workers, round(lacking / share))) if lacking > 0 else 0
    return list(islice((n for n in count() if n not in known), wanted))


def _next_of_each(known: dict[int, dict[str, Any]], each: int) -> list[int]:
    """Numbers over all known ones that are drawn for the failing scenarios that fewer than `each` setups fit."""
    fit = Counter(id for row in _kept(known) for id in fitting(stored.setup_of(row["settings"])))
    tried = Counter(row["leader"] for row in known.values())
    failing = [id for id in leaders() if not scenario(id).look_alike]
    lacking = {id: min(each - fit[id], TRIES - tried[id]) for id in failing}
    lacking = {id: number for id, number in lacking.items() if number > 0}
    lot: list[int] = []
    numbers = count(max(known, default=-1) + 1)
    while lacking and len(lot) < LOT:
        number = next(numbers)
        first = leader(number)
        if first in lacking:
            lot.append(number)
            lacking[first] -= 1
            lacking = {id: left for id, left in lacking.items() if left}
    return lot


def verdict(trace: Trace, setup: Setup) -> str:
    """Why a healthy run is not one; empty where it is."""
    if len(trace) < setup.steps or not np.isfinite(trace["loss"]).all():
        return "not finite"
    losses = trace["validation_loss"][trace.evaluated]
    if setup.objective is not ObjectiveKind.NEXT_TOKEN:
        if losses[-1] > LEFT * losses[0]:
            return "learnt too little"
    elif losses[-1] > token_entropy(setup) - LEARNT:
        return "learnt no more than how frequent each token is"
    return "ends worse than it was" if losses[-1] > losses.min() + WORSE else ""


def token_entropy(setup: Setup) -> float:
    """Entropy of the frequencies of the validation set's targets, nats: what a model has that knows no context."""
    batch, _ = validation(setup)
    counts = np.bincount(batch.targets[batch.weights > 0].astype(np.int64))
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())


def _pieces(numbers: Sequence[int]) -> list[Piece]:
    """Runs of one shape side by side."""
    shapes: dict[int, list[int]] = {}
    for number in numbers:
        shapes.setdefault(drawn(number)[1].number, []).append(number)
    lots = [
        group[i : i + SIDE_BY_SIDE // len(SEEDS)]
        for group in shapes.values()
        for i in range(0, len(group), SIDE_BY_SIDE // len(SEEDS))
    ]
    cost = lambda lot: core_seconds([drawn(n)[2] for n in lot for _ in SEEDS])  # noqa: E731
    return [Piece(f"setups {lot}", (lot,), cost(lot), SIDE_BY_SIDE) for lot in lots]


def _verdicts(numbers: list[int], width: int) -> dict[int, dict[str, Any]]:
    """What is written of each number. Runs in a worker process."""
    setups = {number: drawn(number)[2] for number in numbers}
    jobs = [
        Job(f"{number} at {factor:g}", seed, replaced(setup, optimizer__lr=setup.optimizer.lr * factor), ())
        for number, setup in setups.items()
        for seed, factor in zip(SEEDS, (1.0, MARGIN), strict=True)
    ]
    why: dict[int, list[str]] = {}
    for first in range(0, len(jobs), width):
        lot = jobs[first : first + width]
        for job, result in zip(lot, train(lot), strict=True):
            why.setdefault(int(job.run_id.split()[0]), []).append(verdict(result.trace, job.setup))
    return {number: _row(number, next(filter(None, words), "")) for number, words in why.items()}


def _row(number: int, why: str) -> dict[str, Any]:
    leader, form, _ = drawn(number)
    row = {"number": number, "leader": leader, "shape": form.number, "settings": _settings(number)}
    return row | ({"rejected": why} if why else {})


def _known() -> dict[int, dict[str, Any]]:
    """What is measured, of numbers that are still drawn as they were."""
    content = read_json(stored.FILE) if stored.FILE.exists() else {"setups": [], "rejected": []}
    known = {row["number"]: row for row in (*content["setups"], *content["rejected"])}
    return {number: row for number, row in known.items() if row.get("settings") == _settings(number)}


def _settings(number: int) -> dict[str, Any]:
    return stored.settings_of(drawn(number)[2])


def _kept(known: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for _, row in sorted(known.items()) if "rejected" not in row]


def _write(known: dict[int, dict[str, Any]]) -> None:
    rejected = [row for _, row in sorted(known.items()) if "rejected" in row]
    content = {"environment": environment(), "setups": _kept(known), "rejected": rejected}
    write_json(stored.FILE, content)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kept", type=int, help="setups to keep")
    parser.add_argument("--each", type=int, default=0, help="setups that a failing scenario fits, at least")
    parser.add_argument("--workers", type=int)
    chosen = parser.parse_args()
    measure(chosen.kept, chosen.each, chosen.workers)
