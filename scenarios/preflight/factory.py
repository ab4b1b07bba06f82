"""A subject from a user's function: `package.module:function` or `file.py:function`."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.imports import import_file
from trainwreck.scenarios.preflight.subject import Preflight, isolated, subject_of


def from_factory(name: str, seed: int = 0) -> Preflight:
    """Call the function, under seeded random streams, and take what it makes as a subject.

    Like `python file.py` and `python -m`, it finds modules beside its file, or in the current folder.
    InputError in one line where it is missing, raises, or makes something else.
    """
    make = _function(name)

    def again() -> Preflight:
        with isolated(seed), _beside(name):
            try:
                made = make()
            except InputError:
                raise
            except (Exception, SystemExit) as error:
                raise InputError(f"factory {name}: raised {_reason(error)}") from None
        return subject_of(made)

    subject = again()
    if subject.again is None:
        subject.again = again
    return subject


def _function(name: str) -> Callable[[], Any]:
    where, separator, function = name.rpartition(":")
    if not separator or not function.isidentifier():
        raise InputError(f"factory: {name!r} is not allowed; allowed: package.module:function or file.py:function")
    with _beside(name):
        if where.endswith(".py"):
            module = import_file(Path(where), "factory")
        else:
            try:
                module = importlib.import_module(where)
            except (Exception, SystemExit) as error:
                raise InputError(f"factory {where}: does not import ({_reason(error)})") from None
    found = getattr(module, function, None)
    if not callable(found):
        raise InputError(f"factory {where}: has no function {function!r}")
    made: Callable[[], Any] = found
    return made


@contextmanager
def _beside(name: str) -> Iterator[None]:
    """The file's folder, or the current one, first on the path."""
    where = name.rpartition(":")[0]
    folder = str(Path(where).resolve().parent if where.endswith(".py") else Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _reason(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
