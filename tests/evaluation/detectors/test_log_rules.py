"""Each rule about a log that contradicts itself, on a log that does and on one that nearly does."""

from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.constants import LOG_FAULTS
from trainwreck.evaluation.detectors.playbook.log_rules import LOG_RULES
from trainwreck.evaluation.detectors.playbook.playbook import Playbook
from trainwreck.evaluation.replay.replay import replay

S, ONSET = 120, 60
T = np.arange(S)
AFTER = T >= ONSET
LOSS = 2.0 + 2.0 * np.exp(-T / 25.0) + 0.01 * np.sin(T)
NORM = 1.0 + 0.1 * np.cos(T)
LAYERS = np.repeat(NORM[:, None] / 2.0, 4, axis=1)  # four layers, whose norms together are the whole's
PARTS = np.repeat(LOSS[:, None], 8, axis=1)
LATE = np.where(AFTER & (T % 5 == 0), T - 2, T)


def overflowing(norm: float) -> np.ndarray:
    return np.where(T == ONSET, norm, NORM)


# What the log shows, and what it shows where it is right.
PICTURES: dict[str, tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = {
    "log_nan_as_zero": (
        {"loss": np.where(T == ONSET, 0.0, LOSS), "grad_norm": overflowing(np.inf)},
        {"loss": LOSS, "grad_norm": overflowing(np.nan)},
    ),
    "log_norm_of_one_shard": (
        {"loss": LOSS, "grad_norm": NORM / np.where(AFTER, 2.0**0.5, 1.0), "layer_grad_norm": LAYERS},
        {"loss": LOSS, "grad_norm": 0.95 * NORM, "layer_grad_norm": LAYERS},
    ),
    "log_loss_summed": (
        {"loss": np.where(AFTER, 2.0, 1.0) * LOSS, "position_loss": PARTS},
        {"loss": LOSS, "position_loss": PARTS / np.linspace(1.0, 3.0, S)[:, None]},  # passes by 2
    ),
    "log_rows_missing": (
        {"loss": LOSS[LATE], "grad_norm": NORM[LATE]},
        {"loss": np.where(AFTER, 2.0, LOSS), "grad_norm": np.where(AFTER, 1.0, NORM)},  # nothing moves any more
    ),
}


def test_every_rule_has_a_picture() -> None:
    assert {rule.cause for rule in LOG_RULES} == set(PICTURES) == set(LOG_FAULTS)


@pytest.mark.parametrize("cause", PICTURES)
def test_a_log_that_contradicts_itself_is_named(cause: str, make_trace: Any) -> None:
    wrong, right = PICTURES[cause]
    alarms = replay(Playbook, make_trace("wrong", steps=S, **wrong))
    assert alarms.causes[0] == cause
    assert alarms.first_alarm is not None
    assert ONSET <= alarms.first_alarm <= ONSET + 8
    assert cause not in replay(Playbook, make_trace("right", steps=S, **right)).causes


def test_rows_of_few_digits_are_alike_by_chance(make_trace: Any) -> None:
    """As in a public log of 20,000 rows with four decimals of the loss and two of the gradient norm."""
    cause = "log_rows_missing"
    logged = {"loss": LOSS[LATE].round(3), "grad_norm": NORM[LATE].round(2)}
    assert cause not in replay(Playbook, make_trace("rounded", steps=S, **logged)).causes
    finer = {"loss": LOSS[LATE].round(5), "grad_norm": NORM[LATE].round(5)}
    assert cause in replay(Playbook, make_trace("finer", steps=S, **finer)).causes
