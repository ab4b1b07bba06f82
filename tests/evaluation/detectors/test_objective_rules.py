"""Each rule about another objective or about routers, on a run that has it and on one with a little less of it."""

import math
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.schema import DECODING, DENOISING, EXPERTS, OF_OBJECTIVES, PAIRED, RETRIEVAL
from trainwreck.evaluation.detectors.playbook.objective_rules import OBJECTIVE_RULES
from trainwreck.evaluation.detectors.playbook.playbook import Playbook
from trainwreck.evaluation.replay.replay import replay

Signals = dict[str, np.ndarray]

S, ONSET, EVERY = 120, 60, 10
T = np.arange(S)
AFTER, EVALUATED = T >= ONSET, T % EVERY == EVERY - 1
LOSS = 2.0 + 2.0 * np.exp(-T / 25.0)
RISE = np.clip((T - ONSET) / 40, 0, 1)


def evaluated(signals: Signals) -> Signals:
    """At evaluations alone."""
    return {name: np.where(EVALUATED, values, np.nan) for name, values in signals.items()}


def turned(before: Any, after: Any) -> np.ndarray:
    """One level, and from the onset on another."""
    return np.where(AFTER, after, before) + 0.0 * T


def decoded(**over: float) -> Signals:
    """Losses over that on given tokens and gaps from the onset on; 0 where nothing is said."""
    found = {name: over.get(name.removeprefix("free_").removesuffix("_loss"), 0.0) * AFTER for name in DECODING}
    found |= {name: found[name] + LOSS for name in DECODING if name.endswith("_loss")}
    return evaluated(found)


def paired(loss: Any, chosen: Any, rejected: Any) -> Signals:
    """A run on text, and from the onset on on pairs with this loss and these log-probabilities."""
    found = {
        "dpo_loss": loss,
        "margin": np.subtract(chosen, rejected),
        "chosen_logp": chosen,
        "rejected_logp": rejected,
    }
    found["preference_accuracy"] = found["margin"] > 0
    return {name: np.where(AFTER, values, np.nan) for name, values in found.items()}


def prefers(chosen: float, rejected: float) -> Signals:
    """Log-probabilities that end here."""
    return paired(np.log1p(np.exp(-0.1 * (chosen - rejected) * RISE)), chosen * RISE, rejected * RISE)


def routed(balance: float, dropped: float) -> Signals:
    """Loads are uneven at first, as they are in healthy runs, then even; balance loss and drops change at the onset."""
    begins = np.exp(-T / 8.0)
    return {
        "balance_loss": turned(1.1 + begins, balance),
        "expert_dropped": turned(0.05 + 0.3 * begins, dropped),
        "expert_load_entropy": turned(2.6 - begins, 2.0),
        "expert_load_max": turned(0.1 + 0.2 * begins, 0.3),
        "router_logit_norm": turned(40.0, 40.0),
    }


def retrieved(share: float, age: float) -> Signals:
    """An index that is made again every ten steps, and all passages right from the second evaluation on."""
    share_S = turned(np.where(T < EVERY, 0.1, 1.0), share)
    found = {"hit_rate": share_S, "index_age": turned(5.0, age), "hit_loss": LOSS, "miss_loss": 3.0 * LOSS}
    return evaluated(found)


def denoised(early: float, late: float, broken: float, raw: float) -> Signals:
    """Losses of nearly clean and of the noisiest rows, broken rules, and how far the raw weights' loss is off."""
    falls = 3.0 * np.exp(-T / 15.0)
    found = {
        "denoise_early": turned(0.4 + falls, early),
        "denoise_middle": 1.0 + falls,
        "denoise_late": turned(1.3 + falls, late),
        "sample_violations": turned(0.1 + 0.8 * np.exp(-T / 10.0), broken),
        "raw_loss": LOSS + turned(0.1, raw),
    }
    return evaluated(found)


def rewarded(
    kl: float, entropy: float, clipped: float, reward: float, alike: float = 0.0, spread: float = 0.0
) -> Signals:
    """Rewards from step 30 on; a policy that leaves its reference slowly, and changes at the onset.

    alike: share of groups that are rewarded alike from there on. spread: of the reward from step to step, always.
    """
    gain = np.clip((T - 30) / 20, 0, 1)
    found = {
        "kl": turned(0.02 + 0.2 * gain, kl),
        "policy_entropy": turned(2.8 - 0.2 * gain, entropy),
        "clip_share": turned(0.0, clipped),
        "reward": turned(1.5 * gain, reward) + spread / 2 * np.cos(np.pi * T),
        "groups_without_variance": turned(0.0, alike),
    }
    return {name: np.where(T >= 30, values, np.nan) for name, values in found.items()}


def criticised(weight: float, rise: float) -> Signals:
    """Rewards from step 30 on; the coefficient of the value loss and the gradient norm change at the onset."""
    missed = 0.3 + np.exp((30 - T) / 20.0)
    found = {"value_loss": missed, "loss": 0.2 + turned(0.1, weight) * missed, "grad_norm": turned(0.4, 0.4 * rise)}
    found |= rewarded(0.2, 2.5, 0.0, 1.5)
    before = {"value_loss": np.nan, "loss": LOSS, "grad_norm": 1.0}
    return {name: np.where(T >= 30, values, before.get(name, np.nan)) for name, values in found.items()}


DECODES = {
    "kv_cache_leak": (
        decoded(first=3.0, early=3.0, late=3.0, cache_gap=2.0, neighbour_gap=2.0), decoded(neighbour_gap=0.04),
    ),
    "kv_cache_stale": (decoded(first=2.0, early=2.0, late=2.0, cache_gap=1.0), decoded(first=2.0, early=2.0, late=2.0)),
    "kv_cache_off_by_one": (decoded(early=2.0, late=2.0, cache_gap=1.0), decoded(early=0.2, late=0.2, cache_gap=0.04)),
    "kv_cache_truncated": (decoded(late=2.0, cache_gap=0.2), decoded(late=0.2, cache_gap=0.2)),
    "teacher_forcing_mismatch": (decoded(early=1.0, late=3.0), decoded(early=1.0, late=1.8)),
}  # fmt: skip
PREFERS = {
    "dpo_stuck_at_log2": (paired(math.log(2), 0 * RISE, 0 * RISE), prefers(5.0, -40.0)),
    "dpo_chosen_falls": (prefers(-30.0, -90.0), prefers(-4.0, -90.0)),
}
PICTURES = {
    **DECODES,
    **PREFERS,
    "moe_balance_loss_blind": (routed(1.0, 0.5), routed(1.0, 0.2)),
    "moe_router_collapse": (routed(3.0, 0.5), routed(2.0, 0.5)),
    "retrieval_stale_index": (retrieved(0.5, 25.0), retrieved(0.8, 25.0)),
    "diffusion_no_ema": (denoised(0.5, 1.3, 0.1, 0.0), denoised(0.45, 1.3, 0.1, 1e-3)),
    "rl_entropy_runs_away": (rewarded(0.8, 3.6, 0.0, 0.0), rewarded(0.8, 3.1, 0.0, 0.0)),
    "ppo_value_weight_too_high": (criticised(10.0, 20.0), criticised(1.0, 20.0)),
    "ppo_too_many_epochs": (rewarded(0.5, 2.4, 0.2, 0.3), rewarded(0.5, 2.4, 0.2, 0.8)),
    "rlhf_kl_too_weak": (rewarded(2.0, 0.5, 0.0, 4.0), rewarded(1.1, 1.5, 0.0, 2.0)),
    "rlhf_kl_too_strong": (rewarded(0.01, 2.8, 0.0, 0.1), rewarded(0.01, 2.8, 0.0, 0.8)),
    "rl_zero_advantage_groups": (rewarded(0.1, 2.8, 0.0, 1.0, 1.0, 0.3), rewarded(0.1, 2.8, 0.0, 1.0, 0.85, 0.3)),
    "diffusion_timestep_imbalance": (denoised(0.7, 1.4, 0.1, 0.1), denoised(0.7, 2.0, 0.1, 0.1)),
}
OTHER = {
    **PICTURES,
    "samples alone": (denoised(0.4, 1.3, 0.2, 0.1), denoised(0.4, 1.3, 0.12, 0.1)),
    "a task that is solved": (rewarded(0.1, 2.8, 0.0, 1.0, 1.0, 0.3), rewarded(0.1, 2.8, 0.0, 1.5, 1.0, 0.05)),
}  # fmt: skip
OF_OTHER = {"samples alone": "diffusion_timestep_imbalance", "a task that is solved": "rl_zero_advantage_groups"}


def test_every_rule_has_a_picture() -> None:
    assert {rule.cause for rule in OBJECTIVE_RULES} == set(PICTURES)


@pytest.mark.parametrize("name", OTHER)
def test_a_picture_its_cause_and_its_harmless_neighbour(name: str, make_trace: Any) -> None:
    wrong, right = OTHER[name]
    cause = OF_OTHER.get(name, name)
    base = {"loss": LOSS, "validation_loss": np.where(EVALUATED, LOSS, np.nan)}
    alarms = replay(Playbook, make_trace("r", steps=S, **base | wrong))
    assert alarms.causes[:1] == (cause,)
    assert alarms.first_alarm is not None
    assert ONSET <= alarms.first_alarm < S - 20
    assert replay(Playbook, make_trace("r", steps=S, **base | right)).first_alarm is None


def test_the_first_step_on_pairs_has_no_margin_and_is_no_failure(make_trace: Any) -> None:
    right = prefers(5.0, -40.0)
    assert right["margin"][ONSET] == 0.0
    assert right["dpo_loss"][ONSET] == pytest.approx(math.log(2))
    assert replay(Playbook, make_trace("r", steps=S, loss=LOSS, **right)).first_alarm is None


def test_both_falling_without_a_margin_is_not_called_so(make_trace: Any) -> None:
    causes = replay(Playbook, make_trace("r", steps=S, loss=LOSS, **prefers(-30.0, -45.0))).causes
    assert "dpo_chosen_falls" not in causes


def test_a_run_of_text_shows_none_of_them(make_trace: Any) -> None:
    names = (*DECODING, *OF_OBJECTIVES, *PAIRED, *EXPERTS, *RETRIEVAL, *DENOISING)
    causes = replay(
        Playbook, make_trace("r", steps=S, loss=LOSS, **{name: np.full(S, np.nan) for name in names})
    ).causes
    assert not set(causes) & set(PICTURES)


def test_an_average_that_was_never_taken_or_starts_again_is_no_failure(make_trace: Any) -> None:
    never = evaluated({"raw_loss": LOSS})
    once = evaluated({"raw_loss": LOSS + np.where(T == ONSET, 0.0, 0.1)})
    for signals in (never, once):
        base = {"loss": LOSS, "validation_loss": np.where(EVALUATED, LOSS, np.nan)}
        assert replay(Playbook, make_trace("r", steps=S, **base | signals)).first_alarm is None


def test_an_old_index_whose_passages_are_right_is_no_failure(make_trace: Any) -> None:
    assert replay(Playbook, make_trace("r", steps=S, loss=LOSS, **retrieved(1.0, 200.0))).first_alarm is None


def falling(loss: np.ndarray) -> Signals:
    """A loss that is the held-out one too."""
    return {"loss": loss, "validation_loss": np.where(EVALUATED, loss, np.nan)}


WITHOUT = {
    "fp16_no_loss_scaling": (falling(LOSS) | {"zero_grads": turned(0.0, 0.3)}, routed(1.1, 0.05)),
    "clip_too_tight": (falling(LOSS) | {"clip_coef": turned(1.0, 0.1)}, retrieved(1.0, 5.0)),
    "label_leak": (falling(np.maximum(LOSS - 2.0, 0.02)), retrieved(1.0, 5.0)),
    "labels_one_class": (falling(turned(LOSS, 5e-4)), retrieved(1.0, 5.0)),
    "spiky_layer": (
        falling(LOSS) | {"layer_weight_max": np.ones((S, 4)) * [1.0, 9.0, 1.0, 1.0]}, routed(1.1, 0.05),
    ),
}  # fmt: skip


@pytest.mark.parametrize("cause", WITHOUT)
def test_what_is_usual_for_experts_and_for_retrieval_is_no_failure_there(cause: str, make_trace: Any) -> None:
    shown, objective = WITHOUT[cause]
    text = {name: np.full(S, np.nan) for name in (*EXPERTS, *RETRIEVAL)}
    assert cause in replay(Playbook, make_trace("r", steps=S, **text | shown)).causes
    assert cause not in replay(Playbook, make_trace("r", steps=S, **text | shown | objective)).causes


def test_the_loss_of_rewards_is_not_taken_for_one_of_tokens(make_trace: Any) -> None:
    loss = np.where(T >= 30, 1e-5 * np.cos(T), LOSS)
    shown = {"loss": loss, "position_loss": np.repeat(loss[:, None], 8, 1)} | rewarded(0.2, 2.5, 0.0, 1.5)
    text = {name: np.full(S, np.nan) for name in (*rewarded(0.0, 0.0, 0.0, 0.0), *RETRIEVAL)}
    assert replay(Playbook, make_trace("r", steps=S, **shown)).first_alarm is None
    assert replay(Playbook, make_trace("r", steps=S, **shown | text)).first_alarm is not None
    broken = {"loss": np.where(T >= ONSET, np.nan, loss)}
    assert replay(Playbook, make_trace("r", steps=S, **shown | broken)).first_alarm == ONSET


def test_a_critic_whose_weight_leaves_the_gradient_as_it_was_is_no_failure(make_trace: Any) -> None:
    """With weights of its own, any coefficient of its loss is right."""
    for shown, alarms in ((criticised(10.0, 20.0), True), (criticised(10.0, 2.0), False)):
        assert ("ppo_value_weight_too_high" in replay(Playbook, make_trace("r", steps=S, **shown)).causes) is alarms


def test_one_head_is_not_called_alike(make_trace: Any) -> None:
    one, two = (make_trace("r", steps=S, loss=LOSS, head_entropy=np.ones((S, heads))) for heads in (1, 2))
    assert "mask_zeroed" in replay(Playbook, two).causes
    assert "mask_zeroed" not in replay(Playbook, one).causes
