"""Cheap healthy setups that many scenarios share, for failures that need none of the language's structures.

Scenarios with one base share their healthy runs, in a data set and in a proof.
"""

import numpy as np

from trainwreck.models.config import Init, Placement
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


def echo(setup: Setup) -> Setup:
    """As `chain`, on the echo dialect: as cheap, and half a nat hangs on what the second layer attends to."""
    return replaced(chain(setup), data__dialect=Dialect.ECHO)


def deep_chain(setup: Setup) -> Setup:
    """`chain` on four layers that start as He et al. 2015 would have them, residual branches not shrunk."""
    return replaced(
        chain(setup),
        model__layers=4,
        model__init=Init(embedding_std=1.0, matrix_std=0.2, head_std=0.1, scale_residual=False),
    )


def recall(setup: Setup) -> Setup:
    """`chain`'s shape on the recall dialect: what a name goes with is settled anew in each short document."""
    return replaced(chain(setup), data__dialect=Dialect.RECALL)


def compact(setup: Setup) -> Setup:
    """The full language at `chain`'s shape, for failures that take its structures away; outcomes spread more."""
    return replaced(chain(setup), data__dialect=Dialect.FULL, steps=400)


def hot_chain(setup: Setup) -> Setup:
    """`chain` at a high learning rate that ends at zero, without weight decay and clipping."""
    return replaced(
        chain(setup),
        optimizer__lr=0.04,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
        schedule__final_fraction=0.0,
    )


def cool(setup: Setup) -> Setup:
    """`chain` at a third of the learning rate, at which the initialisation is felt to the end."""
    return replaced(chain(setup), optimizer__lr=3e-3)


def echo_post(setup: Setup) -> Setup:
    """As `echo`, with the norms after the sums: what a norm puts out is the residual stream itself."""
    return replaced(echo(setup), model__placement=Placement.POST)
