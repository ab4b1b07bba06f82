"""The playbook's rules about what is wrong by itself, whatever the curves look like."""

import math

from trainwreck.evaluation.detectors.playbook.evidence import both, either, excess, ratio
from trainwreck.evaluation.detectors.playbook.fall import GIVEN_BACK
from trainwreck.evaluation.detectors.playbook.integrity import NOTHING
from trainwreck.evaluation.detectors.playbook.rules import (
    ADAPTERS,
    CURVES,
    DIVERGENCE,
    FLOAT8,
    GRADIENTS,
    INSTABILITY,
    MASKS,
    SYMPTOMS,
    TRAINING,
    Rule,
    Seen,
)

CERTAIN = 2.0  # the strength of what is either so or not


def _certain(so: bool) -> float:
    return CERTAIN if so else 0.0


def _same_batch(s: Seen) -> float:
    return _certain(s.facts.same_batch == 1.0)


def _weights_differ(s: Seen) -> float:
    return _certain(s.facts.weights_differ == 1.0)


def _batches_again(s: Seen) -> float:
    return _certain(s.facts.repeats > 0)


def _other_documents(s: Seen) -> float:
    return s.facts.other_document / 0.01


def _padding_attended(s: Seen) -> float:
    return s.facts.padding_mass / 0.01


def _more_than_its_rows(s: Seen) -> float:
    return excess(s.facts.loss_over_rows, 0.5)


def _far_over_chance(s: Seen) -> float:
    return s.facts.first_loss_over_entropy / 4.0


def _scale_gone(s: Seen) -> float:
    return math.log2(s.facts.scale) / 8.0 if s.facts.scale > 0.0 else math.nan


def _always_skipped(s: Seen) -> float:
    return s.facts.skips / 6.0


def _nothing_comes_back(s: Seen) -> float:
    return _certain(s.facts.grad < NOTHING)


def _some_get_nothing(s: Seen) -> float:
    if not math.isnan(s.facts.adapters):  # beside adapters the rest is frozen on purpose
        return 0.0
    return _certain(0 < s.facts.silent_layers < s.facts.layers)


def _adapters_stay_nothing(s: Seen) -> float:
    return _certain(s.facts.adapters == 0)


def _saturated(s: Seen) -> float:
    return s.facts.saturated / 0.1


def _underflows(s: Seen) -> float:
    return 0.0 if s.routed.seen else s.facts.zero_grads / 0.12  # an expert without tokens has no gradient


def _nothing_moves(s: Seen) -> float:
    return _certain(s.facts.update < NOTHING and s.facts.lr > 0.1 * s.facts.peak_lr and not s.facts.skips)


def _clipped_away(s: Seen) -> float:
    return 0.0 if s.retrieved.seen else ratio(0.2, s.facts.clip.value)  # the norm of two losses begins large


def _rate_jumped(s: Seen) -> float:
    return excess(s.facts.lr_rise, 1.0)


def _one_layer_apart(s: Seen) -> float:
    return 0.0 if s.routed.seen else s.facts.weight_apart / 6.0  # a router's weights have a scale of their own


def _moment_behind(s: Seen) -> float:
    return s.facts.moment / 6.0


def _weights_run_away(s: Seen) -> float:
    return s.facts.weights_grown / 12.0


def _weights_shrink(s: Seen) -> float:
    return ratio(0.6, s.facts.weights_left)


def _activations_run_away(s: Seen) -> float:
    return s.facts.activation / 400.0


def _units_dead(s: Seen) -> float:
    return s.facts.dead / 0.9


def _throughput_fell(s: Seen) -> float:
    return ratio(0.4, s.facts.throughput.jump)


def _one_token(s: Seen) -> float:
    return ratio(0.5, s.facts.entropy.jump)


def _padded_more(s: Seen) -> float:
    return (s.facts.padding.value - s.facts.padding.before) / 0.1


def _at_chance(s: Seen) -> float:
    return s.facts.at_entropy / (0.7 * s.facts.rows) if s.facts.rows >= 12 else 0.0


def _all_but_nothing(s: Seen) -> float:
    return 0.0 if s.retrieved.seen else ratio(2.5e-4 * s.facts.first_loss, s.facts.loss)


def _too_good(s: Seen) -> float:
    if s.retrieved.seen:  # what stands in a passage is copied, in the end without a loss
        return 0.0
    return either(
        ratio(0.01 * s.facts.first_loss, s.facts.train.value), ratio(0.03 * s.facts.entropy.level, s.facts.train.value)
    )


def _better_in_training(s: Seen) -> float:
    return both(s.facts.kept, s.facts.kept_at_once) / 0.12


def _nothing_scored(s: Seen) -> float:
    return _certain(s.facts.scored == 0)


def _scored_in_vain(s: Seen) -> float:
    return _certain(s.facts.scored > 0 and s.facts.grad < NOTHING)


def _end_never_comes(s: Seen) -> float:
    """The training loss has fallen to 0.6 of its first value, and an end is no more likely than one in a hundred."""
    return ratio(0.01, s.facts.end) if s.facts.train.value < 0.6 * s.facts.first_loss else 0.0


def _end_alone_is_missing(s: Seen) -> float:
    return 0.0 if s.facts.validated > 0.6 * s.facts.first_loss else _end_never_comes(s)


def _answers_are_missing(s: Seen) -> float:
    return _end_never_comes(s) if s.facts.validated > 0.7 * s.facts.first_loss else 0.0


def _validation_alone_rises(s: Seen) -> float:
    return _validation_rises(s) if s.facts.train.value <= s.facts.train_best else 0.0


def _validation_rises(s: Seen) -> float:
    return s.facts.validation.given_back / GIVEN_BACK


FACT_RULES: tuple[Rule, ...] = (
    Rule(
        "ddp_same_data", 1, _same_batch,
        "every rank gets the same batch",
        TRAINING, ("data_replayed",), ("rank_batch_hash",),
    ),
    Rule(
        "ddp_gradients_not_averaged", 1, _weights_differ,
        "the ranks' weights are not the same: gradients are not averaged correctly",
        INSTABILITY, (
            "ddp_stale_gradients", "ddp_loss_scale_inconsistent", "replicas_out_of_sync", "clip_norm_per_shard",
        ), ("rank_weight_hash",),
    ),
    Rule(
        "document_mask_missing", 1, _other_documents,
        "attention crosses into other documents of the row",
        CURVES, ("padding_attended",), ("attention_mass_other_document",),
    ),
    Rule(
        "padding_attended", 1, _padding_attended,
        "attention on padding",
        INSTABILITY, ("document_mask_missing",), ("attention_mass_padding",),
    ),
    Rule(
        "loss_wrong_reduction", 1, _more_than_its_rows,
        "the loss is larger than that of any row of the batch: a sum where a mean belongs",
        TRAINING, ("grad_accumulation_unscaled",), ("row_loss_max",),
    ),
    Rule(
        "output_init_too_large", 1, _far_over_chance,
        "the first loss is several times what a guess would have",
        TRAINING, ("init_too_large", "loss_wrong_reduction"),
    ),
    Rule(
        "loss_scale_collapse", 2, _scale_gone,
        "the loss scale was halved eight times and more",
        INSTABILITY, ("fp16_no_loss_scaling",), ("loss_scale",),
    ),
    Rule(
        "loss_scale_stuck_high", 2, _always_skipped,
        "one step after the other is skipped: every gradient overflows",
        INSTABILITY, ("loss_scale_collapse",), ("skipped",),
    ),
    Rule(
        "fp8_scale_stale", 3, _saturated,
        "a tenth of a matrix or of what enters it is beyond what float8 holds: its scales are not those of the values",
        FLOAT8, ("high_lr",), ("float8_saturated",),
    ),
    Rule(
        "targets_all_masked", 1, _nothing_scored,
        "no target of the batch is scored",
        MASKS, ("loss_detached",), ("scored_tokens",),
    ),
    Rule(
        "fused_loss_wrong_gradient", 1, _scored_in_vain,
        "answers are scored, and the gradient is exactly zero: it is not that of the loss",
        GRADIENTS, ("loss_detached", "targets_all_masked"), ("grad_norm", "scored_tokens"),
    ),
    Rule(
        "prompt_scored", 4, _answers_are_missing,
        "the training loss falls, the validation loss does not, and where an answer ends no end is expected",
        MASKS, ("eos_masked_as_padding",), ("end_probability",),
    ),
    Rule(
        "eos_masked_as_padding", 4, _end_alone_is_missing,
        "the loss falls, and where an answer ends no end is expected",
        MASKS, ("prompt_scored",), ("end_probability",),
    ),
    Rule(
        "labels_one_class", 2, _all_but_nothing,
        "the loss is all but zero: there is nothing to tell apart",
        TRAINING, ("label_leak", "degenerate_batches"),
    ),
    Rule(
        "loss_detached", 2, _nothing_comes_back,
        "the gradient is exactly zero: the loss is cut off from the model",
        TRAINING, ("labels_one_class", "effective_lr_zero"), ("grad_norm",),
    ),
    Rule(
        "lora_gets_no_gradient", 4, _adapters_stay_nothing,
        "adapters are on, and their second matrices are still exactly 0 after several steps",
        ADAPTERS, ("loss_detached", "effective_lr_zero"), ("adapter_norm",),
    ),
    Rule(
        "frozen_parameters", 1, _some_get_nothing,
        "no gradient at all reaches some of the layers",
        TRAINING, ("residual_bypassed", "vanishing_depth"), ("layer_grad_norm",),
    ),
    Rule(
        "effective_lr_zero", 2, _nothing_moves,
        "there is a gradient and a learning rate, and no weight moves",
        CURVES, ("frozen_parameters", "bf16_weight_rounding"), ("layer_update_ratio",),
    ),
    Rule(
        "fp16_no_loss_scaling", 4, _underflows,
        "many gradients are exactly zero: they underflow, or part of the model is cut off",
        DIVERGENCE, ("frozen_parameters", "value_projection_zeroed", "projections_frozen"), ("zero_grads",),
    ),
    Rule(
        "clip_too_tight", 6, _clipped_away,
        "the gradient norm is stuck far over the clipping threshold, row after row",
        TRAINING, ("output_init_too_large", "norm_bias_shifted"), ("clip_coef",),
    ),
    Rule(
        "lr_jump", 1, _rate_jumped,
        "the learning rate, done rising, rises far over its peak",
        TRAINING, ("schedule_restarted", "high_lr"), ("lr",),
    ),
    Rule(
        "spiky_layer", 2, _one_layer_apart,
        "the largest weight of one layer is far over that of its neighbours",
        CURVES, ("output_init_too_large", "norm_bias_shifted"), ("layer_weight_max",),
    ),
    Rule(
        "stale_optimizer_state", 2, _moment_behind,
        "gradients far over what the optimizer remembers: its second moment is of another step, or underflowed",
        INSTABILITY, ("fp16_adam_state", "optimizer_state_lost"), ("layer_moment_rms",),
    ),
    Rule(
        "weight_decay_too_high", 2, _weights_shrink,
        "the weights of some layer shrink to a part of what they were",
        TRAINING, ("weight_decay_on_all",), ("layer_weight_norm",),
    ),
    Rule(
        "weight_decay_too_low", 2, _weights_run_away,
        "the weights of some layer grow without bound",
        TRAINING, ("high_lr", "adam_beta2_low"), ("layer_weight_norm",),
    ),
    Rule(
        "high_lr", 2, _activations_run_away,
        "activations hundreds of times what they began with",
        INSTABILITY, ("adam_beta2_low", "clip_too_loose"), ("activation_max",),
    ),
    Rule(
        "dead_relu", 4, _units_dead,
        "nearly all hidden units of a layer are dead",
        TRAINING, ("high_lr", "lr_jump"), ("dead_share",),
    ),
    Rule(
        "loader_stall", 3, _throughput_fell,
        "throughput fell to a fraction and stays there",
        CURVES, ("sequences_truncated", "sequence_length_explosion"), ("tokens_per_second",),
    ),
    Rule(
        "degenerate_batches", 3, _one_token,
        "the token entropy of the batches fell to half and less",
        CURVES, ("clipping_off", "corrupt_tokens"), ("token_entropy",),
    ),
    Rule(
        "sequences_truncated", 4, _padded_more,
        "far more padding than before",
        INSTABILITY, ("token_to_empty",), ("pad_share",),
    ),
    Rule(
        "labels_detached", 2, _at_chance,
        "the loss stays at the entropy of the tokens: nothing but their frequencies is learnt",
        TRAINING, ("lr_too_low", "post_ln_depth", "high_lr"), ("token_entropy",),
    ),
    Rule(
        "label_leak", 4, _too_good,
        "the loss is too good to be true: the answer is in the input",
        INSTABILITY, ("mask_missing", "mask_off_by_one", "overfit_small_set"),
    ),
    Rule(
        "data_replayed", 3, _batches_again,
        "batches that were there before come again, one after the other",
        TRAINING, ("unshuffled_epochs", "overfit_small_set"), ("rank_batch_hash",),
    ),
    Rule(
        "dropout_on_at_eval", 2, _better_in_training,
        "validation far over training loss",
        TRAINING, ("overfit_small_set", "eval_mode_in_training", "label_leak"), ("validation_loss",),
    ),
    Rule(
        "overfit_small_set", 1, _validation_alone_rises,
        "validation loss rises from its least, and the training loss less or not at all",
        CURVES, ("data_replayed", "validation_leak", "ema_misused"), ("validation_loss",),
    ),
    Rule(
        "high_lr", 1, _validation_rises,
        "validation loss rises from its least, and the training loss with it",
        SYMPTOMS, ("corrupt_tokens", "catastrophic_forgetting", "stale_optimizer_state"), ("validation_loss",),
    ),
)  # fmt: skip
