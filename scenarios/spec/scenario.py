"""What a catalogue entry is: a healthy base, a fault, a signature, a cure, and the text that teaches it."""

import ast
import inspect
import textwrap
import warnings
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from trainwreck.evaluation.dataset.schema import LOGGING, SECTIONS, Harm
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.models.parameters import NoParameterError
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.spec.faults import At, Change, FaultKind, StateEdit, Undo

ALSO_SEEN = "Also seen"  # section of a page with what a signature does not check
# What a signature says: each clause, in words, and whether it is so.
Clauses = dict[str, bool | np.bool_]


class Family(Enum):
    """What kind of thing went wrong."""

    OPTIMISATION = "optimisation"
    SCHEDULE = "schedule"
    NUMERICS = "numerics"
    DATA = "data"
    ATTENTION = "attention and position"
    ARCHITECTURE = "architecture and initialisation"
    STATE = "state, resume, evaluation"
    DISTRIBUTED = "distributed"
    FINE_TUNING = "fine-tuning"
    DECODING = "decoding"
    PREFERENCES = "preferences"
    POLICIES = "policies"
    DIFFUSION = "diffusion"
    RETRIEVAL = "retrieval"
    MODALITIES = "modalities"
    COMPONENTS = "components"
    LOGGING = LOGGING  # healthy runs whose log is wrong: look-alikes with a cause
    LOOK_ALIKE = "look-alikes"


class Severity(Enum):
    """How hard a fault hits, where that has a scale."""

    SUBTLE = "subtle"
    CLEAR = "clear"
    SEVERE = "severe"


@dataclass(kw_only=True)
class Knobs:
    """What can be turned in a fault. Scenarios with knobs define a subclass (not frozen: Hydra's rule)."""


@dataclass(frozen=True)
class MidRun:
    """An onset drawn from the seed, evenly between two shares of the run."""

    earliest: float = 0.35
    latest: float = 0.6

    def step(self, seed: int, steps: int, scenario: str) -> int:
        """The first step under the fault."""
        low, high = int(self.earliest * steps), int(self.latest * steps)
        return int(generator(seed, f"onset/{scenario}").integers(low, high, endpoint=True))


class Scenario:
    """One catalogue entry. Subclass it in a file of its own and decorate with `registry.register`.

    The methods get the knobs of the severity and the setup that `base` returned. Only `fault` (and for failures
    `signature`, and `cure` where the fault is a state edit alone) must be overridden.
    """

    id: ClassVar[str]
    family: ClassVar[Family]
    version: ClassVar[int] = 1
    # Version of the plans `standard` and `wild` from which on they have it; see datasets/draws.py.
    plans: ClassVar[int] = 2
    look_alike: ClassVar[bool] = False
    imitates: ClassVar[tuple[str, ...]] = ()  # of a look-alike: the failures that it is taken for, the likest first
    own_twin: ClassVar[bool] = False  # nothing is changed in mid-run: held against the source's entropy
    sizes: ClassVar[tuple[Size, ...]] = (Size.MICRO,)
    kinds: ClassVar[tuple[FaultKind, ...]]  # what the fault is made of
    sources: ClassVar[tuple[str, ...]]  # documents that describe it
    telling: ClassVar[str]  # the most diagnostic signal, for pictures
    onset: ClassVar[MidRun | None] = MidRun()  # None: from step 0
    severities: ClassVar[dict[Severity, Knobs]] = {}
    knobs: ClassVar[Knobs] = Knobs()  # where there is no scale
    cure_after: ClassVar[int] = 0  # steps from the onset to the cure in a cured run; see cure_delay
    # Nats within which a final loss counts as the twin's: the range of final losses over 16 healthy
    # runs of the base, which is 0.057 for the usual one. A wilder base declares its own.
    tolerance: ClassVar[float] = 0.05
    # Settings of the exported program in place of the base's, where the base is so chaotic that the program's outcome
    # would hang on the rounding of a processor. The runs of plans and proofs do not have them.
    program: ClassVar[tuple[str, ...]] = ()
    # On which side of the twin's final loss a failing run ends; a leak's is below. Of a look-alike: either.
    harm: ClassVar[Harm] = Harm.ABOVE

    def base(self, setup: Setup) -> Setup:
        """The healthy setup of this scenario, from that of the size."""
        return setup

    def fault(self, knobs: Any, setup: Setup) -> list[Change]:
        """The changes in force from the onset on."""
        raise NotImplementedError

    def cure(self, knobs: Any, setup: Setup) -> list[Change]:
        """Changes that make the run well again: by default the end of the fault, else on top of it."""
        return [Undo()]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses | bool:
        """What a reader of the curves should see, clause by clause; it holds where all of them do.

        `healthy` is a run of the same base without the fault. The clauses are the literal keys of the dict that is
        returned, so that the page lists what is checked. True or False alone is allowed; the page then says it in a
        section Signature of its own.
        """
        raise NotImplementedError

    def cure_delay(self, knobs: Any) -> int:
        """Steps from the onset to the cure in a cured run: late enough that there is something to cure."""
        return self.cure_after

    def onset_step(self, seed: int, steps: int) -> int:
        """The first step under the fault for a seed."""
        return 0 if self.onset is None else self.onset.step(seed, steps, self.id)

    def cure_step(self, knobs: Any, seed: int, steps: int) -> int:
        """The first step under the cure in a cured run."""
        return self.onset_step(seed, steps) + self.cure_delay(knobs)

    def enough_steps(self, knobs: Any, *, cured: bool = False) -> int:
        """A run's length from which on the onset of every seed lies within it, and the cure of a cured run too."""
        latest = 0.0 if self.onset is None else min(self.onset.latest, 0.99)
        delay = self.cure_delay(knobs) if cured else 0
        enough = int(delay / (1 - latest)) + 1
        while int(latest * enough) + delay >= enough:
            enough += 1
        return enough

    def changes(
        self, knobs: Any, setup: Setup, seed: int, *, cured: bool = False, cure_at: int | None = None
    ) -> tuple[At, ...]:
        """What is changed in a run and from which step on.

        cure_at: another step than `cure_step` for the cure, not before the onset. A cure that takes
        something from a checkpoint takes it from the same one, whenever it comes.
        """
        onset, usual = self.onset_step(seed, setup.steps), self.cure_step(knobs, seed, setup.steps)
        at = None if not cured else usual if cure_at is None else max(onset, cure_at)
        return self.changes_at(knobs, setup, onset, at, usual)

    def changes_at(
        self, knobs: Any, setup: Setup, onset: int, cure: int | None = None, usual: int | None = None
    ) -> tuple[At, ...]:
        """The fault from one step on and, where it is given, the cure from another.

        usual: the step of the cure of a cured run, from which a cure looks back.
        """
        try:
            fault = self.fault(knobs, setup)
            healing = [] if cure is None else self.cure(knobs, setup)
        except NoParameterError as error:
            raise InputError(f"{self.id}: {error}") from None
        if cure is None:
            return tuple(At(onset, change) for change in fault)
        until = cure if Undo() in healing else None
        found = [At(onset, change, None if isinstance(change, StateEdit) else until) for change in fault]
        return (*found, *(At(cure, c if usual in (None, cure) else c.anchored(usual)) for c in healing))

    @property
    def cause(self) -> str:
        """The label: what a detector should name; empty for a look-alike, unless it is the log that is wrong."""
        return self.id if self.has_signature else ""

    @property
    def has_signature(self) -> bool:
        """Whether there is a fault to see: in the run, or, of a look-alike, in its log alone."""
        return not self.look_alike or self.family is Family.LOGGING

    @property
    def family_name(self) -> str:
        """The family as labels have it."""
        return self.family.value

    def causes(self, seed: int, steps: int) -> dict[str, int]:
        """Each cause to its first step, the earliest first."""
        return {self.id: self.onset_step(seed, steps)} if self.has_signature else {}

    def signatures(self, run: Trace, healthy: Trace, seed: int, steps: int) -> dict[str, bool]:
        """Whether the signature of each cause holds."""
        return {name: self.holds(run, healthy, at) for name, at in self.causes(seed, steps).items()}

    def holds(self, run: Trace, healthy: Trace, onset: int) -> bool:
        """Whether every clause of the signature is so; never of a run that ended before the onset."""
        if min(len(run), len(healthy)) <= onset:
            return False
        with warnings.catch_warnings():  # the mean of signals that a run does not have is NaN, of which nothing holds
            warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)
            found = self.signature(run, healthy, onset)
        clauses = found if isinstance(found, dict) else {"": found}
        for words, value in clauses.items():
            if value is None or np.ndim(value) or np.asarray(value).dtype.kind not in "biuf":
                code = type(self).signature.__code__
                raise InputError(
                    f"scenario {code.co_filename}, line {code.co_firstlineno}: signature returns {value!r:.40}"
                    f"{f' for {words!r}' if words else ''}; allowed: True, False, or a dict of clauses with these"
                )
        return all(map(bool, clauses.values()))

    @classmethod
    def has_clauses(cls) -> bool:
        """Whether the signature is annotated to return clauses."""
        return cls.signature.__annotations__.get("return") in (Clauses, "Clauses")

    @classmethod
    def checked(cls) -> dict[str, str]:
        """Each clause of the signature and the expression that decides it; empty where it is not `-> Clauses`."""
        if not cls.has_clauses():
            return {}
        function = ast.parse(textwrap.dedent(inspect.getsource(cls.signature))).body[0]
        last = function.body[-1] if isinstance(function, ast.FunctionDef) else None
        found = last.value if isinstance(last, ast.Return) else None
        if not isinstance(found, ast.Dict):
            return {}
        return {
            str(key.value): ast.unparse(value)
            for key, value in zip(found.keys, found.values, strict=True)
            if isinstance(key, ast.Constant)
        }

    def knobs_of(self, severity: Severity | None) -> Knobs:
        """The knobs of a severity; `knobs` where there is no scale."""
        return self.severities[severity] if severity is not None else self.knobs

    def default_severity(self) -> Severity | None:
        """Clear, or None where there is no scale."""
        return Severity.CLEAR if self.severities else None

    @classmethod
    def title(cls) -> str:
        """The first line of the page."""
        return inspect.cleandoc(inspect.getmodule(cls).__doc__ or "").splitlines()[0]

    @classmethod
    def page(cls) -> dict[str, str]:
        """The sections of the page by name: those of the module's docstring, and the signature's clauses."""
        found = cls.text()
        also = found.pop(ALSO_SEEN, "")
        if clauses := cls.checked():
            found["Signature"] = f"Checked: {'; '.join(clauses)}." + (f"\n{ALSO_SEEN}: {also}" if also else "")
        return {name: found[name] for name in SECTIONS if name in found}

    @classmethod
    def text(cls) -> dict[str, str]:
        """The sections of the module's docstring by name."""
        return sections(inspect.cleandoc(inspect.getmodule(cls).__doc__ or ""))


def sections(text: str) -> dict[str, str]:
    """Split a page at lines that begin with a section's name and a colon."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        if colon and name in (*SECTIONS, ALSO_SEEN):
            current = found.setdefault(name, [])
            line = rest
        if current is not None:
            current.append(line.strip())
    return {name: "\n".join(lines).strip() for name, lines in found.items()}
