"""The list of runs of a data set, and the training job of each.

A run is named by what it is: two plans that ask for the same run share its id, and the twins of all
scenarios with one base are one healthy run a seed.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import SEED_LIMIT
from trainwreck.scenarios.config import drawn
from trainwreck.scenarios.config.settings import Setup, essence, fingerprint
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec import outside
from trainwreck.scenarios.spec.faults import At
from trainwreck.scenarios.spec.overrides import compose
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.scenario import Knobs, Scenario, Severity

if TYPE_CHECKING:
    from trainwreck.scenarios.spec.job import Job


class Role(Enum):
    """What part a run has among those of its seed."""

    FAULTY = "faulty"  # under the fault; for a look-alike, under its deviation
    TWIN = "twin"  # the same seed without it
    CURED = "cured"  # under the fault, and from the cure step on under the cure


class Split(Enum):
    """What a run may be used for."""

    CALIBRATION = "calibration"  # healthy runs, and look-alikes, on which thresholds are frozen
    TRAIN = "train"  # what a detector may learn from
    TEST = "test"
    PRIVATE = "private"  # as test, under seeds that are not published


@dataclass(frozen=True)
class RunSpec:
    """One run, by name. `base_of` is the scenario whose base a healthy run has.

    severity is None where there is no scale. overrides are `key=value` settings, sorted by the caller.
    held_out: what of it no training run of the plan has (`schema.HELD_OUT`), joined by +; empty where that is nothing.
    file: where the scenario is, `/folder/mine.py:Mine`, if it is one of a file; empty otherwise.
    """

    scenario: str
    role: Role
    seed: int
    size: Size
    severity: Severity | None = None
    overrides: tuple[str, ...] = ()
    split: Split = Split.TEST
    held_out: str = ""
    file: str = ""

    @cached_property
    def entry(self) -> Scenario:
        """The catalogue entry."""
        return scenario(self.file or self.scenario)

    @cached_property
    def setup(self) -> Setup:
        """The healthy setup that the run starts from."""
        return _composed(self.file or self.scenario, self.size, self.severity, self.overrides)[0]

    @cached_property
    def knobs(self) -> Knobs:
        """The knobs of the fault."""
        return _composed(self.file or self.scenario, self.size, self.severity, self.overrides)[1]

    @cached_property
    def base(self) -> str:
        """Fingerprint of the healthy setup: runs of one base and seed are twins."""
        return fingerprint(self.setup)

    @cached_property
    def onset(self) -> int | None:
        """First step under the fault; None for a twin."""
        return None if self.role is Role.TWIN else self.entry.onset_step(self.seed, self.setup.steps)

    @cached_property
    def cure_step(self) -> int | None:
        """First step under the cure; None without one."""
        if self.role is not Role.CURED or self.onset is None:
            return None
        return self.entry.cure_step(self.knobs, self.seed, self.setup.steps)

    @cached_property
    def run_id(self) -> str:
        """A hash of what is run; says nothing of the label."""
        what: dict[str, Any] = {"setup": essence(self.setup), "seed": self.seed}
        if self.role is not Role.TWIN:
            entry = self.entry
            what |= {"scenario": entry.id, "version": entry.version, "role": self.role.value}
            what |= {"knobs": essence(self.knobs), "onset": self.onset, "cure": self.cure_step}
        return "r" + fingerprint(what)

    @cached_property
    def identity(self) -> str:
        """What a proof holds for: a changed setup, knob or version needs a new one."""
        return fingerprint([essence(self.setup), essence(self.knobs), self.entry.version])

    @cached_property
    def twin(self) -> "RunSpec":
        """The twin: same base, same seed, no fault."""
        own = self._setup_overrides()
        return dataclasses.replace(self, role=Role.TWIN, severity=None, overrides=own, held_out="")

    def check_steps(self) -> None:
        """InputError where the run ends before a fault or its cure begins, with a length that is enough."""
        if self.role is Role.TWIN:
            return
        steps, entry = self.setup.steps, self.entry
        onset = max([self.onset or 0, *entry.causes(self.seed, steps).values()])
        for what, step in (("onset", onset), ("cure", self.cure_step)):
            if step is not None and step >= steps:
                enough = max(step + 1, entry.enough_steps(self.knobs, cured=self.role is Role.CURED))
                raise InputError(
                    f"steps: {steps} is not allowed for {entry.id}; on seed {self.seed} its {what} is at step {step}; "
                    f"allowed: {enough} or more"
                )

    def check_code(self) -> None:
        """InputError for a setup that the fault can't be in, and for wrong code of a scenario from outside."""
        with outside.blamed():
            if outside.is_outside(self.scenario) and self.role is not Role.TWIN:
                outside.check_changes(self.entry, self.knobs, self.setup)
            self.job()  # a fault refuses a setup that it can't be injected into

    def branch(self, step: int) -> "Job":
        """The run with its cure from another step on; until there it is bitwise the faulty run."""
        from trainwreck.scenarios.spec.job import Job

        changes = self.entry.changes(self.knobs, self.setup, self.seed, cured=True, cure_at=step)
        return Job(f"{self.run_id}@{step}", self.seed, self.setup, changes)

    def job(self) -> "Job":
        """What the training loop takes."""
        from trainwreck.scenarios.spec.job import Job

        changes: tuple[At, ...] = ()
        if self.role is not Role.TWIN:
            changes = self.entry.changes(self.knobs, self.setup, self.seed, cured=self.role is Role.CURED)
        return Job(self.run_id, self.seed, self.setup, changes)

    def to_json(self) -> dict[str, Any]:
        """Everything needed to build the spec again; see `from_json`."""
        content: dict[str, Any] = {
            "scenario": self.scenario,
            "role": self.role.value,
            "seed": self.seed,
            "size": self.size.value,
            "severity": self.severity.value if self.severity else None,
            "overrides": list(self.overrides),
            "split": self.split.value,
            "held_out": self.held_out,
        }
        return content | ({"file": self.file} if self.file else {})

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "RunSpec":
        """The inverse of `to_json`."""
        return cls(
            scenario=content["scenario"],
            role=Role(content["role"]),
            seed=content["seed"],
            size=Size(content["size"]),
            severity=Severity(content["severity"]) if content["severity"] else None,
            overrides=tuple(content["overrides"]),
            split=Split(content["split"]),
            held_out=str(content.get("held_out", "")),
            file=str(content.get("file", "")),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Its fields alone where what is cached is of a file, whose classes another process has to load first."""
        state = vars(self)
        return {f.name: state[f.name] for f in dataclasses.fields(self)} if self.file else state

    def _setup_overrides(self) -> tuple[str, ...]:
        return tuple(o for o in self.overrides if not o.startswith("fault."))


CALIBRATION_SEEDS = range(1000, 1008)  # apart from every seed that a test run has


@lru_cache(maxsize=1024)
def _composed(name: str, size: Size, severity: Severity | None, overrides: tuple[str, ...]) -> tuple[Setup, Knobs]:
    entry = scenario(name)
    setup, others = drawn.named(overrides)
    if setup is not None and size is not entry.sizes[0]:
        raise InputError(f"size: {size.value!r} is not allowed beside {drawn.KEY}={setup}; allowed: none, it has one")
    base = entry.base(healthy(size)) if setup is None else drawn.drawn_setup(setup)
    return compose(base, entry.knobs_of(severity), others)


def check_seed(seed: object) -> None:
    """InputError for what no random stream takes as its seed."""
    if type(seed) is not int or not 0 <= seed < SEED_LIMIT:
        raise InputError(f"seed: {str(seed)[:80]} is not allowed; allowed: a whole number from 0 to {SEED_LIMIT - 1}")


def family_of(
    name: str,
    seeds: Iterable[int],
    *,
    size: Size | None = None,
    severity: Severity | None = None,
    overrides: Sequence[str] = (),
    roles: Sequence[Role] = tuple(Role),
) -> list[RunSpec]:
    """The faulty, twin and cured runs of a scenario for each seed.

    size and severity default to the scenario's own. A look-alike has no cured run; one without any
    change to its base has no twin but itself. Raises InputError for a setup that the fault can't be in.
    """
    entry = scenario(name)
    for seed in seeds:
        check_seed(seed)
    file = outside.file_of(entry.id)
    size = size or entry.sizes[0]
    severity = severity or entry.default_severity()
    if severity is not None and severity not in entry.severities:
        raise InputError(f"severity: {severity.value!r} is not allowed for {name}; allowed: none, it has no scale")
    specs = []
    for seed in seeds:
        for role in roles:
            if (entry.look_alike and role is Role.CURED) or (entry.own_twin and role is Role.TWIN):
                continue
            spec = RunSpec(entry.id, role, seed, size, severity, tuple(sorted(overrides)), file=file)
            specs.append(spec.twin if role is Role.TWIN else spec)
    for spec in specs[: len(roles)]:
        spec.check_code()
    return specs


def with_calibration(
    name: str,
    seeds: Sequence[int],
    *,
    severity: Severity | None = None,
    size: Size | None = None,
    overrides: Sequence[str] = (),
) -> list[RunSpec]:
    """A scenario's runs and eight healthy runs of its base, which thresholds and visible steps need."""
    specs = family_of(name, seeds, severity=severity, size=size, overrides=overrides)
    if scenario(name).own_twin:
        return specs
    return specs + calibration(name, CALIBRATION_SEEDS, size=size, overrides=overrides)


def calibration(
    name: str, seeds: Sequence[int], *, size: Size | None = None, overrides: Sequence[str] = ()
) -> list[RunSpec]:
    """Healthy runs of a scenario's base."""
    healthy = family_of(name, seeds, size=size, overrides=overrides, roles=(Role.TWIN,))
    return [dataclasses.replace(s, split=Split.CALIBRATION) for s in healthy]


def unique(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """One spec a run id, the first that asks for it; a calibration run that is also a twin is a test run."""
    found: dict[str, RunSpec] = {}
    for spec in specs:
        known = found.get(spec.run_id)
        if known is None or (known.split is Split.CALIBRATION and spec.split is Split.TEST):
            found[spec.run_id] = spec
    return list(found.values())
