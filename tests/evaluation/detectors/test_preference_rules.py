"""Each rule about pairs of answers, on a run that has it and on one with a little less of it."""

import math
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.schema import OF_OBJECTIVES, PAIRED
from trainwreck.evaluation.detectors.playbook.playbook import Playbook
from trainwreck.evaluation.detectors.playbook.preference_rules import PREFERENCE_RULES
from trainwreck.evaluation.replay.replay import replay

S, ONSET = 120, 60
T = np.arange(S)
PAIRS = T >= ONSET
LOSS = 2.0 + 2.0 * np.exp(-T / 25.0)
RISE = np.clip((T - ONSET) / 40, 0, 1)


def shown(loss: Any, chosen: Any, rejected: Any) -> dict[str, np.ndarray]:
    """A run on text, and from the onset on on pairs with this loss and these log-probabilities."""
    found = {
        "dpo_loss": loss,
        "margin": np.subtract(chosen, rejected),
        "chosen_logp": chosen,
        "rejected_logp": rejected,
    }
    found["preference_accuracy"] = found["margin"] > 0
    return {name: np.where(PAIRS, values, np.nan) for name, values in found.items()}


def learns(chosen: float, rejected: float) -> dict[str, np.ndarray]:
    """Log-probabilities that end here."""
    return shown(np.log1p(np.exp(-0.1 * (chosen - rejected) * RISE)), chosen * RISE, rejected * RISE)


PICTURES = {
    "dpo_stuck_at_log2": (shown(math.log(2), 0 * RISE, 0 * RISE), learns(5.0, -40.0)),
    "dpo_chosen_falls": (learns(-30.0, -90.0), learns(-4.0, -90.0)),
}


def test_every_rule_has_a_picture() -> None:
    assert {rule.cause for rule in PREFERENCE_RULES} == set(PICTURES)


@pytest.mark.parametrize("cause", PICTURES)
def test_a_picture_its_cause_and_its_harmless_neighbour(cause: str, make_trace: Any) -> None:
    wrong, right = PICTURES[cause]
    base = {"loss": LOSS, "validation_loss": np.where(T % 20 == 19, LOSS, np.nan)}
    alarms = replay(Playbook, make_trace("r", steps=S, **base | wrong))
    assert alarms.causes[:1] == (cause,)
    assert alarms.first_alarm is not None
    assert ONSET <= alarms.first_alarm < S - 20
    assert replay(Playbook, make_trace("r", steps=S, **base | right)).first_alarm is None


def test_the_first_step_on_pairs_has_no_margin_and_is_no_failure(make_trace: Any) -> None:
    right = learns(5.0, -40.0)
    assert right["margin"][ONSET] == 0.0
    assert right["dpo_loss"][ONSET] == pytest.approx(math.log(2))
    assert replay(Playbook, make_trace("r", steps=S, loss=LOSS, **right)).first_alarm is None


def test_both_falling_without_a_margin_is_not_called_so(make_trace: Any) -> None:
    causes = replay(Playbook, make_trace("r", steps=S, loss=LOSS, **learns(-30.0, -45.0))).causes
    assert "dpo_chosen_falls" not in causes


def test_a_run_without_pairs_shows_none_of_them(make_trace: Any) -> None:
    none = {name: np.full(S, np.nan) for name in (*OF_OBJECTIVES, *PAIRED)}
    causes = replay(Playbook, make_trace("r", steps=S, loss=LOSS, **none)).causes
    assert not set(causes) & set(PICTURES)
