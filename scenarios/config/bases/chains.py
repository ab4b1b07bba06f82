"""Two narrow layers on the chain dialect: other data, models, formats and batches."""

from typing import Any

from trainwreck.models.config import Format, Init, Recompute
from trainwreck.scenarios.config.settings import Decay, Dialect, Setup, replaced

WIDEST = 64  # of the sizes whose shape a base may make its own


def at_small_sizes(setup: Setup, **values: Any) -> Setup:
    """`replaced`, of the sizes whose shape a base may make its own; others stay as they are."""
    return setup if setup.model.width > WIDEST else replaced(setup, **values)


def chain(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect: a third of the micro size's work, and a tight spread of outcomes.

    Larger sizes keep their shape, batch and steps.
    """
    if setup.model.width > WIDEST:
        return replaced(setup, data__dialect=Dialect.CHAIN)
    return replaced(
        setup,
        data__dialect=Dialect.CHAIN,
        data__rows=8,
        model__width=48,
        model__context=32,
        steps=300,
    )


def chain_padded(setup: Setup, every: int) -> Setup:
    """Two narrow layers on the chain dialect; one batch in so many has a row that ends in padding.

    Padding's embedding is zero, and stays it.
    """
    return replaced(chain(setup), data__padding_every=every, model__init__zero_padding=True)


def chain_unclipped(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect, without clipping: what a bad batch does is not held back."""
    return replaced(chain(setup), optimizer__clip=None)


def chain_epochs(setup: Setup) -> Setup:
    """Two narrow layers on 400 rows of the chain dialect, shuffled each epoch of fifty steps.

    Sixteen rows are held out, and as many fresh ones.
    """
    return replaced(chain(setup), data__pool=400, evaluation__rows=16, evaluation__fresh=True)


def chain_rare_words(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect, whose rows begin with twelve pairs of a rare word and a token.

    The words are of a table of 1,024, and not scored; held-out rows have none. There is no weight decay.
    """
    return replaced(chain(setup), data__rare_words=12, model__vocab_size=1024, optimizer__weight_decay=0.0)


def chain_grown(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect, whose token table is doubled in mid-run.

    From then on a tenth of the tokens is written with a new id. Rows of new ids start at the mean of the old rows.
    """
    setup = replaced(chain(setup), growth__rows=2 * setup.model.vocab_size)
    return at_small_sizes(setup, model__width=32, model__heads=2)


def chain_adapters(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect, frozen in mid-run: from then on adapters learn a second such language.

    Adapters of rank 8 are on every matrix of the layers, and the last norm is trained beside them.
    """
    setup = replaced(chain(setup), adapters__rank=8)
    return at_small_sizes(setup, model__width=32, model__heads=2)


def chain_four_layers(setup: Setup) -> Setup:
    """Four narrow layers on the chain dialect that start as He et al. 2015 would have them.

    Residual branches are not shrunk.
    """
    return replaced(
        chain(setup),
        model__layers=4,
        model__init=Init(embedding_std=1.0, matrix_std=0.2, head_std=0.1, scale_residual=False),
    )


def chain_one_head_large_logits(setup: Setup) -> Setup:
    """Two narrow layers of one head on the chain dialect, whose attention logits pass a hundred.

    The rate is high, without decay and clipping; it ends well.
    """
    return replaced(
        chain(setup),
        model__heads=1,
        model__init__matrix_std=0.135,
        optimizer__lr=0.045,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
        schedule__final_fraction=0.0,
    )


def chain_fp16(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect in float16, with a dynamic loss scale.

    The scale has no floor to speak of, as PyTorch's has none.
    """
    return replaced(
        chain(setup),
        precision__format=Format.FP16,
        precision__loss_scale=2.0**12,
        precision__dynamic=True,
        precision__growth_interval=25,
        precision__smallest_scale=2.0**-24,
    )


def chain_dropout(setup: Setup) -> Setup:
    """Two layers on the chain dialect, so narrow that they miss the third of activations that dropout takes.

    Larger sizes keep their width.
    """
    return at_small_sizes(replaced(chain(setup), dropout=0.3), model__width=16, model__heads=2)


def chain_dropout_recomputed(setup: Setup) -> Setup:
    """The same, half as long, with activations that the backward pass computes again, to the same bits."""
    return replaced(chain_dropout(setup), model__recompute=Recompute.SAME_MASKS, steps=150)


def chain_two_rows(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect with batches of two rows, at a constant rate low enough for them."""
    return replaced(chain(setup), data__rows=2, optimizer__lr=3e-3, schedule__decay=Decay.CONSTANT)


def chain_one_row(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect with batches of a single short row, at a constant low rate."""
    return replaced(chain_two_rows(setup), data__rows=1, model__context=16)


def chain_sixteen_rows(setup: Setup) -> Setup:
    """Two narrower layers on the chain dialect with batches of sixteen rows, at a constant rate.

    It is as high as so many rows bear. Larger sizes keep their shape, batch and steps.
    """
    setup = replaced(chain(setup), schedule__decay=Decay.CONSTANT)
    return at_small_sizes(setup, model__width=32, model__heads=2, data__rows=16, steps=250)


def chain_short_rows(setup: Setup) -> Setup:
    """The same in rows of 64 tokens, of which every second one has a single target and then padding.

    Larger sizes have such rows too.
    """
    setup = replaced(chain_sixteen_rows(setup), data__short_every=2)
    return at_small_sizes(setup, model__context=64)


def chain_full_batch(setup: Setup) -> Setup:
    """One narrow layer on 32 rows of the chain dialect, all of them in each batch, at a low constant rate.

    No batch makes noise, nothing bounds a gradient, and smoothed labels leave a loss where rows are memorised.
    Larger sizes keep their shape and steps.
    """
    setup = replaced(
        chain(setup),
        data__rows=32,
        data__pool=32,
        label_smoothing=0.03,
        optimizer__lr=5e-3,
        optimizer__beta2=0.95,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
        schedule__warmup_steps=40,
        schedule__decay=Decay.CONSTANT,
    )
    return at_small_sizes(setup, model__layers=1, model__width=32, model__heads=2, steps=400)
