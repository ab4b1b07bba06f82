"""Each rule of the playbook on a picture that the guides draw, and on healthy curves."""

import math
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.detectors.playbook.playbook import RULES, Playbook
from trainwreck.evaluation.replay.replay import replay
from trainwreck.scenarios.spec.registry import scenarios

S, ONSET = 120, 60
T = np.arange(S)
AFTER = T >= ONSET


def loss(seed: int = 0) -> np.ndarray:
    noise = 0.01 * np.random.default_rng(seed).standard_normal(S)
    return np.asarray((2.0 + 2.0 * np.exp(-T / 25.0)) * (1.0 + noise))


def wide(values: np.ndarray, width: int) -> np.ndarray:
    return np.repeat(np.asarray(values, float)[:, None], width, axis=1)


def depth(first: float, last: float) -> np.ndarray:
    """Embedding, eight blocks, head: the gradient norm goes from first to last over the blocks."""
    return np.tile([1.0, *np.geomspace(first, last, 8), 1.0], (S, 1))


def jumped() -> np.ndarray:
    return np.where(AFTER, 1.6, 1.0) * loss()


PICTURES: dict[str, tuple[str, dict[str, np.ndarray]]] = {
    "every head alike while the loss falls": ("mask_zeroed", {"head_entropy": np.full((S, 4), 2.5)}),
    "no attention on itself": ("mask_off_by_one", {"attention_mass_self": np.where(wide(AFTER, 2), 0.0, 0.2)}),
    "a little attention ahead": ("mask_off_by_one", {"attention_mass_future": wide(0.05 + 0.005 * T, 2)}),
    "half of attention ahead": ("mask_missing", {"attention_mass_future": np.full((S, 2), 0.5)}),
    "logits to the end of fp16": (
        "fp16_attention_overflow",
        {"attention_logit_max": wide(np.minimum(6e4, 12.0 * 1.1**T), 2)},
    ),
    "NaN after large logits": (
        "fp16_attention_overflow",
        {
            "attention_logit_max": np.where(wide(AFTER, 2), np.nan, 2e4),
            "loss": np.where(AFTER, np.nan, loss()),
        },
    ),
    "updates jump, gradient and LR do not": (
        "stale_optimizer_state",
        {"layer_update_ratio": wide(np.where(AFTER, 5e-2, 1e-3), 4)},
    ),
    "loss and token entropy jump together": (
        "corrupt_tokens",
        {"loss": jumped(), "token_entropy": np.where(AFTER, 4.1, 3.2)},
    ),
    "loss and attention jump, data do not": (
        "rope_wrong_offset",
        {"loss": jumped(), "attention_distance": wide(np.where(AFTER, 14.0, 8.0), 2)},
    ),
    "loss and gradient jump out of the calm": (
        "corrupt_tokens",
        {"loss": jumped(), "grad_norm": np.where(AFTER, 9.0, 1.0)},
    ),
    "loss no longer falls through a document": (
        "rope_on_keys_only",
        {"age_loss": wide(loss(), 8) * np.where(T[:, None] < 50, np.linspace(1.2, 0.8, 8), 1.0)},
    ),
    "early layers vanish": ("post_ln_depth", {"layer_grad_norm": depth(1e-3, 0.3), "lr": np.minimum(1.0, T / 40.0)}),
    "late layers explode": ("post_ln_depth", {"layer_grad_norm": depth(1.0, 900.0), "lr": np.minimum(1.0, T / 40.0)}),
    "violent without warm-up": (
        "no_warmup",
        {"grad_norm": np.where(T < 3, 1.0, 12.0), "loss": np.where(T < 40, 4.0 + 0.05 * T, 6.0)},
    ),
    "creep, then climb": (
        "high_lr",
        {
            "lr": np.minimum(1.0, T / 40.0),
            "grad_norm": np.exp(np.maximum(0, T - 50) / 25.0),
            "loss": loss() * np.exp(np.maximum(0, T - 75) / 60.0),
        },
    ),
    "climb alone": (
        "high_lr",
        {"lr": np.minimum(1.0, T / 40.0), "loss": loss() * np.exp(np.maximum(0, T - 60) / 50.0)},
    ),
    "NaN out of nothing": ("high_lr", {"loss": np.where(AFTER, np.nan, loss())}),
}  # fmt: skip


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_and_its_cause(picture: str, make_trace: Any) -> None:
    cause, signals = PICTURES[picture]
    alarms = replay(Playbook, make_trace("r", **signals))
    assert alarms.status == "ok"
    assert alarms.first_alarm is not None
    assert alarms.causes[0] == cause
    assert len(alarms.causes) > 1


@pytest.mark.parametrize("picture", [picture for picture in PICTURES if "jump" in picture or "NaN" in picture])
def test_a_jump_is_seen_when_it_comes_and_not_before(picture: str, make_trace: Any) -> None:
    alarms = replay(Playbook, make_trace("r", **PICTURES[picture][1]))
    assert alarms.first_alarm is not None
    assert ONSET <= alarms.first_alarm <= ONSET + 12


@pytest.mark.parametrize("seed", range(20))
def test_a_healthy_run_is_left_alone(seed: int, make_trace: Any) -> None:
    for profile in ("full", "common", "standard", "minimal", "filtered"):
        assert replay(Playbook, make_trace("r", seed=seed), profile).first_alarm is None


def test_a_spike_that_recovers_is_left_alone(make_trace: Any) -> None:
    spiked = loss()
    spiked[ONSET] *= 3.0
    norms = np.ones(S)
    norms[ONSET] = 20.0
    assert replay(Playbook, make_trace("r", loss=spiked, grad_norm=norms)).first_alarm is None


def test_a_loss_of_exactly_zero_is_a_hidden_nan(make_trace: Any) -> None:
    trace = make_trace("r", loss=np.where(AFTER, np.nan, loss()))
    alarms = replay(Playbook, trace, "filtered")
    assert alarms.first_alarm == 69
    assert alarms.causes[0] == "high_lr"


def test_a_skipped_step_is_routine(make_trace: Any) -> None:
    skipped, norms = np.zeros(S), np.ones(S)
    skipped[ONSET], norms[ONSET] = 1.0, math.inf
    assert replay(Playbook, make_trace("r", skipped=skipped, grad_norm=norms)).first_alarm is None
    assert replay(Playbook, make_trace("r", grad_norm=norms)).first_alarm == ONSET


def test_logits_beyond_fp16_were_not_computed_in_it(make_trace: Any) -> None:
    trace = make_trace("r", attention_logit_max=np.full((S, 2), 1e5))
    assert replay(Playbook, trace).first_alarm is None


def test_the_rules_name_causes_of_the_catalogue_and_say_why() -> None:
    catalogue = {entry.id for entry in scenarios().values() if entry.has_signature}
    assert set(Playbook.causes) == {cause for rule in RULES for cause in (rule.cause, *rule.then)} <= catalogue
    for rule in RULES:
        assert rule.says
        assert rule.source in Playbook.source
        assert rule.hold >= 1
        assert rule.cause not in rule.then
        assert set(rule.reads) <= set(Playbook.signals)


def test_the_score_is_one_or_more_exactly_at_alarms(make_trace: Any) -> None:
    for cause_and_signals in PICTURES.values():
        alarms = replay(Playbook, make_trace("r", **cause_and_signals[1]))
        assert ((alarms.scores >= 1.0) == alarms.alarm).all()


def first(make_trace: Any, **signals: np.ndarray) -> tuple[int | None, tuple[str, ...]]:
    alarms = replay(Playbook, make_trace("r", **signals))
    return alarms.first_alarm, alarms.causes


def test_heads_are_alike_in_every_run_that_has_learnt_nothing_yet(make_trace: Any) -> None:
    assert first(make_trace, head_entropy=np.full((S, 4), 2.5), loss=np.full(S, 4.0)) == (None, ())


def test_a_trace_of_attention_on_itself_is_none(make_trace: Any) -> None:
    assert first(make_trace, attention_mass_self=np.full((S, 2), 1e-8))[1][0] == "mask_off_by_one"
    assert first(make_trace, attention_mass_self=np.full((S, 2), 1e-3)) == (None, ())


def test_attention_that_moves_with_the_data_accuses_the_data(make_trace: Any) -> None:
    distance = wide(np.where(AFTER, 14.0, 8.0), 2)
    _, causes = first(make_trace, loss=jumped(), token_entropy=np.where(AFTER, 4.1, 3.2), attention_distance=distance)
    assert causes[0] == "corrupt_tokens"
    assert "rope_wrong_offset" not in causes


def test_a_creeping_gradient_is_seen_before_the_loss_has_climbed_far(make_trace: Any) -> None:
    climb = loss() * np.exp(np.maximum(0, T - 75) / 120.0)
    creep = np.exp(np.maximum(0, T - 60) / 60.0)
    with_creep, causes = first(make_trace, loss=climb, grad_norm=creep)
    without, _ = first(make_trace, loss=climb)
    assert causes[0] == "high_lr"
    assert with_creep is not None
    assert without is not None
    assert with_creep < without


def test_a_gradient_that_creeps_far_needs_no_loss(make_trace: Any) -> None:
    step, causes = first(make_trace, grad_norm=np.exp(np.maximum(0, T - 50) / 8.0))
    assert step is not None
    assert causes[0] == "high_lr"
    assert first(make_trace, grad_norm=np.where(AFTER, 6.0, 1.0)) == (None, ())  # a jump is no creep


def test_no_loss_no_climb(make_trace: Any) -> None:
    trace = make_trace("r", grad_norm=np.exp(np.maximum(0, T - 50) / 40.0))
    del trace.signals["loss"]
    assert replay(Playbook, trace).first_alarm is None


def test_a_hair_in_a_constant_input_is_no_surprise(make_trace: Any) -> None:
    _, causes = first(make_trace, loss=jumped(), token_entropy=np.where(AFTER, 3.22, 3.2))
    assert causes[0] != "corrupt_tokens"


def test_three_blocks_have_no_depth(make_trace: Any) -> None:
    assert first(make_trace, layer_grad_norm=np.tile([1.0, 1e-4, 1e-2, 1.0, 1.0], (S, 1))) == (None, ())


def test_a_violent_start_with_a_warm_up_is_not_for_want_of_one(make_trace: Any) -> None:
    _, signals = PICTURES["violent without warm-up"]
    assert first(make_trace, **signals)[1][0] == "no_warmup"
    assert first(make_trace, **signals, lr=np.minimum(1.0, (T + 1) / 40.0))[1][0] != "no_warmup"


def test_a_broken_weight_is_enough(make_trace: Any) -> None:
    assert first(make_trace, nonfinite_weights=np.where(AFTER, 3.0, 0.0)) == (
        ONSET,
        ("high_lr", "corrupt_tokens", "post_ln_depth", "fp16_attention_overflow"),
    )
