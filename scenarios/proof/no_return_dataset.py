"""Points of no return of a whole data set, in slices: bundles to worker processes, resumed where they were left.

    DIR/no_return/<run_id>.json   what was found for a run, whole or not there

Failing runs that end within tolerance of the twin without any cure need no branches: they can be saved to
the end. The runs table takes the results in when all runs of the slice are done (`evaluation/labels/labelling.py`).

Killed at any moment, the same command goes on from the points that are there. What is lost is the searches that were
under way: of each worker the runs that it searches side by side, whose training is estimated at `LOT` seconds of one
core at most, or one run where that alone takes longer.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.schema import FAILURES, Harm, Outcome
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.files import locked, write_json
from trainwreck.evaluation.labels.labelling import point_file, points_of, refuse_change, relabel
from trainwreck.scenarios.datasets.engines import Local, Piece, Settings, in_workers
from trainwreck.scenarios.datasets.generate import PlannedBundle, bundles
from trainwreck.scenarios.datasets.resources import core_seconds, needed, width_within
from trainwreck.scenarios.datasets.signatures import with_signatures
from trainwreck.scenarios.proof.no_return import BUDGET, Search, search, states_held
from trainwreck.scenarios.spec.run_spec import Role, RunSpec
from trainwreck.scenarios.training.backend import Backend, recorded
from trainwreck.scenarios.training.environment import prepare

# Seconds of one core that the searches of a piece of work are estimated at, at most. Of a GPU no rate is assumed but
# that it is worth twenty cores.
LOT = {"cpu": 300.0, "cuda": 6000.0}

# Told (runs done, runs in all, seconds left by what the searches cost, None where that is not known yet).
Progress = Callable[[int, int, float | None], None]


def measure(
    folder: Path,
    *,
    splits: Sequence[str] = (),
    workers: int | None = None,
    progress: Progress | None = None,
    minutes: float | None = None,
) -> list[dict[str, Any]]:
    """Label a data set: visible steps, and the point of no return of every failing run; rows as written.

    splits: only runs of these; all by default. workers: by default one a core, fewer where memory is short, and one
    for a GPU. minutes: begin no bundle after so long. Goes on where an earlier call stopped. InputError for a split
    that is not there, another process at work, runs that this version would train otherwise, or where no run fits in
    memory; WorkerLostError where a worker was killed; UnfinishedError where time is over.
    """
    dataset = load(folder)
    refuse_change(dataset)
    for split in splits:
        if split not in set(dataset.runs["split"]):
            raise unknown("split", split, sorted(set(dataset.runs["split"])))
    with locked(folder / ".lock", folder, "dir"):
        rows: list[dict[str, Any]] = []
        while not rows or _wanting(dataset, splits)[0]:  # labels made again may find that more runs fail
            _search_all(dataset, splits, workers, progress, minutes)
            rows, dataset = relabel(folder, with_signatures), load(folder)
        return rows


def _wanting(dataset: DataSet, splits: Sequence[str]) -> tuple[list[RunSpec], int]:
    """Failing runs that ended badly and have no point yet, and how many have one."""
    runs, found = dataset.runs, points_of(dataset.path)
    cases = runs[runs["kind"].isin(FAILURES) & (runs["outcome"] != Outcome.RECOVERED.value)]
    if splits:
        cases = cases[cases["split"].isin(splits)]
    specs = [_spec(row) for _, row in cases.iterrows() if row["run_id"] not in found]
    return specs, len(cases) - len(specs)


def _search_all(
    dataset: DataSet, splits: Sequence[str], workers: int | None, progress: Progress | None, minutes: float | None
) -> None:
    specs, done = _wanting(dataset, splits)
    total = done + len(specs)
    backend = recorded(dataset.manifest)
    pieces, engine = _pieces(dataset, specs, workers, backend)
    if progress:
        progress(done, total, None)
    if not pieces:
        return
    found = in_workers(
        _search_bundle,
        pieces,
        engine=engine.start(len(pieces)),
        share=engine.share(backend.device) if backend.device == "cpu" else None,
        so_far=lambda: f"{done} of {total} runs are done",
        minutes=minutes,
    )
    with closing(found):
        for result in found:
            done += result.value
            if progress:
                progress(done, total, result.left)


def _pieces(
    dataset: DataSet, specs: list[RunSpec], workers: int | None, backend: Backend
) -> tuple[list[Piece], Settings]:
    """Searches as pieces of work, with as many side by side as there is memory for; and who is to do it."""
    device = backend.device
    cut = [lot for bundle in bundles(specs, backend) for lot in lots(bundle, device)]
    engine = Local(1 if workers is None and device != "cpu" else workers)
    engine = engine.fit(max((needed(b.setups, 1, backend, _held(b)) for b in cut), default=0), device)
    share = engine.share(device)
    pieces = []
    for lot in cut:
        width = width_within(lot.specs, share, backend, _held(lot))
        args = ([case(dataset, spec) for spec in lot.specs], dataset.path, backend)
        pieces.append(Piece(str(lot), args, BUDGET * lot.cost, width))
    return pieces, engine


def lots(bundle: PlannedBundle, device: str) -> list[PlannedBundle]:
    """A bundle cut so that the searches of a part take `LOT` at most, or are one: all that a kill loses of a worker."""
    size = len(bundle.specs)
    while size > 1 and BUDGET * core_seconds(bundle.setups[:size]) > LOT[device]:
        size //= 2
    return [PlannedBundle(bundle.specs[i : i + size]) for i in range(0, len(bundle.specs), size)]


def _held(bundle: PlannedBundle) -> int:
    return states_held(bundle.specs[0].setup.steps)


def case(dataset: DataSet, spec: RunSpec) -> Search:
    """The search for a run of a data set, with what is known of it: how its twin and its cured run ended."""
    row, runs = dataset.run(spec.run_id), dataset.runs
    target = float(dataset.run(row["twin_id"])["final_loss"])
    cured = dataclasses.replace(spec, role=Role.CURED)
    step, gaps = cured.cure_step, {}
    if cured.run_id in runs.index and step is not None and step <= row["last_step"] and _is_branch(cured, step):
        gaps[step] = float(dataset.run(cured.run_id)["final_loss"]) - target
    side = Harm(row.get("harm") or Harm.EITHER.value)
    return Search(spec, int(row["last_step"]), target, float(row["tolerance"]), gaps, side)


def _is_branch(cured: RunSpec, step: int) -> bool:
    """Whether a cured run is a branch at a step: of a pair, each fault has a cure of its own, earlier maybe."""
    run, branch = ([(at.step, at.until) for at in job.changes] for job in (cured.job(), cured.branch(step)))
    return run == branch


def _spec(row: pd.Series) -> RunSpec:
    spec = RunSpec.from_json(json.loads(row["spec"]))
    if spec.run_id != row["run_id"]:
        raise InputError(f"run {row['run_id']}: its scenario has changed since; this version would train {spec.run_id}")
    return spec


def _search_bundle(searches: list[Search], folder: Path, backend: Backend, width: int) -> int:
    """Find and write the points of a piece's runs, so many side by side; returns how many. Runs in a worker."""
    prepare()
    for first in range(0, len(searches), width):
        lot = searches[first : first + width]
        search(lot, backend)
        for one in lot:
            write_json(point_file(folder, one.spec.run_id), one.result())
    return len(searches)
