"""What a fault needs of the run that it is in, as its settings or its data; InputError where the run lacks it."""

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.models.config import Positions
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Dialect, Setup, SourceKind, get
from trainwreck.scenarios.data.sources.chat import Chat
from trainwreck.scenarios.data.sources.language import Language
from trainwreck.scenarios.data.sources.selection import source, source_key


def positive(setup: Setup, path: str) -> None:
    """InputError where a setting is 0 without which a fault has nothing to be in."""
    if not get(setup, path):
        raise InputError(f"{path}: 0 is not allowed for this fault; allowed: 1 or more")


def objective(setup: Setup, kind: ObjectiveKind) -> None:
    """InputError where a run has another objective, so that a fault of this one has nothing to be in."""
    if setup.objective is not kind:
        raise InputError(f"objective: {setup.objective.value!r} is not allowed for this fault; allowed: {kind.value!r}")


def rotary(setup: Setup) -> None:
    """InputError where positions are learned, so that a fault of the rotation has nothing to be in."""
    positions = setup.model.positions
    if positions is not Positions.ROTARY:
        raise InputError(
            f"model.positions: {positions.value!r} is not allowed for this fault; allowed: {Positions.ROTARY.value!r}"
        )


def language(setup: Setup) -> Language:
    """The language that rows are drawn from; InputError where they come from elsewhere."""
    found = source(source_key(setup.data))
    if not isinstance(found, Language):
        raise InputError(
            f"data.source: {setup.data.source.value!r} is not allowed for a fault in the language's own tokens; "
            f"allowed: {SourceKind.LANGUAGE.value}"
        )
    return found


def chain_bytes(setup: Setup) -> np.ndarray:
    """Ids of the tokenizer that text in the chain dialect never uses: they stand for bytes, int64.

    Raises InputError where the data is not of the language.
    """
    found = language(setup)
    return np.arange(found.spec.content, found.vocabulary)


def chat(setup: Setup) -> Chat:
    """The exchanges that rows are; InputError where they come from elsewhere."""
    found = source(source_key(setup.data))
    if not isinstance(found, Chat):
        raise InputError(
            f"data.dialect: {setup.data.dialect.value!r} is not allowed for a fault in the end of answers; "
            f"allowed: {Dialect.CHAT.value}, of data.source {SourceKind.LANGUAGE.value}"
        )
    return found
