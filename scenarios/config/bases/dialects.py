"""Narrow layers on the other dialects of the language."""

from trainwreck.models.config import Format, OptimizerKind, Placement, Positions
from trainwreck.scenarios.config.bases.chains import at_small_sizes, chain
from trainwreck.scenarios.config.settings import Dialect, Setup, replaced


def echo(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect: half a nat hangs on what the second layer attends to."""
    return replaced(chain(setup), data__dialect=Dialect.ECHO)


def echo_muon(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect, trained by Muon without weight decay."""
    return replaced(
        echo(setup),
        optimizer__kind=OptimizerKind.MUON,
        optimizer__lr=0.02,
        optimizer__beta1=0.95,
        optimizer__weight_decay=0.0,
    )


def echo_lion(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect, trained by Lion without weight decay."""
    return replaced(echo(setup), optimizer__kind=OptimizerKind.LION, optimizer__lr=0.004, optimizer__weight_decay=0.0)


def echo_tied(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect whose head is the token table."""
    return replaced(echo(setup), model__tied=True)


def echo_fp8(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect, their products in float8 with delayed scaling; matrices start small.

    Their weights grow more than tenfold in the first third of the run.
    """
    return replaced(echo(setup), precision__format=Format.FP8, model__init__matrix_std=0.006)


def echo_fp16_large_stream(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect in float16, with a residual stream of size 1e4 and a loss scaler.

    The stream makes gradients small; the scaler lifts them.
    """
    return replaced(
        echo(setup),
        data__rows=16,
        model__init__embedding_std=1e4,
        model__init__residual_std=500.0,
        optimizer__lr=1e-3,
        precision__format=Format.FP16,
        precision__loss_scale=2.0**16,
        precision__dynamic=True,
        precision__growth_interval=25,
    )


def echo_learned_positions(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect with learned positions, in rows of two or three documents.

    A position is a vector of its own, looked up by the place in the document. Larger sizes keep their shape and batch.
    """
    setup = replaced(echo(setup), model__positions=Positions.DOCUMENT)
    return at_small_sizes(setup, model__context=64, data__rows=4)


def echo_long_rows(setup: Setup) -> Setup:
    """Two layers of two narrow heads on the echo dialect, in rows of 384 tokens, one a batch.

    Larger sizes keep their shape and batch, and have rows as long.
    """
    setup = replaced(echo(setup), model__context=384, steps=240)
    return at_small_sizes(setup, model__width=32, model__heads=2, data__rows=1, evaluation__rows=4)


def echo_post_norm(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect with the norms after the sums.

    What a norm puts out is the residual stream itself.
    """
    return replaced(echo(setup), model__placement=Placement.POST)


def recall(setup: Setup) -> Setup:
    """Two narrow layers on the recall dialect: what a name goes with is settled in each short document."""
    return replaced(chain(setup), data__dialect=Dialect.RECALL)


def far_echo(setup: Setup) -> Setup:
    """Two narrow layers on the far echo dialect.

    Rows are of one document each, in whose second half much is sixteen tokens back.
    """
    return replaced(chain(setup), data__dialect=Dialect.FAR_ECHO, steps=400)


def full_narrow(setup: Setup) -> Setup:
    """Two narrow layers on the full language, for failures that take its structures away; outcomes spread more."""
    return replaced(chain(setup), data__dialect=Dialect.FULL, steps=400)


def rules_experts(setup: Setup) -> Setup:
    """One narrow layer of one head on the rules dialect, with sixteen small experts in the place of the MLP.

    A token goes to one of them, by a router whose weights start large. Larger sizes keep their shape, batch and steps.
    """
    setup = replaced(
        setup,
        data__dialect=Dialect.RULES,
        model__experts=16,
        model__expert_units=16,
        model__init__router_std=2.0,
        routing__balance_loss=0.05,
        optimizer__lr=0.006,
    )
    return at_small_sizes(
        setup, model__layers=1, model__width=32, model__heads=1, model__context=48, data__rows=12, steps=300
    )
