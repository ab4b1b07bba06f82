"""Proof: a scenario does what its page says, on many seeds, or it is not taken into the catalogue.

For each seed the faulty run, its twin and the cured run are trained, and as many healthy runs of
further seeds. A failure is proven where

    the signature holds on at least 95 % of the faulty runs,
    and on at most 2 % of the twins and of the healthy runs, each compared with another seed;
    telemetry is bitwise the twin's before the onset;
    at least 90 % of the cured runs end within tolerance of the twin's final loss.

A look-alike is proven where at least 95 % of its runs end within tolerance of the twin (or of the
source's entropy, where nothing is changed), and at least half of them fool a one-line detector:
it alarms at or after the onset and not before. (On one seed alone, a quick look, nobody has to be fooled.)

A wrong log is proven as a failure is, and the training behind it must be bitwise the twin's to the end: so it has no
cured run, and its losses on held-out rows are the twin's.

A predicate is found on the seeds of the proof. So as many fresh seeds are drawn when it is finished, and the record has
both halves: `fresh_seed`, `predicate`, `both_halves`. With one run of sixteen without the signature a scenario stays
proven, at the rate that the record has; 95 % of sixteen would be all of them. A run without its signature is
labelled `not shown` in data sets.
"""

import ast
import dataclasses
import inspect
import json
import secrets
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.constants import ONE_LINERS
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import EVALUATIONS, JOINT, SIGNALS
from trainwreck.evaluation.detectors.registry import load_detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json, write_json
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.short_forms import AsText
from trainwreck.scenarios.config.settings import fingerprint
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.datasets.generate import Progress, generate
from trainwreck.scenarios.spec import outside
from trainwreck.scenarios.spec.proofs import enter_here
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, Split, family_of, unique
from trainwreck.scenarios.spec.scenario import Family, Severity
from trainwreck.scenarios.training.backend import CPU, Backend

FAULTY_SHARE, HEALTHY_SHARE, CURED_SHARE, FOOLED_SHARE = 0.95, 0.02, 0.90, 0.5
FAULTY_SHARE_OF_BOTH = 0.90  # of both halves, where each alone is too small to tell 95 % from 90 %
FEWEST_SEEDS = 8
FIRST_FRESH = 10**6  # no settings are searched on seeds from here on
SHARES = ("signature_faulty", "signature_twin", "signature_healthy", "cured", "within_tolerance")
# A resume pauses the modelled clock of the run that resumes; nothing else may differ before the onset.
COMPARED = tuple(s.name for s in SIGNALS)


@dataclass(frozen=True, repr=False)
class Proof(AsText):
    """What was measured of one scenario at one size and severity. Rates are shares of runs."""

    scenario: str
    version: int
    size: str
    severity: str
    overrides: tuple[str, ...]
    identity: str  # fingerprint of healthy setup and knobs
    seeds: int
    signature_faulty: float | None
    signature_twin: float | None
    signature_healthy: float | None
    bitwise: bool
    cured: float | None
    within_tolerance: float  # faulty runs that end as the twin does
    fooled: dict[str, float]  # look-alikes: one-line detector to the share of runs it alarms on
    latent: int
    delay: float | None  # median of v - s, steps
    first_signal: str  # where it most often shows first
    gap: float | None  # median final gap, nats
    non_finite: int
    seconds: float  # of one core, a run, in a bundle
    holds: bool  # all of the above, on the seeds that were run
    proven: bool  # and these are enough

    def __repr__(self) -> str:
        of = ", ".join(part for part in (self.scenario, self.size, self.severity, *self.overrides) if part)
        answer = "proven" if self.proven else f"{'holds' if self.holds else 'does not hold'}, not proven"
        shares = {"faulty": self.signature_faulty, "healthy": self.signature_healthy, "cured": self.cured}
        shown = "".join(f"; {name} {share:.0%}" for name, share in shares.items() if share is not None)
        return f"{of}: {answer} on {self.seeds} seeds{shown}; bitwise twin {'yes' if self.bitwise else 'no'}"


def plan(
    names: Sequence[str],
    seeds: int,
    *,
    first: int = 0,
    size: Size | None = None,
    severity: Severity | None = None,
    one_severity: bool = False,
    overrides: Sequence[str] = (),
) -> list[RunSpec]:
    """The runs of a proof, at every severity or at one, and healthy runs of other seeds as calibration.

    Seeds are counted from `first`; those of the calibration runs come after them.
    """
    specs: list[RunSpec] = []
    for name in names:
        if JOINT in name:
            raise InputError(f"scenario: {name!r} can't be proven; allowed: single scenarios")
        for level in _levels(name, severity, one_severity):
            specs += family_of(name, range(first, first + seeds), size=size, severity=level, overrides=overrides)
        if scenario(name).own_twin:
            continue
        re_seeds = range(first + seeds, first + 2 * seeds)
        twins = family_of(name, re_seeds, size=size, overrides=overrides, roles=(Role.TWIN,))
        specs += [dataclasses.replace(s, split=Split.CALIBRATION) for s in twins]
    for spec in specs:
        spec.check_steps()
    return unique(specs)


def verify(
    names: Sequence[str],
    out: Path,
    *,
    seeds: int = FEWEST_SEEDS,
    first: int = 0,
    size: Size | None = None,
    severity: Severity | None = None,
    one_severity: bool = False,
    overrides: Sequence[str] = (),
    workers: int = 1,
    backend: Backend = CPU,
    progress: Progress | None = None,
) -> list[Proof]:
    """Train and judge. `out` keeps the runs, one folder a plan: a second call only judges.

    At every severity, at the one asked for, or with `one_severity` at the default one. Proofs of one base
    in the same folder share their healthy runs. Only runs from seed 0 on are a proof;
    other seeds are for finding the settings. What is proven of a scenario from outside is kept for this machine.
    """
    if seeds < 1:
        raise InputError(f"seeds: {seeds} is not allowed; allowed: 1 or more ({FEWEST_SEEDS} for a proof)")
    specs = plan(
        names, seeds, first=first, size=size, severity=severity, one_severity=one_severity, overrides=overrides
    )
    where = [] if backend == CPU else [backend.to_json()]
    folder = out / fingerprint([spec.run_id for spec in specs] + where)
    dataset = generate(specs, folder, workers=workers, name="verify", backend=backend, progress=progress, reuse=out)
    with outside.blamed():
        found = [
            judge(name, level, dataset, seeds, first=first, size=size, overrides=overrides)
            for name in names
            for level in _levels(name, severity, one_severity)
        ]
    _enter_here(found)
    return found


def judge(
    name: str,
    severity: Severity | None,
    dataset: DataSet,
    seeds: int,
    *,
    first: int = 0,
    size: Size | None = None,
    overrides: Sequence[str] = (),
) -> Proof:
    """The proof of a scenario from the runs of `plan`."""
    entry = scenario(name)

    def runs(role: Role, which: range) -> list[RunSpec]:
        return family_of(name, which, size=size, severity=severity, overrides=overrides, roles=(role,))

    proving = range(first, first + seeds)
    faulty = runs(Role.FAULTY, proving)
    twins = runs(Role.TWIN, proving)
    healthy = runs(Role.TWIN, range(first + seeds, first + 2 * seeds))
    cured = [] if entry.look_alike else runs(Role.CURED, proving)
    table = dataset.runs
    rows = table.loc[[s.run_id for s in faulty]]
    gaps = rows["final_gap"].astype(float)
    within = float(((gaps.abs() <= entry.tolerance) & (rows["outcome"] != "non_finite")).mean())
    bitwise = entry.own_twin or all(_same_before(dataset, f, t) for f, t in zip(faulty, twins, strict=True))
    if entry.family is Family.LOGGING:
        bitwise &= all(_same_evaluations(dataset, f, t) for f, t in zip(faulty, twins, strict=True))
    rates: dict[str, float | None] = {"faulty": None, "twin": None, "healthy": None}
    if entry.has_signature:
        onsets = [s.onset or 0 for s in faulty]
        rates["faulty"] = _rate(entry, dataset, faulty, twins, onsets)
        rates["twin"] = _rate(entry, dataset, twins, _turned(twins) if seeds > 1 else healthy, onsets)
        rates["healthy"] = _rate(entry, dataset, healthy, _turned(healthy) if seeds > 1 else twins, onsets)
    cure_gaps = table.loc[[s.run_id for s in cured], "final_gap"].astype(float)
    cure_rate = float((cure_gaps.abs() <= entry.tolerance).mean()) if cured else None
    fooled = {} if entry.has_signature else _fooled(dataset, faulty)
    signals = Counter(f for f in (_first_signal(row) for _, row in rows.iterrows()) if f)
    delays = (rows["visible_step"] - rows["onset_step"]).astype(float).dropna()
    holds = _reached(
        rates["faulty"], rates["twin"], rates["healthy"], cure_rate, within, fooled, bitwise, one_run=seeds == 1
    )
    return Proof(
        scenario=name,
        version=entry.version,
        size=faulty[0].size.value,
        severity=severity.value if severity else "",
        overrides=tuple(overrides),
        identity=faulty[0].identity,
        seeds=seeds,
        signature_faulty=rates["faulty"],
        signature_twin=rates["twin"],
        signature_healthy=rates["healthy"],
        bitwise=bitwise,
        cured=cure_rate,
        within_tolerance=within,
        fooled=fooled,
        latent=int((rows["kind"] == "latent").sum()),
        delay=float(delays.median()) if len(delays) else None,
        first_signal=signals.most_common(1)[0][0] if signals else "",
        gap=float(gaps.median()) if gaps.notna().any() else None,
        non_finite=int((rows["outcome"] == "non_finite").sum()),
        seconds=_seconds(dataset, faulty),
        holds=holds,
        proven=holds and seeds >= FEWEST_SEEDS and first == 0,
    )


def _enter_here(proofs: Sequence[Proof]) -> None:
    """Keep on this machine what is proven of scenarios from outside: data sets made later do not flag them."""
    passed = [proof for proof in proofs if proof.proven and outside.is_outside(proof.scenario)]
    if passed:
        sources = [{"source": outside.source_of(proof.scenario)} for proof in passed]
        enter_here([row | source for row, source in zip(to_rows(passed), sources, strict=True)])


def fresh_seed(out: Path) -> int:
    """The first of the seeds that nobody has seen. Drawn once for a folder of runs, so that slices of it resume."""
    path = out / "fresh_seed.json"
    if not path.exists():
        write_json(path, {"first": FIRST_FRESH + secrets.randbelow(2**31)})
    return int(read_json(path)["first"])


def predicate(name: str) -> str:
    """A hash of a signature's source without words: another one has to be tried on fresh seeds again."""
    entry = scenario(name)
    if not entry.has_signature:
        return ""
    function = ast.parse(textwrap.dedent(inspect.getsource(type(entry).signature))).body[0]
    for node in ast.walk(function):
        if isinstance(node, ast.Dict):
            node.keys = [None] * len(node.keys)
        if isinstance(node, ast.FunctionDef):
            node.returns = None
    return fingerprint(ast.dump(function))


def both_halves(row: dict[str, Any]) -> dict[str, Any]:
    """A recorded proof with the shares of both halves pooled, and `proven` by them; the row where it has one half."""
    if not (fresh := row.get("fresh")):
        return row
    count, more = row["seeds"], fresh["seeds"]

    def pooled(one: float | None, other: float | None) -> float | None:
        return None if one is None or other is None else (one * count + other * more) / (count + more)

    merged = {name: pooled(row[name], fresh[name]) for name in SHARES} | {
        "bitwise": row["bitwise"] and fresh["bitwise"]
    }
    merged["fooled"] = {name: pooled(share, fresh["fooled"][name]) for name, share in row["fooled"].items()}
    proven = _reached(**merged, faulty_share=FAULTY_SHARE_OF_BOTH)
    return row | merged | {"seeds": count + more, "proven": proven and row["holds"]}


def to_rows(proofs: Sequence[Proof]) -> list[dict[str, Any]]:
    """JSON-safe dicts, one a proof."""
    return [dataclasses.asdict(proof) | {"overrides": list(proof.overrides)} for proof in proofs]


def _rate(entry: Any, dataset: DataSet, runs: list[RunSpec], others: list[RunSpec], onsets: list[int]) -> float:
    held = [
        entry.holds(dataset.trace(run.run_id), dataset.trace(other.run_id), onset)
        for run, other, onset in zip(runs, others, onsets, strict=True)
    ]
    return float(np.mean(held))


def _turned(specs: list[RunSpec]) -> list[RunSpec]:
    return specs[1:] + specs[:1]


def _same_before(dataset: DataSet, faulty: RunSpec, twin: RunSpec) -> bool:
    onset = faulty.onset or 0
    a, b = dataset.trace(faulty.run_id), dataset.trace(twin.run_id)
    return all(np.array_equal(a[name][:onset], b[name][:onset], equal_nan=True) for name in COMPARED)


def _same_evaluations(dataset: DataSet, faulty: RunSpec, twin: RunSpec) -> bool:
    """Whether the losses on held-out rows are the twin's to the end: nothing of the training was touched."""
    a, b = dataset.trace(faulty.run_id), dataset.trace(twin.run_id)
    return all(np.array_equal(a[name], b[name], equal_nan=True) for name in EVALUATIONS)


def _fooled(dataset: DataSet, specs: list[RunSpec]) -> dict[str, float]:
    shares = {}
    for name in ONE_LINERS:
        detector = load_detector(name)
        firsts = [replay(detector, dataset.trace(s.run_id)).first_alarm for s in specs]
        hits = [f is not None and f >= (s.onset or 0) for f, s in zip(firsts, specs, strict=True)]
        shares[name] = float(np.mean(hits))
    return shares


def _first_signal(row: pd.Series) -> str:
    steps = json.loads(row["visible_steps"] or "{}")
    return min(steps, key=lambda name: steps[name]) if steps else ""


def _seconds(dataset: DataSet, specs: list[RunSpec]) -> float:
    files = {dataset.run(s.run_id)["file"] for s in specs}
    parts = [read_json(dataset.path / "bundles" / (Path(file).stem + ".json")) for file in files]
    return float(np.median([part["seconds_per_run"] for part in parts]))


def _levels(name: str, severity: Severity | None, one: bool = False) -> list[Severity | None]:
    entry = scenario(name)
    if one and severity is None:  # the default one
        return [entry.default_severity()]
    if severity is not None and severity in entry.severities:
        return [severity]
    return list(entry.severities) or [None]


def _reached(
    signature_faulty: float | None,
    signature_twin: float | None,
    signature_healthy: float | None,
    cured: float | None,
    within_tolerance: float,
    fooled: dict[str, float],
    bitwise: bool,
    *,
    one_run: bool = False,
    faulty_share: float = FAULTY_SHARE,
) -> bool:
    """Whether every share is reached; of a look-alike where somebody is `fooled`."""
    if fooled:
        fools = max(fooled.values()) >= FOOLED_SHARE or one_run  # of half the runs one run can say nothing
        return within_tolerance >= FAULTY_SHARE and fools and bitwise
    return (
        _at_least(signature_faulty, faulty_share)
        and max(signature_twin or 0.0, signature_healthy or 0.0) <= HEALTHY_SHARE
        and bitwise
        and (_at_least(cured, CURED_SHARE) if cured is not None else within_tolerance == 1.0)  # a wrong log has no cure
    )


def _at_least(rate: float | None, share: float) -> bool:
    return rate is not None and rate >= share
