"""Cheap healthy setups that many scenarios share, for failures that need none of the language's structures.

Scenarios with one base share their healthy runs, in a data set and in a proof.
"""

from trainwreck.models.optim import Kind
from trainwreck.scenarios.settings import Decay, Dialect, Setup, replaced


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


def data_parallel(setup: Setup) -> Setup:
    """Four ranks with two rows each, and plain SGD, which hides neither a wrong average nor its noise."""
    return replaced(
        chain(setup),
        distributed__ranks=4,
        optimizer__kind=Kind.SGD,
        optimizer__lr=0.25,
        optimizer__clip=None,
        optimizer__weight_decay=0.0,
        schedule__decay=Decay.CONSTANT,
        steps=200,
    )
