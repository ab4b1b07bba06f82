"""Cheap healthy setups that many scenarios share, for failures that need none of the language's structures.

Scenarios with one base share their healthy runs, in a data set and in a proof.
"""

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
