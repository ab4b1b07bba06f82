"""A plan to a data set on disk: bundles to worker processes, resumed where it was left.

    DIR/plan.json               what was asked for; written first
    DIR/telemetry/<bundle>...   written by workers, each whole or not there
    DIR/bundles/<bundle>.json   rows and checksum of a finished bundle
    DIR/runs.parquet            written when every bundle is finished
    DIR/manifest.json           written last: without it there is no data set

Killed at any moment, the same command goes on from the finished bundles and ends with the same
bytes, since every file is a function of the plan.
"""

import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from trainwreck.evaluation.dataset.dataset import DataSet, load, write_manifest, write_runs, write_telemetry
from trainwreck.evaluation.dataset.documents import PLAN_FORMAT, read_plan
from trainwreck.evaluation.dataset.schema import RUN_FIELDS, SCHEMA_VERSION, Harm, RunKind
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import copy, locked, read_json, sha256, write_json
from trainwreck.evaluation.labels.labelling import label_runs, points_of
from trainwreck.scenarios.config.drawn import named
from trainwreck.scenarios.config.settings import Setup, as_dict, essence, fingerprint
from trainwreck.scenarios.data.batches import entropy_floor
from trainwreck.scenarios.datasets.engines import Local, Piece, Settings, in_workers
from trainwreck.scenarios.datasets.resources import core_seconds, needed, width_within
from trainwreck.scenarios.datasets.signatures import with_signatures
from trainwreck.scenarios.spec import outside
from trainwreck.scenarios.spec.compound import Compound
from trainwreck.scenarios.spec.pages import page
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, unique
from trainwreck.scenarios.training.backend import CPU, Backend
from trainwreck.scenarios.training.bundle import bundle_width
from trainwreck.scenarios.training.environment import environment, half_products, prepare
from trainwreck.scenarios.training.loop import train

PLAN_VERSION = 1
TOLERANCE = 0.05  # nats; see Scenario.tolerance
SHARED = 60.0  # seconds until a file of another machine is seen at the latest, by NFS's usual settings

# Told (bundles done, bundles in all, run-steps done, run-steps in all, seconds left or None).
Progress = Callable[[int, int, int, int, float | None], None]


@dataclass(frozen=True)
class PlannedBundle:
    """Runs that one worker trains side by side; its name is a function of what is in it."""

    specs: tuple[RunSpec, ...]

    @property
    def name(self) -> str:
        """A hash of what its files hold."""
        return "b" + fingerprint([SCHEMA_VERSION, [_place(spec) for spec in self.specs]])

    @property
    def work(self) -> int:
        """Run-steps."""
        return sum(spec.setup.steps for spec in self.specs)

    @property
    def setups(self) -> list[Setup]:
        """Of its runs, in order."""
        return [spec.setup for spec in self.specs]

    @property
    def cost(self) -> float:
        """Seconds on one core, for putting the longest first and for the time left."""
        return core_seconds(self.setups)

    def __str__(self) -> str:
        first = self.specs[0]
        rest = f" and {len(self.specs) - 1} more" if len(self.specs) > 1 else ""
        return f"{self.name} ({first.role.value} {first.scenario} seed {first.seed}{rest})"


def bundles(specs: list[RunSpec], backend: Backend = CPU) -> list[PlannedBundle]:
    """Runs of one shape cut into bundles of what are stepped as one, the costliest bundle first.

    On a CPU healthy runs keep to themselves, so that plans with the same ones have the same bundles of them. On a GPU
    they stay with the faulty runs that they are the twins of: there the width of a bundle changes last bits.
    """
    groups: dict[str, list[RunSpec]] = {}
    for spec in specs:
        healthy = spec.base if spec.role is Role.TWIN and backend.device == CPU.device else ""
        shape = (essence(spec.setup.model), spec.setup.data.rows, spec.setup.steps, healthy)
        groups.setdefault(fingerprint(shape), []).append(spec)
    cut = []
    for group in groups.values():
        group.sort(key=lambda s: (s.base, s.seed, s.run_id))  # runs of one seed share their batches
        setup = group[0].setup
        size = max(2, bundle_width(setup.data.rows, setup.model, backend.device, backend.impl))
        cut += [PlannedBundle(tuple(group[i : i + size])) for i in range(0, len(group), size)]
    return sorted(cut, key=lambda b: (-b.cost, b.name))


def generate(
    specs: list[RunSpec],
    out: Path,
    *,
    workers: int = 1,
    engine: Settings | None = None,
    name: str = "custom",
    backend: Backend = CPU,
    progress: Progress | None = None,
    reuse: Path | None = None,
    minutes: float | None = None,
) -> DataSet:
    """Train every run of a plan, label it, and write the data set; goes on where an earlier call stopped.

    engine: where; on so many `workers` of this machine by default. What was begun on one goes on on another.
    reuse: a folder of data sets whose bundles, of the same backend, need not be trained again.
    minutes: begin no bundle after so long.
    InputError where `out` holds something else, another process is at work there, or no run fits in the engine's
    memory; WorkerLostError where bundles lost their worker again and again; UnfinishedError where time is over.
    """
    specs = unique(specs)
    engine = engine or Local(workers)
    engine.check()
    pieces, engine = _pieces(specs, out, engine, backend)
    _is_claimed(specs, out, backend)  # nothing is written to a folder of something else, not even a lock
    with locked(out / ".lock", out):
        if not _is_claimed(specs, out, backend):  # by what another process has written in between
            _claim(specs, out, name, backend)
        if not (out / "manifest.json").exists():
            if reuse:
                _adopt(bundles(specs, backend), out, reuse, backend)
            _train_all(pieces, out, engine, backend, progress, minutes)
            finish(specs, out, name, backend)
    return load(out)


def finish(specs: list[RunSpec], out: Path, name: str, backend: Backend = CPU) -> None:
    """Label the finished runs and write runs table and manifest."""
    rows = [row for bundle in bundles(specs, backend) for row in read_json(_part(out, bundle))["rows"]]
    order = {spec.run_id: i for i, spec in enumerate(specs)}
    rows = with_tolerances(sorted(rows, key=lambda row: order[row["run_id"]]))
    write_runs(out, rows)
    trace = DataSet.unlisted(out).trace
    write_runs(out, label_runs(with_signatures(rows, trace), trace, points_of(out)))
    write_json(out / "catalogue.json", {name: page(name) for name in sorted({s.entry.id for s in specs})})
    made = {"environment": environment(), "backend": backend.to_json()}
    provenance = {**made, "float16_products": half_products(backend.device)}
    write_manifest(out, {"plan": name, "plan_hash": _plan_hash(specs), **provenance})


def train_bundle(bundle: PlannedBundle, out: Path, backend: Backend = CPU, width: int | None = None) -> int:
    """Train one bundle and write its two files; returns its run-steps. Runs in a worker process.

    width: runs that are trained side by side at most, one lot after the other; all where None.
    """
    prepare()
    began, width = _processor_time(), width or len(bundle.specs)
    traces = []
    for first in range(0, len(bundle.specs), width):
        jobs = [spec.job() for spec in bundle.specs[first : first + width]]
        with outside.blamed():
            traces += [result.trace for result in train(jobs, device=backend.device, impl=backend.impl)]
    seconds = (_processor_time() - began) / len(traces)
    file = f"telemetry/{bundle.name}.parquet"
    write_telemetry(out, file, traces)
    rows = [injected_facts(spec, trace, file) for spec, trace in zip(bundle.specs, traces, strict=True)]
    content = {"rows": rows, "sha256": sha256(out / file), "seconds_per_run": round(seconds, 3)}
    write_json(_part(out, bundle), content)
    return bundle.work


def injected_facts(spec: RunSpec, trace: Trace, file: str) -> dict[str, Any]:
    """A row of the runs table as far as plan and injection know it."""
    entry, faulty = spec.entry, spec.role is not Role.TWIN
    kind = {Role.TWIN: RunKind.HEALTHY, Role.CURED: RunKind.CURED}.get(spec.role, RunKind.FAILING)
    if entry.look_alike and spec.role is Role.FAULTY:
        kind = RunKind.LOOK_ALIKE
    elif isinstance(entry, Compound) and spec.role is Role.FAULTY:
        kind = RunKind.COMPOUND
    final = trace.final_loss()
    floor = entropy_floor(spec.setup)
    facts: dict[str, Any] = dict.fromkeys(field for field, _, _ in RUN_FIELDS)
    facts |= {
        "run_id": spec.run_id,
        "scenario": entry.id if faulty else "",
        "cause": entry.cause if faulty else "",
        "causes": json.dumps(entry.causes(spec.seed, spec.setup.steps) if faulty else {}),
        "family": entry.family_name if faulty else "",
        "kind": kind.value,
        "split": spec.split.value,
        "held_out": spec.held_out,
        "severity": spec.severity.value if faulty and spec.severity else "",
        "seed": spec.seed,
        "size": spec.size.value,
        "base": spec.base,
        "planned_steps": spec.setup.steps,
        "last_step": len(trace) - 1,
        "onset_step": spec.onset,
        "cure_step": spec.cure_step,
        "visible_steps": "{}",
        "visible_profiles": "{}",
        "no_return_branches": "{}",
        "final_loss": final if final == final else None,
        "final_gap": final - floor if final == final and floor == floor else None,
        "tolerance": entry.tolerance if faulty else None,
        "harm": harm_of(spec).value if faulty else "",
        "signatures": "{}",
        "twin_id": spec.twin.run_id if faulty and not entry.own_twin else "",
        "context": json.dumps(declared(spec.setup), sort_keys=True),
        "spec": json.dumps(spec.to_json(), sort_keys=True),
        "file": file,
    }
    return facts


def with_tolerances(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the runs table; on drawn setups with a tolerance that is measured there.

    It is what a scenario declares for its own base, the range of final losses of healthy runs, at least `TOLERANCE`.
    """
    ends: dict[str, list[float]] = {}
    for row in rows:
        if row["kind"] == RunKind.HEALTHY.value and row["final_loss"] is not None:
            ends.setdefault(row["base"], []).append(row["final_loss"])
    measured = {base: max(TOLERANCE, max(found) - min(found)) for base, found in ends.items()}
    return [
        {**row, "tolerance": measured.get(row["base"], TOLERANCE)}
        if row["tolerance"] is not None and named(json.loads(row["spec"])["overrides"])[0]
        else row
        for row in rows
    ]


def harm_of(spec: RunSpec) -> Harm:
    """On which side of its twin's loss a run is harmed. A look-alike and the cure of a leak end where the twin does."""
    if spec.entry.look_alike or (spec.role is Role.CURED and spec.entry.harm is Harm.BELOW):
        return Harm.EITHER
    return spec.entry.harm


def declared(setup: Setup) -> dict[str, Any]:
    """What the practitioner believes is running, without the run's length, which no detector may know."""
    return {name: value for name, value in as_dict(setup).items() if name not in ("steps", "tail")}


def _processor_time() -> float:
    """Seconds that this process has computed, and processes that it started and that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _claim(specs: list[RunSpec], out: Path, name: str, backend: Backend) -> None:
    """Write plan.json. Under the lock: two processes that start at once would otherwise keep the later one's plan."""
    content = {"format": PLAN_FORMAT, "version": PLAN_VERSION, "name": name, "hash": _plan_hash(specs)}
    content["backend"] = backend.to_json()
    content["runs"] = [spec.to_json() for spec in specs]
    write_json(out / "plan.json", content)


def _is_claimed(specs: list[RunSpec], out: Path, backend: Backend) -> bool:
    """Whether this plan is in the folder. InputError where another one is, or something else."""
    if out.exists() and not out.is_dir():
        raise InputError(f"out: {str(out)!r} is a file; allowed: a folder")
    file = out / "plan.json"
    if file.exists():
        known = read_plan(file)
        if known.get("hash") != _plan_hash(specs):
            raise InputError(f"out: {str(out)!r} holds another plan; allowed: an empty folder, or the same plan")
        begun = _backend(known)
        if begun != backend:
            raise InputError(
                f"out: {str(out)!r} was begun on {begun.device} with {begun.impl} kernels, not on {backend.device} "
                f"with {backend.impl}; allowed: the same, or an empty folder"
            )
        return True
    if out.exists() and any(p.name != ".lock" and not p.name.startswith(".tmp-") for p in out.iterdir()):
        raise InputError(f"out: {str(out)!r} is not empty and holds no plan; allowed: an empty folder")
    return False


def _pieces(specs: list[RunSpec], out: Path, engine: Settings, backend: Backend) -> tuple[list[Piece], Settings]:
    """Every bundle as a piece of work, with as many runs side by side as there is memory for; and who is to do it."""
    everything, device = bundles(specs, backend), backend.device
    engine = engine.fit(max((needed(b.setups, 1, backend) for b in everything), default=0), device)
    share, folder = engine.share(device), out.absolute()
    pieces = [Piece(str(b), (b, folder, backend), b.cost, width_within(b.specs, share, backend)) for b in everything]
    return pieces, engine


def _train_all(
    pieces: list[Piece],
    out: Path,
    engine: Settings,
    backend: Backend,
    progress: Progress | None,
    minutes: float | None,
) -> None:
    todo = [piece for piece in pieces if not _is_done(out, piece.args[0])]
    total = sum(piece.args[0].work for piece in pieces)
    steps = total - sum(piece.args[0].work for piece in todo)
    done = len(pieces) - len(todo)
    report = lambda left: progress and progress(done, len(pieces), steps, total, left)  # noqa: E731
    report(None)
    if not todo:
        return
    found = in_workers(
        train_bundle,
        todo,
        engine=engine.start(len(todo)),
        share=engine.share(backend.device) if backend.device == "cpu" else None,
        so_far=lambda: f"{done} of {len(pieces)} bundles are done",
        minutes=minutes,
    )
    with closing(found):
        for result in found:
            _await(out, result.piece.args[0])
            done, steps = done + 1, steps + result.value
            report(result.left)


def _await(out: Path, bundle: PlannedBundle) -> None:
    """A shared file system may show another machine's files late. InputError where it is not shared, or not this."""
    until = monotonic() + SHARED
    while not _is_done(out, bundle):
        if monotonic() >= until:
            raise InputError(
                f"out: {str(out)!r} has no bundle {bundle.name}, which a worker says that it has written; allowed: a "
                "folder that every machine of the engine shares, with the same version of this package on each"
            )
        sleep(1.0)


def _adopt(wanted: list[PlannedBundle], out: Path, reuse: Path, backend: Backend) -> None:
    """Copy finished bundles from the data sets in a folder that were made on the same backend."""
    for bundle in wanted:
        for part in () if _is_done(out, bundle) else reuse.glob(f"*/bundles/{bundle.name}.json"):
            made = part.parent.parent
            if _is_done(made, bundle) and _backend(read_plan(made / "plan.json")) == backend:
                file = f"telemetry/{bundle.name}.parquet"
                copy(made / file, out / file)
                write_json(_part(out, bundle), read_json(part))
                break


def _backend(known: dict[str, Any]) -> Backend:
    """Of a plan on disk; older ones that do not name it are the CPU's."""
    return Backend.from_json(known.get("backend", CPU.to_json()))


def _is_done(out: Path, bundle: PlannedBundle) -> bool:
    part, file = _part(out, bundle), out / f"telemetry/{bundle.name}.parquet"
    return part.exists() and file.exists() and sha256(file) == read_json(part)["sha256"]


def _part(out: Path, bundle: PlannedBundle) -> Path:
    return out / "bundles" / f"{bundle.name}.json"


def _plan_hash(specs: list[RunSpec]) -> str:
    return fingerprint([_place(spec) for spec in specs])


def _place(spec: RunSpec) -> list[str]:
    """What a row of the runs table says of a run besides what the run itself does."""
    return [spec.run_id, spec.split.value, spec.held_out]
