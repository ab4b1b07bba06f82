"""Each rule about tokens that a model writes by itself, on a run that has it and on one with a little less of it."""

from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.schema import DECODING
from trainwreck.evaluation.detectors.playbook.decoding_rules import DECODING_RULES
from trainwreck.evaluation.detectors.playbook.playbook import Playbook
from trainwreck.evaluation.replay.replay import replay

S, ONSET, EVERY = 120, 60, 20
T = np.arange(S)
AFTER, EVALUATED = T >= ONSET, T % EVERY == EVERY - 1
LOSS = 2.0 + 2.0 * np.exp(-T / 25.0)


def shown(**over: float) -> dict[str, np.ndarray]:
    """Losses over that on given tokens and gaps from the onset on, at evaluations; 0 where nothing is said."""
    found = {name: over.get(name.removeprefix("free_").removesuffix("_loss"), 0.0) * AFTER for name in DECODING}
    found |= {name: found[name] + LOSS for name in DECODING if name.endswith("_loss")}
    return {name: np.where(EVALUATED, values, np.nan) for name, values in found.items()}


PICTURES = {
    "kv_cache_leak": (
        shown(first=3.0, early=3.0, late=3.0, cache_gap=2.0, neighbour_gap=2.0), shown(neighbour_gap=0.04),
    ),
    "kv_cache_stale": (shown(first=2.0, early=2.0, late=2.0, cache_gap=1.0), shown(first=2.0, early=2.0, late=2.0)),
    "kv_cache_off_by_one": (shown(early=2.0, late=2.0, cache_gap=1.0), shown(early=0.2, late=0.2, cache_gap=0.04)),
    "kv_cache_truncated": (shown(late=2.0, cache_gap=0.2), shown(late=0.2, cache_gap=0.2)),
    "teacher_forcing_mismatch": (shown(early=1.0, late=3.0), shown(early=1.0, late=1.8)),
}  # fmt: skip


def test_every_rule_has_a_picture() -> None:
    assert {rule.cause for rule in DECODING_RULES} == set(PICTURES)


@pytest.mark.parametrize("cause", PICTURES)
def test_a_picture_its_cause_and_its_harmless_neighbour(cause: str, make_trace: Any) -> None:
    wrong, right = PICTURES[cause]
    base = {"loss": LOSS, "validation_loss": np.where(EVALUATED, LOSS, np.nan)}
    alarms = replay(Playbook, make_trace("r", steps=S, **base | wrong))
    assert alarms.causes[:1] == (cause,)
    assert alarms.first_alarm is not None
    assert ONSET <= alarms.first_alarm < ONSET + EVERY
    assert replay(Playbook, make_trace("r", steps=S, **base | right)).first_alarm is None


def test_a_run_that_does_not_decode_shows_none_of_them(make_trace: Any) -> None:
    none = {name: np.full(S, np.nan) for name in DECODING}
    causes = replay(Playbook, make_trace("r", steps=S, loss=LOSS, **none)).causes
    assert not set(causes) & set(PICTURES)
