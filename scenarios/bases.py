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


def chain_to_zero(setup: Setup) -> Setup:
    """`chain` with a learning rate that ends at zero."""
    return replaced(chain(setup), schedule__final_fraction=0.0)


def chain_hot(setup: Setup) -> Setup:
    """`chain_to_zero` at ten times the rate, which a long warm-up makes possible."""
    return replaced(chain_to_zero(setup), optimizer__lr=0.1, schedule__warmup_steps=60)


def chain_long_memory(setup: Setup) -> Setup:
    """`chain_hot` with a second moment that remembers a thousand steps, and nothing that bounds a gradient."""
    return replaced(chain_hot(setup), optimizer__beta2=0.999, optimizer__clip=None)


def chain_slow_start(setup: Setup) -> Setup:
    """`chain` with a warm-up over half of the run."""
    return replaced(chain(setup), schedule__warmup_steps=150)


def chain_small_batch(setup: Setup) -> Setup:
    """`chain` with batches of two rows, at a constant rate that is low enough for them."""
    return replaced(chain(setup), data__rows=2, optimizer__lr=3e-3, schedule__decay=Decay.CONSTANT)


def chain_sgd(setup: Setup) -> Setup:
    """`chain` under SGD with momentum and nothing that would hide the size of a step: no clip, no decay."""
    return replaced(
        chain(setup),
        optimizer__kind=Kind.SGD,
        optimizer__lr=0.1,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
    )


def chain_sgd_clipped(setup: Setup) -> Setup:
    """`chain_sgd` at the faster rate that clipping allows."""
    return replaced(chain_sgd(setup), optimizer__lr=0.3, optimizer__clip=1.0)
