"""Cheap healthy setups that many scenarios share, for failures that need none of the language's structures.

Scenarios with one base share their healthy runs, in a data set and in a proof.
"""

from trainwreck.models.config import Placement
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


def echo(setup: Setup) -> Setup:
    """As `chain`, on the echo dialect: as cheap, and half a nat hangs on what the second layer attends to."""
    return replaced(chain(setup), data__dialect=Dialect.ECHO)


def echo_post(setup: Setup) -> Setup:
    """As `echo`, with the norms after the sums: what a norm puts out is the residual stream itself."""
    return replaced(echo(setup), model__placement=Placement.POST)
