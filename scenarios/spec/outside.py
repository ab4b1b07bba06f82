"""Scenarios that are not in the catalogue: of a file (`mine.py:Mine`), or of an installed package.

A package names them as entry points of the group `trainwreck.scenarios`, id = "package.module:Class". Both are found
when they are asked for; no plan has them by itself, and the package's record does not prove them: what `verify` proves
of them is kept for this machine (`proofs.proven_here`). What their code raises is an InputError with file and line.
"""

import hashlib
import inspect
import re
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import CodeType
from typing import Any

from trainwreck.evaluation.dataset.schema import JOINT
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.imports import import_file
from trainwreck.scenarios.spec.faults import Change
from trainwreck.scenarios.spec.scenario import Scenario

GROUP = "trainwreck.scenarios"
MODULES = "_trainwreck_scenario_"  # what the modules of files begin with

Check = Callable[[type[Scenario], str], None]
"""Called with a class and the id that it must have; ValueError for what is wrong with it."""

_loaded: dict[str, Scenario] = {}
_files: dict[str, str] = {}  # id to "/folder/mine.py:Mine"


def is_file(name: str) -> bool:
    """Whether a name is meant as that of a class in a file."""
    return ".py" in name


def of_file(name: str, check: Check, catalogue: Collection[str]) -> Scenario:
    """The scenario of a file, `mine.py:Mine`; its id is the file's name. catalogue: ids that are taken.

    InputError in one line: file missing, does not import, lacks the class, no scenario, wrong, id taken.
    """
    file, separator, class_name = name.rpartition(":")
    if not separator or not class_name.isidentifier() or not file.endswith(".py"):
        raise InputError(f"scenario: {name!r} is not allowed; allowed: an id or file.py:Class")
    path = Path(file)
    full, id = f"{path.absolute()}:{class_name}", path.stem
    if id in _loaded and _files.get(id) == full:
        return _loaded[id]
    where = f"scenario {file}"
    if not path.is_file():
        raise InputError(f"{where}: no such file")
    holder = "the catalogue" if id in catalogue else _files.get(id, "a plug-in") if id in _loaded else ""
    if holder:  # before the import, which would take the other's module away
        raise InputError(f"{where}: the id {id!r} is taken by {holder}; allowed: a file of another name")
    entry = _made(getattr(import_file(path, "scenario"), class_name, None), where, class_name, id, check)
    _files[id] = full
    return entry


def known(name: str, check: Check, catalogue: Collection[str]) -> Scenario:
    """The scenario of an id that is not the catalogue's: of a file read before, or of an installed package.

    InputError with the nearest id where there is none, and in one line for a plug-in that does not load.
    """
    if name in _loaded:
        return _loaded[name]
    installed = plugins()
    if name not in installed:
        raise unknown("scenario", name, [*catalogue, *_loaded, *installed])
    first, *others = installed[name]
    if others:
        homes = ", ".join(map(_home, installed[name]))
        raise InputError(f"scenario: {name!r} is in several packages ({homes}); allowed: in one")
    where = f"plug-in {_home(first)}:{name}"
    try:
        found = first.load()
    # A package may raise anything at import, sys.exit included; each is a wrong input here.
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{where}: does not load ({reason})") from None
    return _made(found, where, first.value.rpartition(":")[2], name, check)


def plugins() -> dict[str, list[EntryPoint]]:
    """Entry points by id, sorted; none is imported."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _home(entry))):
        found.setdefault(entry.name, []).append(entry)
    return found


def is_outside(id: str) -> bool:
    """Whether the scenario of an id, which was looked up before, is not the catalogue's."""
    return id in _loaded


def source_file(id: str) -> Path:
    """The file that has the class of a scenario from outside."""
    return Path(inspect.getsourcefile(type(_loaded[id])) or "")


def source_of(id: str) -> str:
    """SHA-256 of the file of a scenario from outside: a proof is of these lines."""
    return hashlib.sha256(source_file(id).read_bytes()).hexdigest()


@contextmanager
def blamed() -> Iterator[None]:
    """What the code of a scenario from outside raises within becomes an InputError of one line with file and line.

    Whatever no such code has to do with is raised as it is.
    """
    try:
        yield
    except Exception as error:
        files = {str(source_file(id)) for id in _loaded}
        places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
        blame = [place for place in places if place[0] in files] or _miscalled(error, files)
        if not blame or str(error).startswith(f"scenario {blame[-1][0]}, line"):
            raise
        reason = " ".join(str(error).split())
        what = reason if isinstance(error, InputError) else f"{type(error).__name__}: {reason}"
        raise InputError("scenario {}, line {}: {}".format(*blame[-1], what)) from None


def _miscalled(error: Exception, files: Collection[str]) -> list[tuple[str, int | None]]:
    """File and line of a function in one of the files that takes other arguments: its own frame never began."""
    called = re.match(r"([\w.<>]+)\(\) (?:takes|missing|got)\b", str(error)) if isinstance(error, TypeError) else None
    if called is None:
        return []
    modules = [compile(Path(file).read_bytes(), file, "exec") for file in sorted(files)]
    return [
        (code.co_filename, code.co_firstlineno)
        for module in modules
        for code in _functions(module)
        if code.co_qualname == called[1]
    ]


def _functions(code: CodeType) -> Iterator[CodeType]:
    for within in code.co_consts:
        if isinstance(within, CodeType):
            yield within
            yield from _functions(within)


def check_changes(entry: Scenario, knobs: Any, setup: Any) -> None:
    """InputError where fault or cure of a scenario from outside are no list of changes, or an empty one."""
    for method in ("fault",) if entry.look_alike else ("fault", "cure"):
        found = getattr(entry, method)(knobs, setup)
        wrong = f"{found!r:.60}"
        if isinstance(found, list | tuple) and found:
            wrong = ", ".join(f"{type(one).__name__}" for one in found if not isinstance(one, Change))
        if wrong:
            raise no_change(entry, method, f"it returns {wrong}")


def no_change(entry: Scenario, method: str, why: str) -> InputError:
    """What to raise for a fault or a cure that changes nothing, with the line of its method, or of the class."""
    code, file = getattr(type(entry), method).__code__, str(source_file(entry.id))
    line = code.co_firstlineno if code.co_filename == file else inspect.getsourcelines(type(entry))[1]
    return InputError(
        f"scenario {file}, line {line}: {method} changes nothing: {why}; "
        "allowed: a list of changes (Setting, TableEdit, DataTransform, Undo, ...)"
    )


def file_of(id: str) -> str:
    """Where another process finds the scenario of an id: `/folder/mine.py:Mine`, or empty where the id is enough.

    InputError for a pair with a scenario of a file.
    """
    for part in id.split(JOINT) if JOINT in id else ():
        if part in _files:
            raise InputError(f"scenario: {id!r} is not allowed; {part} is of a file; allowed: in pairs, ids only")
    return _files.get(id, "")


def _made(found: object, where: str, class_name: str, id: str, check: Check) -> Scenario:
    if found is None:
        raise InputError(f"{where}: has no class {class_name!r}")
    if not isinstance(found, type) or not issubclass(found, Scenario) or found is Scenario:
        raise InputError(f"{where}: {class_name} is not a scenario; allowed: a subclass of Scenario")
    try:
        check(found, id)
    except ValueError as error:
        raise InputError(f"{where}: {str(error).removeprefix(f'{found.__module__}: ')}") from None
    _loaded[id] = found()
    return _loaded[id]


def _home(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "?"
