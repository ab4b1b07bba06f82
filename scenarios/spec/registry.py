"""The catalogue: every scenario by its id, which is the name of its file; there is no list to edit.

To look one up imports its file and no other, and neither torch nor the training loop.
"""

import importlib
import pkgutil
from functools import cache

from trainwreck.evaluation.dataset.schema import JOINT, SECTIONS
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.spec import outside
from trainwreck.scenarios.spec.faults import FaultKind
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario, Severity

CATALOGUE = "trainwreck.scenarios.catalogue"  # found by walking its folder, which imports this module
_found: dict[str, Scenario] = {}


class CatalogueError(ValueError):
    """A scenario file is wrong; the message names file and field."""


def register(cls: type[Scenario]) -> type[Scenario]:
    """Class decorator that enters a scenario into the catalogue, checked."""
    if cls.__module__.startswith(outside.MODULES):  # a file that began as a copy of the catalogue's
        return cls
    _check(cls)
    _found[cls.id] = cls()
    return cls


@cache
def _files() -> dict[str, str]:
    """Module of each file in a family's folder, by the file's name."""
    catalogue = importlib.import_module(CATALOGUE)
    families = (module.name for module in pkgutil.iter_modules(catalogue.__path__, f"{CATALOGUE}.") if module.ispkg)
    return {
        file.name: f"{family}.{file.name}"
        for family in families
        for file in pkgutil.iter_modules(importlib.import_module(family).__path__)
    }


@cache
def scenarios() -> dict[str, Scenario]:
    """Every scenario by id, in the order of families and then of names."""
    for module in _files().values():
        importlib.import_module(module)
    order = list(Family)
    return dict(sorted(_found.items(), key=lambda item: (order.index(item[1].family), item[0])))


def scenario(name: str) -> Scenario:
    """The scenario of an id, of two joined by +, or of a file (`mine.py:Mine`).

    InputError with the nearest id where there is none, or for a file with `outside.of_file`'s reasons.
    """
    if outside.is_file(name):
        return outside.of_file(name, _check, _files())
    if JOINT in name:
        from trainwreck.scenarios.spec.compound import compound

        return compound(*sorted((scenario(part) for part in name.split(JOINT)), key=lambda part: part.id))
    if name not in _files():
        return outside.known(name, _check, _files())
    importlib.import_module(_files()[name])
    return _found[name]


def _check(cls: type[Scenario], id: str | None = None) -> None:
    """CatalogueError for what is wrong with a class. id: that it must have, the name of its file."""

    def wrong(field: str, why: str) -> CatalogueError:
        return CatalogueError(f"{cls.__module__}: {cls.__name__}.{field}: {why}")

    types = {"id": str, "family": Family, "kinds": tuple, "sources": tuple, "telling": str, "sizes": tuple}
    for field, kind in types.items():
        if not isinstance(getattr(cls, field, None), kind):
            raise wrong(field, f"missing or not a {kind.__name__}")
    if cls.id in _found and type(_found[cls.id]).__module__ != cls.__module__:
        raise wrong("id", f"{cls.id!r} is taken by {type(_found[cls.id]).__module__}")
    if (id or cls.__module__.rsplit(".", 1)[-1]) != cls.id:
        raise wrong("id", f"{cls.id!r} is not the name of its file")
    if not cls.sizes or not all(isinstance(size, Size) for size in cls.sizes):
        raise wrong("sizes", "needs at least one Size")
    if not cls.kinds or not all(isinstance(kind, FaultKind) for kind in cls.kinds):
        raise wrong("kinds", "needs at least one FaultKind")
    if cls.severities and set(cls.severities) != set(Severity):
        raise wrong("severities", "needs subtle, clear and severe, or none")
    if not all(isinstance(knobs, Knobs) for knobs in (*cls.severities.values(), cls.knobs)):
        raise wrong("knobs", "not a subclass of Knobs")
    if cls.look_alike != bool(cls.imitates):
        raise wrong("imitates", "needs the failures that a look-alike is taken for, and is for look-alikes only")
    in_log = cls.family is Family.LOGGING
    if in_log != (set(cls.kinds) == {FaultKind.LOG}) or (in_log and not cls.look_alike):
        raise wrong("family", f"{Family.LOGGING.value} is for faults of the log alone, in look-alikes")
    needed = ["fault"] if cls.look_alike and not in_log else ["fault", "signature"]
    if not cls.look_alike and set(cls.kinds) == {FaultKind.STATE}:  # which ends by itself and has to be mended
        needed.append("cure")
    for method in needed:
        if getattr(cls, method) is getattr(Scenario, method):
            raise wrong(method, "not defined")
    page = cls.text()
    for section in SECTIONS:
        if page.get(section) or (cls.look_alike and section in ("Cure", "Signature")):
            continue
        if section == "Signature" and cls.has_clauses():
            continue
        raise wrong("docstring", f"section {section!r} is missing or empty")
