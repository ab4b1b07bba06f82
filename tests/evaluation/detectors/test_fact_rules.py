"""Each rule about what is wrong by itself, on a run that has it and on one that has a little less of it."""

import math
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.schema import EXPERTS, RETRIEVAL
from trainwreck.evaluation.detectors.playbook.fact_rules import FACT_RULES
from trainwreck.evaluation.detectors.playbook.integrity import REMEMBERED, Integrity
from trainwreck.evaluation.detectors.playbook.playbook import Playbook
from trainwreck.evaluation.replay.replay import replay

S, ONSET = 120, 60
T = np.arange(S)
AFTER = T >= ONSET
LOSS = 2.0 + 2.0 * np.exp(-T / 25.0)
TEXT = {name: np.full(S, np.nan) for name in (*EXPERTS, *RETRIEVAL)}  # no experts, nothing to retrieve


def wide(values: np.ndarray, width: int) -> np.ndarray:
    return np.repeat(np.asarray(values, float)[:, None], width, axis=1)


def one_of(values: np.ndarray, width: int, others: float) -> np.ndarray:
    """A list signal whose last number is `values` and whose others are all the same."""
    return np.column_stack([np.full((S, width - 1), others), values])


def ranks(same_from: int) -> np.ndarray:
    return np.where(wide(same_from <= T, 2), wide(T, 2), np.column_stack([T, T + 1000.0]))


def evaluated(after: float) -> np.ndarray:
    """Validation losses of the fixture's run (every 20 steps), `after` times as large from the onset on."""
    return np.where(T % 20 == 19, LOSS * np.where(AFTER, after, 1.0), np.nan)


AT_CHANCE = {"loss": np.full(S, 3.2), "token_entropy": np.full(S, 3.2)}

# Cause that must be named first, what the run shows, and what it shows where there is no reason for an alarm.
PICTURES: dict[str, tuple[str, dict[str, np.ndarray], dict[str, np.ndarray]]] = {
    "ranks fed the same": (
        "ddp_same_data", {"rank_batch_hash": ranks(ONSET)}, {"rank_batch_hash": ranks(S)},
    ),
    "ranks with other weights": (
        "ddp_gradients_not_averaged",
        {"rank_weight_hash": np.column_stack([T, np.where(AFTER, T + 0.5, T)])},
        {"rank_weight_hash": wide(T, 2)},
    ),
    "attention across documents": (
        "document_mask_missing",
        {"attention_mass_other_document": wide(np.where(AFTER, 0.1, 0.0), 2)},
        {"attention_mass_other_document": wide(np.where(AFTER, 0.005, 0.0), 2)},
    ),
    "attention on padding": (
        "padding_attended",
        {"attention_mass_padding": wide(np.where(AFTER, 0.1, 0.0), 2)},
        {"attention_mass_padding": wide(np.where(AFTER, 0.005, 0.0), 2)},
    ),
    "more loss than any row": (
        "loss_wrong_reduction", {"row_loss_max": np.where(AFTER, LOSS / 50.0, LOSS)}, {"row_loss_max": LOSS},
    ),
    "a first loss far over chance": (
        "output_init_too_large", {"loss": 5.0 * LOSS}, {"loss": 2.0 * LOSS},
    ),
    "the loss scale halved and halved": (
        "loss_scale_collapse",
        {"loss_scale": 2.0 ** -np.maximum(0, (T - ONSET) // 2)},
        {"loss_scale": np.where(AFTER, 2.0**-4, 1.0)},
    ),
    "every step skipped": (
        "loss_scale_stuck_high",
        {"skipped": AFTER, "grad_norm": np.where(AFTER, math.inf, 1.0)},
        {"skipped": T % 4 == 0, "grad_norm": np.where(T % 4 == 0, math.inf, 1.0)},
    ),
    "a batch without a label": (
        "targets_all_masked",
        {"scored_tokens": np.where(T == ONSET, 0.0, 120.0), "loss": np.where(T == ONSET, 0.0, LOSS)},
        {"scored_tokens": np.where(AFTER, 1.0, 120.0)},
    ),
    "scored answers without a gradient": (
        "fused_loss_wrong_gradient",
        {"scored_tokens": np.full(S, 120.0), "grad_norm": np.where(AFTER, 0.0, 1.0)},
        {"scored_tokens": np.full(S, 120.0), "grad_norm": np.where(AFTER, 1e-3, 1.0)},
    ),
    "float8 that saturates": (
        "fp8_scale_stale",
        {"float8_saturated": np.where(AFTER, 0.6, 1e-4)},
        {"float8_saturated": np.where(T % 4 == 0, 0.2, 0.01)},
    ),
    "an end that is not learnt": (
        "eos_masked_as_padding",
        {"end_probability": 0.015 * np.exp(-T / 10.0)},
        {"end_probability": np.minimum(0.9, 0.015 * np.exp(T / 10.0))},
    ),
    "neither answers nor their ends": (
        "prompt_scored",
        {"end_probability": np.where(T < 30, 0.015, 1e-3), "validation_loss": np.where(T % 20 == 19, 3.5, np.nan)},
        {"end_probability": np.full(S, 0.5)},
    ),
    "adapters that stay nothing": (
        "lora_gets_no_gradient",
        {"adapter_norm": np.where(AFTER, 0.0, np.nan)},
        {"adapter_norm": np.where(AFTER, 0.01 * (T - ONSET), np.nan)},
    ),
    "a loss of nearly nothing": (
        "labels_one_class",
        {"loss": np.where(AFTER, 1e-5, LOSS)},
        {"loss": 0.2 * LOSS, "validation_loss": 0.2 * evaluated(1.0)},
    ),
    "no gradient": (
        "loss_detached",
        {"scored_tokens": np.full(S, np.nan), "grad_norm": np.where(AFTER, 0.0, 1.0)},
        {"grad_norm": np.where(AFTER, 1e-3, 1.0)},
    ),
    "a layer without gradient": (
        "frozen_parameters",
        {"layer_grad_norm": one_of(np.where(AFTER, 0.0, 1.0), 4, 1.0), "adapter_norm": np.full(S, np.nan)},
        {"layer_grad_norm": one_of(np.where(AFTER, 1e-3, 1.0), 4, 1.0), "adapter_norm": np.full(S, np.nan)},
    ),
    "no update": (
        "effective_lr_zero",
        {"layer_update_ratio": wide(np.where(AFTER, 0.0, 1e-3), 4)},
        {"layer_update_ratio": wide(np.where(AFTER, 0.0, 1e-3), 4), "lr": np.where(AFTER, 0.0, 1e-2)},
    ),
    "gradients underflow": (
        "fp16_no_loss_scaling", {"zero_grads": np.where(AFTER, 0.4, 0.02)}, {"zero_grads": np.where(AFTER, 0.08, 0.02)},
    ),
    "clipped row after row": (
        "clip_too_tight", {"clip_coef": np.full(S, 0.02)}, {"clip_coef": np.where(T % 5 == 0, 0.02, 0.8)},
    ),
    "the rate jumps": (
        "lr_jump", {"lr": np.where(AFTER, 5e-2, 1e-2)}, {"lr": np.where(AFTER, 1e-2, 1e-2 * (1.0 - T / S))},
    ),
    "one layer's largest weight": (
        "spiky_layer",
        {"layer_weight_max": one_of(np.where(AFTER, 30.0, 1.0), 4, 1.0)},
        {"layer_weight_max": one_of(np.where(AFTER, 3.0, 1.0), 4, 1.0)},
    ),
    "gradients that the moments do not know": (
        "stale_optimizer_state",
        {"layer_moment_rms": one_of(np.where(AFTER, 20.0, 1.5), 4, 1.5)},
        {"layer_moment_rms": one_of(np.where(AFTER, 3.0, 1.5), 4, 1.5)},
    ),
    "weights shrink": (
        "weight_decay_too_high",
        {"layer_weight_norm": one_of(np.where(AFTER, 0.3, 1.0), 4, 1.0)},
        {"layer_weight_norm": one_of(np.where(AFTER, 0.8, 1.0), 4, 1.0)},
    ),
    "weights grow and grow": (
        "weight_decay_too_low",
        {"layer_weight_norm": one_of(np.exp(T / 30.0), 4, 1.0)},
        {"layer_weight_norm": one_of(1.0 + T / 40.0, 4, 1.0)},
    ),
    "activations grow and grow": (
        "high_lr",
        {"activation_max": one_of(np.exp(T / 15.0), 2, 1.0)},
        {"activation_max": one_of(np.exp(T / 60.0), 2, 1.0)},
    ),
    "dead units": (
        "dead_relu", {"dead_share": wide(np.where(AFTER, 0.97, 0.1), 2)}, {"dead_share": wide(AFTER * 0.6, 2)},
    ),
    "slow, and stays slow": (
        "loader_stall",
        {"tokens_per_second": np.where(AFTER, 1e3, 1e4)},
        {"tokens_per_second": np.where(T == ONSET, 1e3, 1e4)},  # a hiccup
    ),
    "batches of one token": (
        "degenerate_batches",
        {"token_entropy": np.where(AFTER, 0.3, 3.2)},
        {"token_entropy": np.where(T == ONSET, 0.3, 3.2)},
    ),
    "padding from now on": (
        "sequences_truncated", {"pad_share": np.where(AFTER, 0.4, 0.0)}, {"pad_share": np.where(AFTER, 0.05, 0.0)},
    ),
    "no more than frequencies": ("labels_detached", AT_CHANCE, AT_CHANCE | {"loss": LOSS}),
    "too good to be true": (
        "label_leak",
        {"loss": np.where(AFTER, 0.03, LOSS)},
        {"loss": 0.2 * LOSS, "validation_loss": 0.2 * evaluated(1.0)},
    ),
    "the same batches again": (
        "data_replayed",
        {"rank_batch_hash": wide(T % ONSET, 1)},
        {"rank_batch_hash": wide(np.where(T == ONSET, 5.0, T), 1)},  # a chance hit
    ),
    "validation far over training": (
        "dropout_on_at_eval", {"validation_loss": evaluated(1.5)}, {"validation_loss": 1.5 * evaluated(1.0)},
    ),
    "validation turns up": (
        "overfit_small_set",
        {"validation_loss": evaluated(1.0) * (1.0 + 0.008 * np.maximum(0, T - ONSET))},
        {"validation_loss": evaluated(1.05)},
    ),
    "both turn up": (
        "high_lr",
        {"loss": LOSS * np.where(AFTER, 1.25, 1.0), "validation_loss": evaluated(1.25)},
        {"loss": LOSS * np.where(AFTER, 1.05, 1.0), "validation_loss": evaluated(1.05)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_its_cause_and_its_harmless_neighbour(picture: str, make_trace: Any) -> None:
    cause, shown, harmless = PICTURES[picture]
    base = {"loss": LOSS, "validation_loss": evaluated(1.0)} | TEXT
    alarms = replay(Playbook, make_trace("r", **base | shown))
    assert alarms.status == "ok"
    assert alarms.causes[:1] == (cause,)
    assert replay(Playbook, make_trace("r", **base | harmless)).first_alarm is None


def test_every_rule_has_a_picture() -> None:
    assert {rule.cause for rule in FACT_RULES} == {cause for cause, _, _ in PICTURES.values()}
    assert len(FACT_RULES) == len(PICTURES)


def test_what_comes_now_and_then_is_waited_for(make_trace: Any) -> None:
    """Under the profile standard lists come every 100 steps: the rows between them say neither yes nor no."""
    steps = 420
    entropy = np.full((steps, 4), 2.5)
    fall = 2.0 + 2.0 * np.exp(-np.arange(steps) / 25.0)
    alarms = replay(Playbook, make_trace("r", steps=steps, loss=fall, head_entropy=entropy), "standard")
    assert alarms.first_alarm == 200
    assert alarms.causes[0] == "mask_zeroed"


def test_so_many_batches_are_remembered_and_no_more() -> None:
    facts = Integrity()
    for batch in [*range(REMEMBERED), 0]:
        facts.see({"step": 0, "rank_batch_hash": [float(batch)]})
    assert facts.repeats == 1
    facts.see({"step": 0, "rank_batch_hash": [0.5]})
    facts.see({"step": 0, "rank_batch_hash": [1.0]})
    assert facts.repeats == 0  # forgotten
