"""Libraries that only some users need: loaded when asked for, and named with their extra where they are missing."""

import importlib
from typing import Any

from trainwreck.evaluation.errors import InputError


def require(module: str, extra: str) -> Any:
    """The module; InputError with what to install where it is not there."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        raise InputError(f"{library} is not installed ({error}); pip install 'trainwreck[{extra}]'") from None
