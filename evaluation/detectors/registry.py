"""Detectors by name or from a file. Built-in ones register themselves; no list is kept anywhere.

Looking one up imports its module and no other: which module that is, is read from the sources, where each registered
class has a line `name = "..."`.

Some wrap third-party libraries, which the extra `monitors` installs. A detector whose library is not installed is
not on the board, and requesting it by name says what to install. The environment variable TRAINWRECK_MONITORS=off
leaves them all out, so that a board has the same entries whatever is installed.
"""

import importlib
import importlib.util
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from trainwreck.evaluation.detectors.base import Detector
from trainwreck.evaluation.errors import InputError, unknown

D = TypeVar("D", bound=type[Detector])

EXTRA = "monitors"
SWITCH = "TRAINWRECK_MONITORS"
GROUP = "trainwreck.detectors"  # entry points of installed packages, which `plugins` loads
NAME = re.compile(r'^    name = "(\w+)"$', re.MULTILINE)

_REGISTERED: dict[str, type[Detector]] = {}


def register(detector: D) -> D:
    """Class decorator: makes a detector known under its `name`. A name that is taken raises ValueError."""
    name = detector.name
    if not name.isidentifier() or name != name.lower():
        raise ValueError(f"{detector.__qualname__}.name: {name!r} is not allowed; allowed: snake case")
    other = _REGISTERED.get(name)
    if other is not None and (other.__module__, other.__qualname__) != (detector.__module__, detector.__qualname__):
        raise ValueError(f"detector {name!r} is taken by {other.__module__}.{other.__qualname__}")
    _REGISTERED[name] = detector
    return detector


@cache
def _modules() -> dict[str, str]:
    """The module of each built-in detector, by the detector's name. Imports none of them."""
    found = {}
    for file in sorted(Path(__file__).parent.glob("*/*.py")):
        for name in NAME.findall(file.read_text(encoding="utf-8")):
            found[name] = f"{__package__}.{file.parent.name}.{file.stem}"
    return found


def known_detector(name: str) -> type[Detector] | None:
    """The one of `known_detectors` with a name, or None. Imports its module and no other detector's."""
    if name in _modules():
        importlib.import_module(_modules()[name])
    return _REGISTERED.get(name)


def known_detectors() -> dict[str, type[Detector]]:
    """Every detector that a module of `trainwreck.evaluation.detectors` registers, by name, sorted."""
    for module in _modules().values():
        importlib.import_module(module)
    return dict(sorted(_REGISTERED.items()))


def builtin_detectors() -> dict[str, type[Detector]]:
    """Those of `known_detectors` that can run here, by name, sorted. No library is imported to find out."""
    missing = missing_detectors()
    return {name: detector for name, detector in known_detectors().items() if name not in missing}


def is_builtin(name: str) -> bool:
    """Whether it is the name of one of `builtin_detectors`. Imports its module and no other detector's."""
    detector = known_detector(name)
    return detector is not None and not _lacks(detector)


def missing_detectors() -> dict[str, str]:
    """Detectors that can't run here, by name: what each lacks."""
    return {name: lacks for name, detector in known_detectors().items() if (lacks := _lacks(detector))}


def _lacks(detector: type[Detector]) -> str:
    """Why a detector can't run here; empty where it can."""
    switch = os.environ.get(SWITCH, "on")
    if switch not in ("on", "off"):
        raise InputError(f"{SWITCH}: {switch!r} is not allowed; allowed: on, off")
    off = switch == "off"
    absent = [library for library in detector.requires if off or importlib.util.find_spec(library) is None]
    if not absent:
        return ""
    return f"{SWITCH}=off" if off else f"{', '.join(absent)} not installed"


@contextmanager
def without_libraries() -> Iterator[None]:
    """A block, and processes begun in it, in which detectors that need a library are left out of boards."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "off"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = before


def builtin_causes() -> frozenset[str]:
    """Every cause id that some built-in detector may name."""
    return frozenset(cause for detector in known_detectors().values() for cause in detector.causes)


class AllowedCauses(Collection[str]):
    """Cause ids that a detector may name: some, and those of the built-in detectors.

    The built-in detectors are imported when a cause is asked for that is not among the first, so that one that names
    none is scored without them.
    """

    def __init__(self, some: Collection[str] = ()) -> None:
        self.some = frozenset(some)

    @cached_property
    def every(self) -> frozenset[str]:
        """All of them."""
        return self.some | builtin_causes()

    def __contains__(self, cause: object) -> bool:
        return cause in self.some or cause in self.every

    def __iter__(self) -> Iterator[str]:
        return iter(self.every)

    def __len__(self) -> int:
        return len(self.every)


def absent() -> str:
    """One line that names the detectors that can't run here and what to do about it; empty where all can."""
    missing = missing_detectors()
    if not missing:
        return ""
    why = "; ".join(sorted(set(missing.values())))
    return f"not on the board: {', '.join(missing)} ({why}{_remedy(why)})"


def _remedy(lacks: str) -> str:
    return "" if lacks.startswith(SWITCH) else f"; pip install 'trainwreck[{EXTRA}]'"


def load_detector(name: str) -> type[Detector]:
    """The class of a built-in detector (`"zclip"`) or of one in a file (`"mine.py:MyDetector"`).

    A class in a file need not derive from Detector: `reset` and `update` make it one. Raises
    InputError in one line: unknown name, a library that is not installed, or a file that is missing, does not
    import, lacks the class, or whose class is no detector.
    """
    if ".py" not in name:
        found = known_detector(name)
        if found is None:
            raise unknown("detector", name, known_detectors())
        lacks = _lacks(found)
        if lacks:
            raise InputError(f"detector {name}: {lacks}{_remedy(lacks)}")
        return found
    file, separator, class_name = name.rpartition(":")
    if not separator or not class_name.isidentifier() or not file.endswith(".py"):
        raise InputError(f"detector: {name!r} is not allowed; allowed: a built-in name or file.py:Class")
    from trainwreck.evaluation.imports import import_file

    module = import_file(Path(file), "detector")
    return as_detector(getattr(module, class_name, None), f"detector {file}", class_name)


def as_detector(found: object, where: str, class_name: str) -> type[Detector]:
    """The object of a class's name, if it is a detector; else an InputError that begins with `where`."""
    if found is None:
        raise InputError(f"{where}: has no class {class_name!r}")
    if not isinstance(found, type):
        raise InputError(f"{where}: {class_name} is not a class")
    missing = [method for method in ("reset", "update") if not callable(getattr(found, method, None))]
    if missing or found is Detector:
        lacking = " and ".join(missing) or "update of its own"
        raise InputError(f"{where}: {class_name} is not a detector, it has no {lacking}")
    return found


def check_settings(made: Callable[..., Any], settings: Mapping[str, Any], where: str) -> None:
    """Raises InputError unless a class takes all of these keywords. where: what the message begins with."""
    taken = inspect.signature(made).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values()):
        return
    for name in settings:
        if name not in taken:
            raise InputError(f"{where}: its class takes no {name!r}; allowed: def __init__(self, {name}=...)")
