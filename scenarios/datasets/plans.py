"""Plans by name, as a sweep, or from a file."""

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TypeVar

from trainwreck.evaluation.dataset.documents import read_plan
from trainwreck.evaluation.dataset.schema import JOINT
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.short_forms import count
from trainwreck.kernels.random import SEED_LIMIT
from trainwreck.models.config import Format
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.datasets.rescue_plan import rescue
from trainwreck.scenarios.datasets.small_plans import demo, sample
from trainwreck.scenarios.datasets.standard_plan import full, private, standard
from trainwreck.scenarios.datasets.wild.coverage import coverage
from trainwreck.scenarios.datasets.wild.outcomes import shares_of
from trainwreck.scenarios.datasets.wild.plan import wild
from trainwreck.scenarios.spec import outside
from trainwreck.scenarios.spec.overrides import on_text, sweep
from trainwreck.scenarios.spec.proofs import proven_severities
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import CALIBRATION_SEEDS, Role, RunSpec, Split, unique, with_calibration
from trainwreck.scenarios.spec.scenario import Severity

E = TypeVar("E", bound=Enum)

PLANS = {"demo": demo, "sample": sample, "rescue": rescue, "standard": standard, "full": full}
PRIVATE, SWEEP = "private", "sweep"
WILD, COVERAGE = "wild", "coverage"  # on drawn setups
NAMES = (*PLANS, PRIVATE, WILD, COVERAGE)
PRODUCTS = ("fp32", "bf16")  # what matrix products of a plan's runs may have, the default first


def resolve(
    words: Sequence[str],
    salt: str | None = None,
    text: str | Path | None = None,
    runs: int | None = None,
    mix: str | None = None,
    products: str = PRODUCTS[0],
    part: str | None = None,
) -> tuple[str, list[RunSpec]]:
    """Name and runs of a plan: a named one, a plan.json, or a sweep such as `scenario=high_lr seed=range(8)`.

    A sweep's keys are scenario, seed, severity, size, and settings of the runs. salt: of the private plan. text: of a
    sweep, a file whose bytes its runs are trained on. runs, mix: of the plan `wild`, how many runs, and the shares of
    how its failures end (see `wild.outcomes`), as "0.4,0.3,0.3" or "even". products: "bf16" for those of the runs that
    have float32 (`with_products`). part: as of `part_of`.
    """
    if products not in PRODUCTS:
        raise unknown("products", products, PRODUCTS)
    if list(words) != [WILD]:
        for name, value in (("runs", runs), ("mix", mix)):
            if value is not None:
                raise InputError(f"{name}: not allowed beside plan {' '.join(words)!r}; allowed: {WILD}")
    if text is not None:
        if not all("=" in word for word in words):
            raise InputError(f"text: not allowed beside plan {' '.join(words)!r}; allowed: a sweep, as scenario=...")
        words = [*words, *on_text(text)]
    if (salt is not None) != (list(words) == [PRIVATE]):
        raise InputError(
            f"plan: {' '.join(words)!r} is not allowed {'with' if salt else 'without'} a salt; allowed: "
            f"{PRIVATE} with one, all others without"
        )
    if list(words) == [WILD]:
        name, specs = WILD, wild(runs, shares_of(mix))
    elif list(words) == [COVERAGE]:
        name, specs = COVERAGE, coverage()
    else:
        name, specs = (PRIVATE, private(salt)) if salt is not None else _resolved(words)
    if not specs:
        raise InputError(f"plan: {' '.join(words)!r} has no runs; allowed: one or more")
    if products != PRODUCTS[0]:
        name, specs = f"{name}-{products}", with_products(specs, products)
    for spec in specs:
        if spec.role is not Role.TWIN:
            _refuse_drafts(spec)
            spec.check_steps()
            if spec.file:  # of a plan.json too, which nothing has checked so far
                spec.check_code()
    return name, specs if part is None else part_of(specs, part)


def part_of(specs: list[RunSpec], part: str) -> list[RunSpec]:
    """The runs of some of the healthy setups, in their order, "2/8" for those of the second eighth.

    All runs of a setup are in one part: labels and tolerances rest on its healthy ones.
    """
    own = set(cut(list(dict.fromkeys(spec.base for spec in specs)), part, "the setups of the plan"))
    return [spec for spec in specs if spec.base in own]


def cut(names: list[str], part: str, what: str) -> list[str]:
    """The K-th of N slices of nearly equal length, "K/N" as `part` has it.

    what: they are, for the InputError about another `part`.

    >>> cut(["rope", "mask", "rate", "seed"], "2/3", "the scenarios")
    ['mask']
    """
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", part)
    number, parts = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= parts <= len(names):
        raise InputError(
            f"part: {part!r} is not allowed; allowed: K/N with K of 1 to N, and N at most {len(names)}, {what}"
        )
    return names[(number - 1) * len(names) // parts : number * len(names) // parts]


def with_products(specs: Sequence[RunSpec], products: str) -> list[RunSpec]:
    """The runs with matrix products of this format, sums in float32; those that have another than float32 keep it.

    A fault that changes the format changes it from that one.
    """
    setting = f"precision.format={products}"
    return unique(
        dataclasses.replace(spec, overrides=tuple(sorted((*spec.overrides, setting))))
        if spec.setup.precision.format is Format.FP32
        else spec
        for spec in specs
    )


def planned(specs: Sequence[RunSpec]) -> str:
    """How many runs of a sweep will be trained and what each is for, in one line.

    >>> planned(resolve(["scenario=mask_missing", "seed=range(2)"])[1])
    '14 runs: 2 faulty, 2 twins, 2 cured, 8 healthy runs more (8 a base, for visible steps and thresholds); 1 base'
    """
    measured = [spec for spec in specs if spec.split is not Split.CALIBRATION]
    roles = Counter("look-alike" if s.role is Role.FAULTY and s.entry.look_alike else s.role.value for s in measured)
    parts = [f"{roles[role]} {role}" for role in (Role.FAULTY.value, "look-alike") if roles[role]]
    parts += [count(roles[Role.TWIN.value], "twin")] if roles[Role.TWIN.value] else []
    parts += [f"{roles[Role.CURED.value]} cured"] if roles[Role.CURED.value] else []
    if more := len(specs) - len(measured):
        each = len(CALIBRATION_SEEDS)
        parts.append(f"{count(more, 'healthy run')} more ({each} a base, for visible steps and thresholds)")
    bases = len({spec.base for spec in specs})
    return f"{count(len(specs), 'run')}: {', '.join(parts)}; {count(bases, 'base')}"


def _refuse_drafts(spec: RunSpec) -> None:
    """InputError for a label of the catalogue that has no proof: it can be run and verified, and is in no data set."""
    for part in spec.scenario.split(JOINT):
        if outside.is_outside(part):
            continue
        severity = spec.severity.value if spec.severity and scenario(part).severities else ""
        proven = proven_severities(part)
        if severity not in proven:
            what = f"severity: {severity!r} of {part}" if severity else f"scenario: {part!r}"
            others = ", ".join(proven) or f"after `trainwreck verify {part} --record`"
            raise InputError(f"{what} is not proven, so no data set has it; allowed: {others}")


def _resolved(words: Sequence[str]) -> tuple[str, list[RunSpec]]:
    if not words:
        raise InputError(f"plan: none given; allowed: {', '.join(NAMES)}, a plan.json, or scenario=... seed=...")
    if all("=" in word for word in words):
        return SWEEP, _swept(words)
    if len(words) > 1:
        raise InputError(f"plan: {' '.join(words)!r} is not allowed; allowed: one name, one file, or key=value pairs")
    if words[0].endswith(".json"):
        return _from_file(Path(words[0]))
    if words[0] not in PLANS:
        raise unknown("plan", words[0], NAMES)
    return words[0], PLANS[words[0]]()


def _swept(words: Sequence[str]) -> list[RunSpec]:
    own = ("scenario", "seed", "severity", "size")
    if not any(word.startswith("scenario=") for word in words):
        raise InputError("plan: a sweep without scenario=...; allowed: scenario=ID,ID seed=range(8) key=value")
    specs: list[RunSpec] = []
    for combination in sweep(words):
        pairs = dict(text.split("=", 1) for text in combination)
        settings = [text for text in combination if text.split("=", 1)[0] not in own]
        specs += with_calibration(
            scenario(pairs["scenario"]).id,
            seeds=[_whole("seed", pairs.get("seed", "0"))],
            severity=member(Severity, "severity", pairs.get("severity")),
            size=member(Size, "size", pairs.get("size")),
            overrides=settings,
        )
    return unique(specs)


def _from_file(path: Path) -> tuple[str, list[RunSpec]]:
    content = read_plan(path)
    try:
        specs = [RunSpec.from_json(run) for run in content["runs"]]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a plan that this version reads ({error})") from None
    for spec in specs:
        odd = next((text for text in (*spec.overrides, spec.scenario, spec.file) if not isinstance(text, str)), None)
        if odd is not None:
            raise InputError(f'{path}: {odd!r} is not allowed; allowed: text, as "steps=300" in overrides')
        _check(spec, path)
    return str(content.get("name") or path.stem), specs


def _check(spec: RunSpec, path: Path) -> None:
    """InputError for a run that no plan of this version would hold."""

    def wrong(name: str, value: object, allowed: str) -> InputError:
        return InputError(f"{path}: {spec.scenario}: {name}: {value!r} is not allowed; allowed: {allowed}")

    levels = [level.value for level in spec.entry.severities]
    severity = spec.severity.value if spec.severity else None
    if type(spec.seed) is not int or not 0 <= spec.seed < SEED_LIMIT:
        raise wrong("seed", spec.seed, f"a whole number from 0 to {SEED_LIMIT - 1}")
    if severity is not None and severity not in levels:
        raise wrong("severity", severity, "null, it has no scale")
    if severity is None and levels and spec.role is not Role.TWIN:
        raise wrong("severity", None, ", ".join(levels))
    if spec.role is Role.CURED and spec.entry.look_alike:
        raise wrong("role", spec.role.value, "faulty or twin, it is a look-alike")


def _whole(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise InputError(f"{name}: {text[:80]!r} is not allowed; allowed: a whole number") from None
    if value < 0:
        raise InputError(f"{name}: {value} is not allowed; allowed: 0 or more")
    return value


def member(kind: type[E], name: str, text: str | None) -> E | None:
    """The member of an enumeration with this value; None for None; InputError with the nearest value."""
    if text is None:
        return None
    if text not in [member.value for member in kind]:
        raise unknown(name, text, [member.value for member in kind])
    return kind(text)
