"""Two narrow layers on the chain dialect at other learning rates and schedules."""

from trainwreck.scenarios.config.bases.chains import chain
from trainwreck.scenarios.config.settings import Decay, Setup, replaced


def chain_third_lr(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect at a third of the learning rate.

    At it the initialisation is felt to the end.
    """
    return replaced(chain(setup), optimizer__lr=3e-3)


def chain_lr_to_zero(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect with a learning rate that ends at zero."""
    return replaced(chain(setup), schedule__final_fraction=0.0)


def chain_lr_x10_long_warmup(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect at ten times the learning rate, which a long warm-up makes possible.

    The rate ends at zero.
    """
    return replaced(chain_lr_to_zero(setup), optimizer__lr=0.1, schedule__warmup_steps=60)


def chain_lr_x14_longer_warmup(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect at fourteen times the learning rate, after a longer warm-up.

    It takes the first third of the run; the rate ends at zero.
    """
    return replaced(chain_lr_x10_long_warmup(setup), optimizer__lr=0.14, schedule__warmup_steps=90)


def chain_lr_x10_beta2_0999_no_clip(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect at ten times the learning rate, with a long second moment.

    It remembers a thousand steps, and nothing bounds a gradient.
    """
    return replaced(chain_lr_x10_long_warmup(setup), optimizer__beta2=0.999, optimizer__clip=None)


def chain_lr_x4_no_decay_no_clip(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect at four times the learning rate, which ends at zero.

    There is no weight decay and no clipping.
    """
    return replaced(
        chain(setup),
        optimizer__lr=0.04,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
        schedule__final_fraction=0.0,
    )


def chain_constant_lr_no_decay_no_clip(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect at a constant rate, without weight decay and clipping.

    Nothing brings weights back.
    """
    return replaced(
        chain(setup),
        optimizer__lr=0.02,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
        schedule__warmup_steps=40,
        schedule__decay=Decay.CONSTANT,
    )


def chain_warmup_half(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect with a warm-up over half of the run."""
    return replaced(chain(setup), schedule__warmup_steps=150)
