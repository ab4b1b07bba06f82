"""Settings by name: Hydra's overrides of the structured configs, with errors of one line.

`hydra.compose` reads the configuration of Hydra itself at each call, which takes three times as long as all else, and a
sweep composes thousands. So overrides are parsed by its parser and applied as it applies them, by `OmegaConf.update`.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from enum import Enum
from itertools import product
from math import ceil, isfinite
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args, get_type_hints

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.models.config import ModelConfig
from trainwreck.scenarios.config.settings import Setup, check, get
from trainwreck.scenarios.data.sources.selection import source, source_key
from trainwreck.scenarios.data.sources.text import open_text
from trainwreck.scenarios.spec.scenario import Knobs

KNOBS = "fault"  # the prefix of a knob's key
MOST_COMBINATIONS = 100_000  # of a sweep's values
LARGEST_COUNT = 1e18  # that is printed of a sweep
LONGEST, SHOWN = 10_000, 80  # characters of one setting, and of it in a message
SHORTEST = 1000  # bytes of a text: a tenth is held out, which has to have a row


def compose(setup: Setup, knobs: Knobs, overrides: Sequence[str] = ()) -> tuple[Setup, Knobs]:
    """Setup and knobs with `key=value` overrides applied, checked.

    Keys are dotted paths of the setup (`optimizer.lr=0.02`) or knobs of the fault (`fault.factor=3`).
    InputError for a key that is not there, a value of the wrong type, or one out of range.
    """
    if overrides:
        setup, knobs = _merge(setup, knobs, overrides)
    check(setup)
    if setup.model.attention != ModelConfig.attention:
        from trainwreck.kernels.attention.api import VARIANTS  # which needs torch

        if setup.model.attention not in VARIANTS:
            raise unknown("model.attention", setup.model.attention, VARIANTS)
    vocabulary = source(source_key(setup.data)).vocabulary
    if setup.model.vocab_size < vocabulary:
        raise InputError(
            f"model.vocab_size: {setup.model.vocab_size} is not allowed with this source; allowed: {vocabulary} or more"
        )
    return setup, knobs


def on_text(file: str | Path | None) -> tuple[str, ...]:
    """The settings of a run on a file of one's own, whose bytes are its tokens; none for None.

    InputError for a file that can't be read, or is too short for a row.
    """
    if file is None:
        return ()
    text = open_text(str(file))
    if len(text.bytes) < SHORTEST:
        raise InputError(f"text: {str(file)!r} has {len(text.bytes)} bytes; allowed: {SHORTEST} or more")
    quoted = str(file).replace("'", "\\'")
    return ("data.source=text", f"data.text='{quoted}'", f"model.vocab_size={text.vocabulary}")


def sweep(overrides: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Every combination of overrides in Hydra's sweep syntax (`seed=range(8)`, `scenario=a,b`)."""
    axes, count = [], 1
    for text, parsed in zip(overrides, _parse(overrides), strict=True):
        if parsed.is_sweep_override():
            count *= _values(parsed, text)
            if count > MOST_COMBINATIONS:
                raise InputError(f"plan: {text!r} makes {count} combinations; allowed: {MOST_COMBINATIONS} at most")
            axes.append([f"{parsed.get_key_element()}={value}" for value in parsed.sweep_string_iterator()])
        else:
            axes.append([text])
    yield from product(*axes)


def _values(parsed: Any, text: str) -> int:
    """How many values a sweep has, counted before any is made. InputError for one that has no list of values."""
    if parsed.is_choice_sweep() and hasattr(parsed.value(), "list"):  # Hydra calls a glob one too
        return len(list(parsed.value().list))
    if not parsed.is_range_sweep():
        raise InputError(f"setting: {text!r} is not allowed; allowed: values as A,B,C or range(8)")
    sweep = parsed.value()
    if not (isfinite(sweep.start) and isfinite(sweep.stop) and isfinite(sweep.step) and sweep.step):
        raise InputError(f"setting: {text!r} is not allowed; allowed: a range of finite numbers, with a step")
    steps: float = (sweep.stop - sweep.start) / sweep.step
    return max(0, ceil(min(steps, LARGEST_COUNT)))


def _parse(overrides: Sequence[str]) -> list[Any]:
    # Hydra takes a fifth of a second to import; only those who override need it.
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parsed = []
    for text in overrides:
        if not isinstance(text, str) or len(text) > LONGEST:
            raise InputError(f"setting: {str(text)[:SHOWN]!r} is not allowed; allowed: key=value, {LONGEST} characters")
        if "${" in text or text.partition("=")[2] == "???":
            # OmegaConf would put in what the environment, a clock or another setting says, and `???` for nothing.
            raise InputError(f"setting: {text!r} is not allowed; allowed: a plain value, without ${{...}} and ???")
        try:
            parsed.append(OverridesParser.create().parse_override(text))
        except (HydraException, RecursionError, ValueError):  # a number of thousands of digits is the last
            key, _, value = text.partition("=")
            if value.startswith("range(") and value.endswith(")"):
                raise InputError(
                    f"{key}: {value!r} is not allowed; allowed: range of whole numbers, as range(8)"
                ) from None
            raise InputError(f"setting: {text!r} is not allowed; allowed: key=value") from None
        if parsed[-1].package is not None or parsed[-1].is_add() or parsed[-1].is_force_add() or parsed[-1].is_delete():
            raise InputError(f"setting: {text!r} is not allowed; allowed: key=value, without a prefix")
        # A run's overrides are kept sorted, so no order could say which of two holds.
        if any(parsed[-1].key_or_group == other.key_or_group for other in parsed[:-1]):
            raise InputError(f"setting: {parsed[-1].key_or_group!r} is given twice; allowed: once")
    return parsed


def _merge(setup: Setup, knobs: Knobs, overrides: Sequence[str]) -> tuple[Setup, Knobs]:
    configs: dict[str, Any] = {"setup": setup, KNOBS: knobs}
    requested: dict[str, list[_Override]] = {"setup": [], KNOBS: []}
    for text, parsed in zip(overrides, _parse(overrides), strict=True):
        if parsed.is_sweep_override():
            raise InputError(f"setting: {text!r} is not allowed here; allowed: one value")
        key = parsed.key_or_group
        _refuse_unknown(key, setup, knobs)
        node = KNOBS if key.startswith(f"{KNOBS}.") else "setup"
        path = key.removeprefix(f"{KNOBS}.")
        if node == KNOBS and not get_type_hints(type(knobs)):
            raise InputError(f"setting {key!r} is not allowed; allowed: none below {KNOBS}, the scenario has no knobs")
        kind = field_type(type(configs[node]), path, key)
        value = text.partition("=")[2]
        if isinstance(kind, type) and issubclass(kind, Enum):
            value = _enum_name(kind, key, value)
        requested[node].append(_Override(key, path, value, kind))
    found = _composed(setup, requested["setup"]), _composed(knobs, requested[KNOBS])
    for one in requested[KNOBS]:
        value = get(found[1], one.path)
        if isinstance(value, float) and not isfinite(value):
            raise InputError(f"{one.key}: {value} is not allowed; allowed: a finite number")
    return found


class _Override(NamedTuple):
    key: str
    path: str  # below its node
    value: str
    kind: Any


def _composed(config: Any, asked: list[_Override]) -> Any:
    """A config with overrides, as Hydra's compose applies them: all at once, one by one to tell which is refused."""
    if not asked:
        return config
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        node = OmegaConf.structured(config)
        for one in asked:
            parsed = OverridesParser.create().parse_override(f"{one.path}={one.value}")
            OmegaConf.update(node, one.path, parsed.value(), merge=True)
        return OmegaConf.to_object(node)
    except (HydraException, OmegaConfBaseException, ValueError, OverflowError) as error:
        if len(asked) > 1:
            for one in asked:
                config = _composed(config, [one])
        if isinstance(error, ValueError) and not isinstance(
            error, OmegaConfBaseException
        ):  # from a config's own __post_init__
            raise InputError(str(error).splitlines()[0]) from None
        one = asked[-1]
        raise InputError(f"{one.key}: {one.value!r} is not allowed; allowed: {describe(one.kind)}") from None


def _refuse_unknown(key: str, setup: Setup, knobs: Knobs) -> None:
    """InputError for a name without a group that is in none but in others': `lr` is optimizer.lr."""
    if "." in key or hasattr(setup, key):
        return
    paths = [*_paths(type(setup)), *_paths(type(knobs), f"{KNOBS}.")]
    close = get_close_matches(key, {path.rpartition(".")[2] for path in paths}, n=1)
    if close:
        names = [repr(path) for path in paths if path.rpartition(".")[2] == close[0]]
        raise InputError(f"unknown setting {key!r}; did you mean {' or '.join(names)}?")


def _paths(cls: type, prefix: str = "") -> Iterator[str]:
    """The dotted paths of all plain settings below a dataclass."""
    for name, kind in get_type_hints(cls).items():
        if hasattr(kind, "__dataclass_fields__"):
            yield from _paths(kind, f"{prefix}{name}.")
        else:
            yield prefix + name


def field_type(cls: type, path: str, key: str) -> Any:
    """The declared type of a dotted path below a dataclass; InputError with the nearest name."""
    node: Any = cls
    for name in path.split("."):
        hints = get_type_hints(node) if hasattr(node, "__dataclass_fields__") else {}
        if name not in hints:
            raise unknown(f"setting {key!r}", name, hints or ["nothing below a plain value"])
        node = hints[name]
    if hasattr(node, "__dataclass_fields__"):
        raise InputError(f"{key}: a group of settings; allowed: one of {', '.join(get_type_hints(node))} below it")
    return node


def describe(kind: Any) -> str:
    """What a type allows, in words."""
    if isinstance(kind, UnionType):
        return " or ".join(describe(part) for part in get_args(kind))
    words = {float: "a number", int: "a whole number", bool: "true or false", str: "text", type(None): "null"}
    return words.get(kind, str(kind))


def _enum_name(kind: type[Enum], key: str, value: str) -> str:
    for member in kind:
        if value.lower() in (member.name.lower(), str(member.value).lower()):
            return member.name
    raise unknown(key, value, [str(member.value) for member in kind])
