"""Two scenarios in one run: both faults at their own onsets, and both labelled.

    high_lr          base A    |------------ ramp ............
    corrupt_tokens   base B    |-------------------- damage ..
    both             base A+B  |------------ ramp .. damage ..      twin: base A+B, neither

The base is the size's healthy setup with what either scenario changes in it. A pair is refused where the
bases contradict each other, where no size suits both, and where the later fault, or a cure, would undo the
other fault: an array, a setting or a learning rate that one changes comes out as if it had not. Onsets are
drawn from the seed, so both orders are tried. Each fault has its own cure at its own step, which leaves the other.

A failure with a look-alike is a failing run with another, harmless deviation: its onset and its cause are
the failure's. Proofs are of single scenarios; of a pair nothing is claimed but what was injected.
"""

import copy
import dataclasses
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch

from trainwreck.evaluation.dataset.schema import JOINT, SECTIONS, Harm
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config.settings import Setup, as_dict, check, leaves, replace
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec.faults import At, Change, FaultKind
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.scenario import Knobs, Scenario, Severity

PARTS = 2


class Compound(Scenario):
    """A pair of scenarios as one. `parts` are in alphabetical order, so a+b is b+a."""

    def __init__(self, parts: Sequence[Scenario]) -> None:
        self.parts = tuple(sorted(parts, key=lambda part: part.id))
        failures = [part for part in self.parts if not part.look_alike] or list(self.parts)
        scaled = any(part.severities for part in self.parts)
        # What a scenario's class declares; a pair is known when it is asked for.
        vars(self).update(
            id=JOINT.join(part.id for part in self.parts),
            family=failures[0].family,
            version=max(part.version for part in self.parts),
            look_alike=all(part.look_alike for part in self.parts),
            sizes=_sizes(*self.parts),
            kinds=tuple(dict.fromkeys(kind for part in self.parts for kind in part.kinds)),
            sources=tuple(dict.fromkeys(source for part in self.parts for source in part.sources)),
            telling=failures[0].telling,
            severities={level: self._knobs(level) for level in Severity} if scaled else {},
            knobs=self._knobs(None),
            tolerance=max(part.tolerance for part in self.parts),
            harm=failures[0].harm if len({part.harm for part in failures}) == 1 else Harm.EITHER,
        )
        _refuse_erasure(self)

    @property
    def family_name(self) -> str:
        """The families of the failures, in the order of the causes."""
        return JOINT.join(part.family_name for part in self._labelled)

    @property
    def _labelled(self) -> tuple[Scenario, ...]:
        """The failures, whose causes are the run's; of two look-alikes the first, whose family the run has."""
        return tuple(part for part in self.parts if not part.look_alike) or self.parts[:1]

    @property
    def cause(self) -> str:
        return JOINT.join(part.cause for part in self._labelled if part.cause)

    def base(self, setup: Setup) -> Setup:
        """What either scenario changes in a setup. InputError where they contradict each other."""
        first, second = (part.base(setup) for part in self.parts)
        before = leaves(setup)
        one, two = (_changed(before, leaves(base)) for base in (first, second))
        a, b = (part.id for part in self.parts)
        for path in one:
            if path in two and one[path] != two[path]:
                raise InputError(
                    f"scenario: {self.id!r} is not allowed; {path} is {as_dict(one[path])!r} in the base of {a} "
                    f"and {as_dict(two[path])!r} in that of {b}"
                )
        for path, value in two.items():
            first = replace(first, path, value)
        return first

    def fault(self, knobs: Any, setup: Setup) -> list[Change]:
        return [change for part in self.parts for change in part.fault(getattr(knobs, part.id), setup)]

    def cure(self, knobs: Any, setup: Setup) -> list[Change]:
        return [c for part in self.parts if not part.look_alike for c in part.cure(getattr(knobs, part.id), setup)]

    def onset_step(self, seed: int, steps: int) -> int:
        """The earlier onset of a failure; of a look-alike only where there is no failure."""
        failures = [part for part in self.parts if not part.look_alike] or self.parts
        return min(part.onset_step(seed, steps) for part in failures)

    def cure_step(self, knobs: Any, seed: int, steps: int) -> int:
        """The step from which all is cured."""
        cured = [part for part in self.parts if not part.look_alike]
        return max(part.cure_step(getattr(knobs, part.id), seed, steps) for part in cured)

    def enough_steps(self, knobs: Any, *, cured: bool = False) -> int:
        return max(
            part.enough_steps(getattr(knobs, part.id), cured=cured and not part.look_alike) for part in self.parts
        )

    def causes(self, seed: int, steps: int) -> dict[str, int]:
        found = {name: step for part in self._labelled for name, step in part.causes(seed, steps).items()}
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def changes(
        self, knobs: Any, setup: Setup, seed: int, *, cured: bool = False, cure_at: int | None = None
    ) -> tuple[At, ...]:
        """Both scenarios' changes by step: what comes later acts on what was there before."""
        every = [
            at
            for part in self.parts
            for at in part.changes(
                getattr(knobs, part.id), setup, seed, cured=cured and not part.look_alike, cure_at=cure_at
            )
        ]
        return tuple(sorted(every, key=lambda at: at.step))

    def signatures(self, run: Trace, healthy: Trace, seed: int, steps: int) -> dict[str, bool]:
        return {k: v for part in self._labelled for k, v in part.signatures(run, healthy, seed, steps).items()}

    def checked(self) -> dict[str, str]:  # type: ignore[override]
        return {f"{part.id}: {clause}": by for part in self.parts for clause, by in part.checked().items()}

    def title(self) -> str:  # type: ignore[override]
        return " ".join(part.title() for part in self.parts)

    def page(self) -> dict[str, str]:  # type: ignore[override]
        pages = {part.id: part.page() for part in self.parts}
        return {
            name: "\n\n".join(f"`{id}`: {page[name]}" for id, page in pages.items() if name in page)
            for name in SECTIONS
            if any(name in page for page in pages.values())
        }

    def _knobs(self, severity: Severity | None) -> Knobs:
        """Knobs of both, a group each by id; a part without a scale has the same at every severity."""
        own = {}
        for part in self.parts:
            level = severity if part.severities else None
            own[part.id] = part.knobs_of(level or part.default_severity())
        fields = [(id, type(k), dataclasses.field(default_factory=partial(copy.copy, k))) for id, k in own.items()]
        pair = dataclasses.make_dataclass("Pair", fields, bases=(Knobs,), kw_only=True)
        made: Knobs = pair()
        return made


@lru_cache(maxsize=256)
def compound(*parts: Scenario) -> Compound:
    """A pair as one scenario. InputError with the reason where it can't be one."""
    named = JOINT.join(part.id for part in parts)
    if len(parts) != PARTS:
        raise InputError(f"scenario: {named!r} names {len(parts)} scenarios; allowed: one, or two joined by {JOINT}")
    if parts[0].id == parts[1].id:
        raise InputError(f"scenario: {named!r} names one scenario twice; allowed: two different ones")
    for part in parts:
        if part.own_twin:
            raise InputError(f"scenario: {named!r} is not allowed; {part.id} changes nothing that could be added")
    try:
        return Compound(parts)
    except InputError as refusal:
        if all(part.id in str(refusal) for part in parts):
            raise
        # Said of one setting, as of two that the bases do not allow together.
        raise InputError(f"scenario: {named!r} is not allowed; {refusal}") from refusal


def _changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in after.items() if value != before[path]}


def _sizes(first: Scenario, second: Scenario) -> tuple[Size, ...]:
    shared = tuple(size for size in first.sizes if size in second.sizes)
    if not shared:
        a, b = (f"{part.id} is proven at {', '.join(size.value for size in part.sizes)}" for part in (first, second))
        raise InputError(f"scenario: '{first.id}{JOINT}{second.id}' is not allowed; no size in common: {a}, {b}")
    return shared


def _refuse_erasure(pair: Compound) -> None:
    """InputError where one fault, coming second, or its cure leaves nothing of the other in what that one changed."""
    setup = pair.base(healthy(pair.sizes[0]))
    check(setup)
    knobs = pair.knobs_of(pair.default_severity())
    own = {part.id: getattr(knobs, part.id) for part in pair.parts}
    for part in pair.parts:
        changed, changes = setup, part.fault(own[part.id], setup)
        for change in changes:
            changed = change.setup(changed)
        if changes and set(part.kinds) <= {FaultKind.SETTING, FaultKind.VARIANT} and changed == setup:
            raise InputError(
                f"scenario: {pair.id!r} is not allowed; what {part.id} sets is so in the base of the other"
            )
    early, late, later = setup.steps // 3, setup.steps // 2, setup.steps * 2 // 3

    def effects(step: int, *changes: At) -> dict[str, list[Any]]:
        steps = [s for s in (step, step + 1, step + 5, setup.steps - 1) if s < setup.steps]
        return _effects(Job("probe", 0, setup, tuple(sorted(changes, key=lambda at: at.step))), steps)

    for first, second in (pair.parts, pair.parts[::-1]):
        begin = 0 if first.onset is None else early
        follow = 0 if second.onset is None else late
        if first.onset is not None and second.onset is None:
            continue  # what is there from step 0 never comes second
        faults = {part: part.changes_at(own[part.id], setup, at) for part, at in ((first, begin), (second, follow))}
        kept, other = faults[first], faults[second]
        erased = _erased([effects(follow, *ats) for ats in ((), kept, other, (*kept, *other))])
        if erased:
            raise InputError(
                f"scenario: {pair.id!r} is not allowed; {second.id} coming second would undo "
                f"what {first.id} does to {erased}"
            )
        for part, at in ((first, begin), (second, follow)):
            if part.look_alike:
                continue
            cured = part.changes_at(own[part.id], setup, at, later)
            kept = faults[second if part is first else first]
            erased = _erased([effects(later, *ats) for ats in ((), kept, cured, (*kept, *cured))])
            if erased:
                other_id = (second if part is first else first).id
                raise InputError(
                    f"scenario: {pair.id!r} is not allowed; the cure of {part.id} would undo "
                    f"what {other_id} does to {erased}"
                )


def _effects(job: Job, steps: Sequence[int]) -> dict[str, list[Any]]:
    """Settings, tables, learning rate and batch of a run at some steps, by name."""
    found: dict[str, list[Any]] = {}
    for step in steps:
        segment = job.segment(step)
        here = leaves(segment.setup) | {"the learning rate": job.learning_rate(step), "time": job.seconds(1.0, step)}
        for part in (segment.tables, segment.parametrization, segment.updates, segment.exchange):
            here |= {f.name: getattr(part, f.name) for f in dataclasses.fields(part) if f.type is not bool}
        batch = job.batches(range(step, step + 1)).at(0)
        here |= {f.name: getattr(batch, f.name) for f in dataclasses.fields(batch)}
        for name, value in here.items():
            found.setdefault(name, []).append(value)
    return found


def _erased(effects: Sequence[dict[str, list[Any]]]) -> str:
    """The first thing that the first fault changes, and both together do not change further than the second."""
    neither, first, second, both = effects
    for name in neither:
        touched = [not _same(a, b) for a, b in zip(neither[name], first[name], strict=True)]
        gone = [_same(a, b) for a, b in zip(second[name], both[name], strict=True)]
        if any(touched) and all(g for g, t in zip(gone, touched, strict=True) if t):
            return name
    return ""


def _same(a: Any, b: Any) -> bool:
    for kind, same in ((torch.Tensor, torch.equal), (np.ndarray, np.array_equal)):
        if isinstance(a, kind) or isinstance(b, kind):
            return type(a) is type(b) and a.shape == b.shape and same(a, b)
    return bool(a == b)
