"""A user's own Python file as a module."""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from trainwreck.evaluation.errors import InputError


def import_file(path: Path, what: str) -> ModuleType:
    """The module of a file. `what` it is for is named in the InputError where it is missing or does not import."""
    if not path.is_file():
        raise InputError(f"{what} {path}: no such file")
    # The name must not shadow a module that the file itself wants to import.
    name = f"_trainwreck_{what}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a .py file always has a spec"
    assert spec.loader is not None, "and a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    # A user's file may raise anything at import, sys.exit included; each is a wrong input here.
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).absolute() == path.absolute()]
        reason += f"; line {lines[-1]}" if lines else ""
        raise InputError(f"{what} {path}: does not import ({reason})") from None
    return module
