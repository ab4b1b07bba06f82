"""The profile `trainer`: at every step the signals that the usual trainer of a run's objective logs.

next_token, retrieval, modalities  Transformers' Trainer (5.23.0): loss, grad_norm, learning_rate, eval_loss
transcription  its Seq2SeqTrainer, as for speech: the same
decoding     Seq2SeqTrainer: the same, and its eval_loss is of true tokens, which is `forced_loss`
preferences  TRL's DPOTrainer (1.16.0): these three of training; rewards/chosen, rewards/rejected and rewards/margins
             (beta times `chosen_logp`, `rejected_logp`, `margin`), rewards/accuracies; of an evaluation logps/chosen
             and logps/rejected, which are the held-out losses of right and wrong answers times their tokens. Of a sum
             of losses it logs the sum: no `dpo_loss`
policy       TRL's GRPOTrainer (1.16.0): these three of training; reward, kl, entropy, clip_ratio/region_mean,
             completions/mean_length, frac_reward_zero_std. PPOTrainer, which TRL had before, logs objective/scores,
             objective/kl, policy/entropy_avg, policy/clipfrac_avg, loss/value_avg and lr (its documentation,
             `ppo_trainer.md`); of what its values explain it logs nothing. The true reward is not known to a trainer,
             on held-out prompts neither; the sampler is compared with vLLM alone
diffusion    the training examples of diffusers (`examples/text_to_image/train_text_to_image.py`): train_loss, lr

`kl` is shown where its coefficient is 0, too: PPOTrainer logs it then, GRPOTrainer does not, and its absence would
give the setting away. Trainers log means of some steps or every step (`logging_steps`, 10 by default in TRL, 1 in
diffusers' examples); here it is every step, so that runs on next tokens have the rows of `common`.
"""

import json
from typing import TYPE_CHECKING

from trainwreck.evaluation.constants import COMMON_SIGNALS
from trainwreck.evaluation.dataset.runs_table import objective_of
from trainwreck.evaluation.dataset.schema import step_of

if TYPE_CHECKING:
    from trainwreck.evaluation.replay.logged.visible import Labels

TRAINED = ("loss", "grad_norm", "lr")
LOGGED_BY_TRAINER: dict[str, tuple[str, ...]] = {
    "decoding": (*TRAINED, "forced_loss"),
    "preferences": (
        *COMMON_SIGNALS, "margin", "chosen_logp", "rejected_logp", "preference_accuracy", "validation_rejected_loss",
    ),
    "policy": (
        *TRAINED, "reward", "kl", "policy_entropy", "clip_share", "answer_length", "groups_without_variance",
        "value_loss",
    ),
    "diffusion": ("loss", "lr"),
}  # fmt: skip
"""Objective to the signals that its trainer logs; any other's are `COMMON_SIGNALS`."""


def signals_of(objective: str) -> tuple[str, ...]:
    """What the usual trainer of an objective logs; of one that is not known, what most logs have.

    >>> signals_of("diffusion"), signals_of("next_token")
    (('loss', 'lr'), ('loss', 'validation_loss', 'grad_norm', 'lr'))
    """
    return LOGGED_BY_TRAINER.get(objective, COMMON_SIGNALS)


def every_signal() -> frozenset[str]:
    """What the trainer of any objective logs."""
    return frozenset(COMMON_SIGNALS).union(*LOGGED_BY_TRAINER.values())


def visible_to_trainer(run: "Labels") -> int | None:
    """The first step at which what is logged shows a run's failure, from its labels; None where it does not.

    Without steps by signal `visible_step` is taken for the loss's.
    """
    steps = json.loads(run["visible_steps"] or "{}")
    if not steps:
        return step_of(run["visible_step"])
    shown = signals_of(objective_of(run["context"]))
    return min((step for name, step in steps.items() if name in shown), default=None)
