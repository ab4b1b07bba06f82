"""Cheap healthy setups that many scenarios share, for failures that need none of the language's structures.

Scenarios with one base share their healthy runs, in a data set and in a proof.
"""

import numpy as np

from trainwreck.scenarios.batches import source, source_key
from trainwreck.scenarios.settings import Dialect, Setup, replaced
from trainwreck.scenarios.sources.language import Language


def chain(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect: a third of the micro size's work, and a tight spread of outcomes."""
    return replaced(
        setup,
        data__dialect=Dialect.CHAIN,
        data__rows=8,
        model__width=48,
        model__context=32,
        steps=300,
    )


def unclipped_chain(setup: Setup) -> Setup:
    """`chain` without clipping: what a bad batch does is not held back."""
    return replaced(chain(setup), optimizer__clip=None)


def epochs(setup: Setup) -> Setup:
    """`chain` on 400 rows, shuffled each epoch of fifty steps, with sixteen held-out rows and as many fresh ones."""
    return replaced(chain(setup), data__pool=400, evaluation__rows=16, evaluation__fresh=True)


def chain_bytes(setup: Setup) -> np.ndarray:
    """Ids of the tokenizer that text in the chain dialect never uses: they stand for bytes, int64."""
    language = source(source_key(setup.data))
    assert isinstance(language, Language)
    return np.arange(language.spec.content, language.vocabulary)
