"""The playbook's rules about runs of other objectives, and about routers of experts.

Tokens that a model writes by itself: through a right cache a token has the chances that it has where the whole row is
read at once, beside whatever rows. Where it has not, the place from which on tokens are worse tells the faults of a
cache apart.

Pairs of answers: a margin of exactly 0 is none, since policy and reference are the same on answers, or nothing of them
is scored. A margin grows where the right answer gains, and where it loses less than the wrong one.

Routers, retrieval, diffusion and rewards: thresholds were chosen on seeds from 100 on, none of them a proof's, between
the largest value of healthy runs, early and late, and the least of failing ones; each has both beside it.
"""

import math

from trainwreck.evaluation.detectors.playbook.evidence import both, ratio
from trainwreck.evaluation.detectors.playbook.rules import (
    CACHES,
    CRITICS,
    DIFFUSION,
    EXPOSURE,
    GROUPS,
    INDEXES,
    PAIRS,
    REWARDS,
    ROUTERS,
    Rule,
    Seen,
)

APART = 0.05  # nats between chances that are the same
WORSE = 0.3  # nats over the loss on given tokens
LN_2 = math.log(2.0)
LOST = 5.0  # nats that right answers are under their start
TOLD_APART = 20.0  # nats of margin
UNEVEN = 2.2  # balance loss; for 8 rows with FULL, healthy 0.83 of it at most, failing 1.37 of it at least
FULL = 0.3  # share of tokens that are dropped
EVEN = 1e-3  # of a balance loss to 1; healthy 0.016 at least
DROPPED = 0.25  # share of tokens that even loads would not drop; healthy 0.16 late in a run, failing 0.6
MISSED = 0.3  # share of right passages that are lost; healthy 0, failing 0.58
OUTGROWN = 1.5  # times the largest age of an index that was right; of healthy runs none is over it with such a loss
TIPPED = 1.2  # times the least ratio of losses; healthy 1.15, failing 1.25
WRONGER = 1.25  # times the least share of broken rules; healthy 1.06, failing 1.04 to 1.57
MORE_WRONG = 0.03  # the same as a difference; healthy 0.01
FAR = 1.2  # nats a token from the reference, 8 rows' mean as all of rewards; healthy 0.30, failing 2.0
FLATTER = 0.4  # nats of entropy over the first level; healthy 0, failing 0.85
PULLED_BACK = 0.2  # share of the largest divergence that is left; healthy 0.7, failing 0.02
REWARD_LOST = 1.0  # standard deviation of the text's rewards; healthy 0.57, failing 1.45
CLIPPED = 0.05  # share of tokens past the clip; healthy 0, failing 0.12
ALIKE = 0.9  # share of groups without variance; healthy 0, failing 1
VARIED = 0.1  # standard deviations of the text's rewards between rows; where a task is solved rows are alike, too
OUTWEIGHED = 4.0  # times the value loss that the whole loss is; healthy 1.3, failing 88
JUMPED = 5.0  # times the least gradient norm; healthy 1.8, failing 88
RAW = 2  # evaluations; the first one of an average that starts again is that of the raw weights


def _others_matter(s: Seen) -> float:
    return s.decoded.beside / APART


def _cache_is_off(s: Seen) -> float:
    return 0.0 if s.decoded.beside >= APART else s.decoded.cache / APART


def _off_at_once(s: Seen) -> float:
    return both(_cache_is_off(s), s.decoded.first / WORSE)


def _off_early(s: Seen) -> float:
    return 0.0 if s.decoded.first >= WORSE else both(_cache_is_off(s), s.decoded.early / WORSE)


def _off_late(s: Seen) -> float:
    return 0.0 if s.decoded.early >= WORSE else both(_cache_is_off(s), s.decoded.late / WORSE)


def _goes_astray(s: Seen) -> float:
    return 0.0 if s.decoded.cache >= APART else s.decoded.late - s.decoded.early


def _nothing_preferred(s: Seen) -> float:
    if math.isnan(s.preferred.loss):
        return math.nan
    return float(s.preferred.margin == 0.0 and abs(s.preferred.loss - LN_2) < 1e-4)


def _both_fall(s: Seen) -> float:
    return both(-s.preferred.chosen / LOST, s.preferred.margin / TOLD_APART)


def _few_get_all(s: Seen) -> float:
    return both(s.routed.balance / UNEVEN, s.routed.dropped / FULL)


def _even_and_full(s: Seen) -> float:
    return s.routed.dropped / DROPPED if abs(s.routed.balance - 1.0) < EVEN else 0.0


def _index_behind(s: Seen) -> float:
    return both(s.retrieved.lost / MISSED, s.retrieved.older / OUTGROWN)


def _weights_as_they_are(s: Seen) -> float:
    return s.denoised.raw / RAW


def _clean_rows_forgotten(s: Seen) -> float:
    return 0.0 if s.denoised.raw else s.denoised.clean / TIPPED


def _samples_break_rules(s: Seen) -> float:
    return 0.0 if s.denoised.raw else both(s.denoised.broken / WRONGER, s.denoised.broken_more / MORE_WRONG)


def _flattens(s: Seen) -> float:
    return s.rewarded.entropy_risen / FLATTER


def _far_from_reference(s: Seen) -> float:
    return 0.0 if s.rewarded.entropy_risen >= FLATTER else s.rewarded.kl / FAR


def _pulled_back(s: Seen) -> float:
    return both(ratio(PULLED_BACK, s.rewarded.kl_left), s.rewarded.lost / REWARD_LOST)


def _past_the_clip(s: Seen) -> float:
    return both(s.rewarded.clipped / CLIPPED, s.rewarded.lost / REWARD_LOST)


def _nothing_to_learn_from(s: Seen) -> float:
    return both(s.rewarded.alike / ALIKE, s.rewarded.spread / VARIED)


def _critic_alone(s: Seen) -> float:
    return both(s.criticised.weighed / OUTWEIGHED, s.criticised.norm_risen / JUMPED)


OBJECTIVE_RULES: tuple[Rule, ...] = (
    Rule(
        "kv_cache_leak", 1, _others_matter,
        "a written token's chances hang on the rows beside it: a row reads what another one has cached",
        CACHES, (), ("neighbour_gap",),
    ),
    Rule(
        "kv_cache_stale", 1, _off_at_once,
        "through the cache tokens have other chances than without it, from the first one on: the prompt's part is old",
        CACHES, ("kv_cache_off_by_one",), ("cache_gap",),
    ),
    Rule(
        "kv_cache_off_by_one", 1, _off_early,
        "through the cache the first token is right and the next are not: the index is wrong where writing begins",
        CACHES, ("kv_cache_truncated", "kv_cache_stale"), ("cache_gap",),
    ),
    Rule(
        "kv_cache_truncated", 1, _off_late,
        "through the cache the first tokens are right and late ones are not: it does not hold the whole text",
        CACHES, ("kv_cache_off_by_one",), ("cache_gap",),
    ),
    Rule(
        "teacher_forcing_mismatch", 1, _goes_astray,
        "the cache is right, and the more tokens the model has written the worse they are, by a nat and more",
        EXPOSURE, (), ("free_late_loss",),
    ),
    Rule(
        "dpo_stuck_at_log2", 3, _nothing_preferred,
        "the loss of pairs is ln 2 and their margin 0: answers are masked, or the reference is the policy",
        PAIRS, (), ("dpo_loss",),
    ),
    Rule(
        "dpo_chosen_falls", 3, _both_fall,
        "the margin grows, and right answers are less probable than at their start by five nats and more",
        PAIRS, (), ("chosen_logp",),
    ),
    Rule(
        "moe_balance_loss_blind", 4, _even_and_full,
        "the balance loss says that loads are even, and experts are so full that a quarter of the tokens is dropped",
        ROUTERS, ("moe_router_collapse",), ("balance_loss",),
    ),
    Rule(
        "moe_router_collapse", 8, _few_get_all,
        "few experts get most tokens: the balance loss is over twice that of even loads, and a third is dropped",
        ROUTERS, ("moe_balance_loss_blind",), ("balance_loss",),
    ),
    Rule(
        "retrieval_stale_index", 1, _index_behind,
        "passages are no longer the right ones, and the index is older than any that found them",
        INDEXES, (), ("hit_rate",),
    ),
    Rule(
        "diffusion_no_ema", 1, _weights_as_they_are,
        "the evaluated loss is exactly that of the raw weights, and was that of their average before",
        DIFFUSION, (), ("raw_loss",),
    ),
    Rule(
        "diffusion_timestep_imbalance", 1, _clean_rows_forgotten,
        "the loss of nearly clean rows rises beside that of the noisiest: timesteps do not count alike",
        DIFFUSION, (), ("denoise_early",),
    ),
    Rule(
        "diffusion_timestep_imbalance", 1, _samples_break_rules,
        "samples break rules that they had learnt to keep",
        DIFFUSION, (), ("sample_violations",),
    ),
    Rule(
        "ppo_value_weight_too_high", 1, _critic_alone,
        "the loss is several times the value loss, and the gradient norm its least: the critic outweighs the policy",
        CRITICS, (), ("value_loss",),
    ),
    Rule(
        "rl_entropy_runs_away", 1, _flattens,
        "the policy's entropy is over that of its first answers, and goes on rising: answers become noise",
        REWARDS, ("rlhf_kl_too_weak",), ("policy_entropy",),
    ),
    Rule(
        "ppo_too_many_epochs", 1, _past_the_clip,
        "many tokens are past the clip, and the reward falls: there are too many updates on the same answers",
        REWARDS, (), ("clip_share",),
    ),
    Rule(
        "rlhf_kl_too_weak", 1, _far_from_reference,
        "the policy is over a nat a token away from its reference: rewards are no longer right there",
        REWARDS, ("rl_reward_hacked",), ("kl",),
    ),
    Rule(
        "rlhf_kl_too_strong", 1, _pulled_back,
        "the policy is back at its reference, and what it had gained in reward is lost",
        REWARDS, (), ("kl",),
    ),
    Rule(
        "rl_zero_advantage_groups", 1, _nothing_to_learn_from,
        "answers of a group are all rewarded alike, and those of other groups otherwise: no answer has an advantage",
        GROUPS, (), ("groups_without_variance",),
    ),
)  # fmt: skip
