"""Wrong arguments of the public functions as the command line's errors of one line, before anything is loaded.

Checked are the names of arguments, and the types of those that are annotated with plain ones: numbers, text, paths,
data sets, and lists of text. What a value has to be besides (in range, an id that there is) each function checks.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, get_args, get_origin

from trainwreck.evaluation.errors import InputError, unknown

P = ParamSpec("P")
R = TypeVar("R")

DATA = ("Data", "DataSet")  # annotations of what is a folder, "sample" or an open data set
ALL_DATA = "a data set, its folder, or 'sample'"
LOWEST = {"workers": 1, "seeds": 1, "seed": 0, "runs": 1, "k": 1, "window": 1, "minutes": 0.0}  # as the options have


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which raises InputError for an argument that it does not have, lacks, or can't be of that type."""

    @wraps(function)
    def called(*words: P.args, **settings: P.kwargs) -> R:
        _check(function, words, settings)
        return function(*words, **settings)

    return called


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _check(function: Callable[..., Any], words: tuple[Any, ...], settings: dict[str, Any]) -> None:
    signature = _signature(function)
    every = signature.parameters.values()
    if not any(one.kind is one.VAR_KEYWORD for one in every):
        for name in settings:
            if name not in signature.parameters:
                raise unknown(function.__name__, name, [one.name for one in every if one.name != "self"])
    try:
        given = signature.bind(*words, **settings)
    except TypeError as error:
        raise InputError(f"{function.__name__}: {error}; {_usage(function)}") from None
    for name, value in given.arguments.items():
        parameter = signature.parameters[name]
        for one in value if parameter.kind is parameter.VAR_POSITIONAL else (value,):
            if not allows(parameter.annotation, one):
                raise InputError(f"{name}: {shortened(one)} is not allowed; allowed: {_words(parameter.annotation)}")
            if name in LOWEST and isinstance(one, int | float) and not one >= LOWEST[name]:
                raise InputError(f"{name}: {one} is not allowed; allowed: {LOWEST[name]:g} or more")


def _usage(function: Callable[..., Any]) -> str:
    needed = [
        name
        for name, one in _signature(function).parameters.items()
        if name != "self" and one.default is one.empty and one.kind is not one.VAR_POSITIONAL
    ]
    return f"needed: {', '.join(needed) or 'none'}"


def allows(annotation: Any, value: Any) -> bool:
    """Whether a value can be of an annotated type; True for annotations that are not among the plain ones."""
    if isinstance(annotation, str):
        return annotation not in DATA or _is_data(value)
    if isinstance(annotation, UnionType):
        return any(allows(part, value) for part in get_args(annotation))
    if get_origin(annotation) is Sequence:
        return not isinstance(value, str) and isinstance(value, Sequence)
    if annotation in (int, float):
        number = Integral if annotation is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    if annotation is Path:
        return isinstance(value, PathLike)
    if annotation in (str, bool, NoneType):
        return isinstance(value, annotation)
    if getattr(annotation, "__name__", "") in DATA:
        return _is_data(value)
    return True


def _is_data(value: Any) -> bool:
    return isinstance(value, (str, PathLike)) or {"runs", "manifest"} <= set(dir(value))


def _words(annotation: Any) -> str:
    if isinstance(annotation, UnionType):
        words = dict.fromkeys(_words(part) for part in get_args(annotation))
        return ALL_DATA if ALL_DATA in words else " or ".join(words)
    if get_origin(annotation) is Sequence:
        return "a list"
    if isinstance(annotation, str) or getattr(annotation, "__name__", "") in DATA:
        return ALL_DATA
    plain = {int: "a whole number", float: "a number", str: "text", bool: "True or False", Path: "a path"}
    return plain.get(annotation, "None" if annotation is NoneType else getattr(annotation, "__name__", str(annotation)))
