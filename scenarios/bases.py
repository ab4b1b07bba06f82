"""Cheap healthy setups that many scenarios share, for failures that need none of the language's structures.

Scenarios with one base share their healthy runs, in a data set and in a proof.
"""

from trainwreck.models.precision import Format
from trainwreck.scenarios.settings import Dialect, Setup, replaced


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


def chain_fp16(setup: Setup) -> Setup:
    """`chain` in float16 with a dynamic loss scale that has no floor to speak of, as PyTorch's has none."""
    return replaced(
        chain(setup),
        precision__format=Format.FP16,
        precision__loss_scale=2.0**12,
        precision__dynamic=True,
        precision__growth_interval=25,
        precision__smallest_scale=2.0**-24,
    )


def chain_one_hot_head(setup: Setup) -> Setup:
    """`chain` with one head whose logits pass a hundred at a high rate without decay and clipping; it ends well."""
    return replaced(
        chain(setup),
        model__heads=1,
        model__init__matrix_std=0.135,
        optimizer__lr=0.045,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
        schedule__final_fraction=0.0,
    )


def chain_dropout(setup: Setup) -> Setup:
    """`chain` so narrow that it misses the third of its activations that dropout takes."""
    return replaced(chain(setup), model__width=16, model__heads=2, dropout=0.3)


def chain_to_zero(setup: Setup) -> Setup:
    """`chain` with a learning rate that ends at zero."""
    return replaced(chain(setup), schedule__final_fraction=0.0)


def chain_hot(setup: Setup) -> Setup:
    """`chain_to_zero` at ten times the rate, which a long warm-up makes possible."""
    return replaced(chain_to_zero(setup), optimizer__lr=0.1, schedule__warmup_steps=60)
