"""Narrow layers on the chain dialect under SGD, in one process or on four ranks."""

from trainwreck.models.config import OptimizerKind
from trainwreck.scenarios.config.bases.chains import at_small_sizes, chain
from trainwreck.scenarios.config.settings import Decay, Setup, replaced


def chain_sgd(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect under SGD with momentum, without clipping and weight decay.

    Nothing hides the size of a step.
    """
    return replaced(
        chain(setup),
        optimizer__kind=OptimizerKind.SGD,
        optimizer__lr=0.1,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
    )


def chain_sgd_clipped(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect under SGD with momentum, at the faster rate that clipping allows."""
    return replaced(chain_sgd(setup), optimizer__lr=0.3, optimizer__clip=1.0)


def chain_sgd_heavy_tailed(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect under SGD; one batch in ten repeats a single token.

    Clipping holds what such a batch does. The rate ends at three tenths of its peak.
    """
    return replaced(chain_sgd_clipped(setup), data__one_token_every=10, schedule__final_fraction=0.3)


def chain_sgd_large_batch(setup: Setup) -> Setup:
    """One narrow layer on the chain dialect under plain SGD, with batches of 64 rows.

    The step decides what the loss does, and not the noise of batches. Larger sizes keep their shape, batch and steps.
    """
    setup = replaced(chain_sgd(setup), optimizer__lr=0.4, optimizer__beta1=0.0, schedule__warmup_steps=100)
    return at_small_sizes(setup, model__layers=1, model__width=32, model__heads=2, data__rows=64, steps=600)


def chain_sgd_four_ranks(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect under SGD, trained by four ranks with two rows each.

    SGD hides neither a wrong average nor its noise.
    """
    return replaced(
        chain(setup),
        distributed__ranks=4,
        optimizer__kind=OptimizerKind.SGD,
        optimizer__lr=0.25,
        optimizer__clip=None,
        optimizer__weight_decay=0.0,
        schedule__decay=Decay.CONSTANT,
        steps=200,
    )


def chain_sgd_four_ranks_high_lr(setup: Setup) -> Setup:
    """The same at four times the rate, clipped at a norm of 1: what the ranks do not agree on matters more."""
    return replaced(chain_sgd_four_ranks(setup), optimizer__lr=1.0, optimizer__clip=1.0)
