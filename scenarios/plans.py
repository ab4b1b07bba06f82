"""The named plans, and plans written as a sweep or in a file."""

import dataclasses
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TypeVar

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.files import read_json
from trainwreck.evaluation.schema import JOINT
from trainwreck.scenarios.compose import sweep
from trainwreck.scenarios.plan import Role, RunSpec, Split, family_of, unique
from trainwreck.scenarios.proofs import proven_severities
from trainwreck.scenarios.registry import scenario
from trainwreck.scenarios.sizes import Size
from trainwreck.scenarios.spec import Severity

E = TypeVar("E", bound=Enum)

CALIBRATION_SEEDS = range(1000, 1008)  # apart from every seed that a test run has

# The demo takes minutes: runs are as short and small as their proof holds for (results/proof), at the
# severity that harms most. A budget of 5 % of healthy runs stopped needs sixty to calibrate on; there are eight
# of each of its eight bases.
_NARROW = ("model.width=48", "model.context=32", "data.rows=16")
_USUAL = (*_NARROW, "steps=480")

# What it shows, and with which settings: failures that every course on training names, and four look-alikes.
DEMO: dict[str, tuple[str, ...]] = {
    "high_lr": (*_NARROW, "model.layers=3", "steps=400"),
    "no_warmup": (),
    "post_ln_depth": ("steps=250",),
    "fp16_attention_overflow": (),
    "corrupt_tokens": _USUAL,
    "mask_missing": _USUAL,
    "mask_zeroed": _USUAL,
    "mask_off_by_one": _USUAL,
    "rope_wrong_frequency": _USUAL,
    "rope_on_keys_only": _USUAL,
    "stale_optimizer_state": _USUAL,
    "benign_single_spike": _USUAL,
    "benign_entropy_floor": (),
    "benign_late_drop": (),
    "benign_curriculum": (),
}
DEMO_ON_TEXT = ("mask_missing", ("data.source=text", "model.vocab_size=256", "steps=200"))


def demo() -> list[RunSpec]:
    """Each scenario of `DEMO` once, with twin and cure, and what labels need; minutes on 2 cores."""
    specs: list[RunSpec] = []
    for name, overrides in DEMO.items():
        specs += _shown(name, range(1), overrides)
    name, overrides = DEMO_ON_TEXT
    specs += with_calibration(name, range(1), overrides=overrides)
    return unique(specs)


# What the package ships (evaluation/sample): failures of six families and four look-alikes on three bases, with
# two seeds of each, in 3 MB.
_SHORT = (*_NARROW, "steps=200")
SAMPLE = (
    "corrupt_tokens",
    "mask_missing",
    "mask_zeroed",
    "gradients_not_cleared",
    "nan_weight_spread",
    "catastrophic_forgetting",
    "output_reinitialised",
    "residual_bypassed",
    "benign_single_spike",
    "benign_clean_resume",
    "benign_loader_hiccup",
)


def sample() -> list[RunSpec]:
    """The small data set that ships with the package; it takes minutes on 2 cores."""
    return unique(spec for name in SAMPLE for spec in _shown(name, range(2), _SHORT))


def _shown(name: str, seeds: Sequence[int], overrides: Sequence[str]) -> list[RunSpec]:
    """A scenario at the severity that harms most, with what labels need."""
    severity = Severity.SEVERE if Severity.SEVERE in scenario(name).severities else None
    return with_calibration(name, seeds, severity=severity, overrides=overrides)


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


PLANS = {"demo": demo, "sample": sample}


def resolve(words: Sequence[str]) -> tuple[str, list[RunSpec]]:
    """Name and runs of a plan: a named one, a plan.json, or a sweep such as `scenario=high_lr seed=range(8)`.

    A sweep's keys are scenario, seed, severity, size, and settings of the runs.
    """
    name, specs = _resolved(words)
    if not specs:
        raise InputError(f"plan: {' '.join(words)!r} has no runs; allowed: one or more")
    for spec in specs:
        if spec.role is not Role.TWIN:
            _refuse_drafts(spec)
    return name, specs


def _refuse_drafts(spec: RunSpec) -> None:
    """InputError for a label that has no proof: such a scenario can be run and verified, and is in no data set."""
    for part in spec.scenario.split(JOINT):
        severity = spec.severity.value if spec.severity and scenario(part).severities else ""
        proven = proven_severities(part)
        if severity not in proven:
            what = f"severity: {severity!r} of {part}" if severity else f"scenario: {part!r}"
            others = ", ".join(proven) or f"after `trainwreck verify {part} --record`"
            raise InputError(f"{what} is not proven, so no data set has it; allowed: {others}")


def _resolved(words: Sequence[str]) -> tuple[str, list[RunSpec]]:
    if not words:
        raise InputError(f"plan: none given; allowed: {', '.join(PLANS)}, a plan.json, or scenario=... seed=...")
    if all("=" in word for word in words):
        return "sweep", _swept(words)
    if len(words) > 1:
        raise InputError(f"plan: {' '.join(words)!r} is not allowed; allowed: one name, one file, or key=value pairs")
    if words[0].endswith(".json"):
        return _from_file(Path(words[0]))
    if words[0] not in PLANS:
        raise unknown("plan", words[0], PLANS)
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
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != "trainwreck-plan":
        raise InputError(f"{path}: not a plan")
    try:
        specs = [RunSpec.from_json(run) for run in content["runs"]]
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path}: not a plan that this version reads ({error})") from None
    for spec in specs:
        _check(spec, path)
    return str(content.get("name") or path.stem), specs


def _check(spec: RunSpec, path: Path) -> None:
    """InputError for a run that no plan of this version would hold."""

    def wrong(name: str, value: object, allowed: str) -> InputError:
        return InputError(f"{path}: {spec.scenario}: {name}: {value!r} is not allowed; allowed: {allowed}")

    levels = [level.value for level in spec.entry.severities]
    severity = spec.severity.value if spec.severity else None
    if type(spec.seed) is not int or spec.seed < 0:
        raise wrong("seed", spec.seed, "a whole number, 0 or more")
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
        raise InputError(f"{name}: {text!r} is not allowed; allowed: a whole number") from None
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
