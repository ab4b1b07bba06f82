"""The playbook's rules about the shape of the curves."""

import math

from trainwreck.evaluation.detectors.base import LARGEST_SCORE
from trainwreck.evaluation.detectors.playbook.evidence import both, either, ratio
from trainwreck.evaluation.detectors.playbook.fall import CLEAR, GIVEN_BACK
from trainwreck.evaluation.detectors.playbook.rules import CURVES, INSTABILITY, SYMPTOMS, TRAINING, Rule, Seen

FP16_MAX = 65504.0
HALF = 0.5  # of the fall, which a jump has to take back to count at once
IDLE = 0.9  # share of the run without progress
TINY = 1e-9


def _heads_alike(s: Seen) -> float:
    learning = s.curves.learning or s.curves.widest_spread > 0.1
    return 0.001 / (s.curves.entropy_spread + 1e-4) if learning else 0.0


def _blind_to_itself(s: Seen) -> float:
    return 2.0 if s.curves.self_mass < 1e-6 else 0.0


def _peeks_ahead(s: Seen) -> float:
    return s.curves.future / 0.01 if s.curves.first_future < 0.25 else 0.0


def _sees_the_future(s: Seen) -> float:
    return s.curves.future / 0.01 if s.curves.first_future >= 0.25 else 0.0


def _overflows(s: Seen) -> float:
    logit = s.curves.logit.last_finite
    if logit > 1.01 * FP16_MAX:  # finite beyond the range of fp16: not computed in it
        return 0.0
    broken = s.curves.nonfinite or s.curves.overflows or math.isinf(s.curves.logit.value)
    return 3.0 if broken and logit > 0.15 * FP16_MAX else logit / (0.5 * FP16_MAX)


def _updates_without_reason(s: Seen) -> float:
    steady = s.curves.grad.jump < 2.0 and 0.8 < s.curves.lr_change < 1.25
    return s.curves.update_jump / 4.5 if steady else 0.0


def _input_moved(s: Seen) -> float:
    return s.curves.jump.inputs / 6.0 if s.curves.jump else 0.0


def _attention_moved(s: Seen) -> float:
    return s.curves.jump.attention / 6.0 if s.curves.jump and not s.curves.jump.inputs > 6.0 else 0.0


def _jumped_from_calm(s: Seen) -> float:
    if s.curves.jump is None:
        return 0.0
    lasting = either(s.curves.fall.given_back / GIVEN_BACK, ratio(s.curves.jump.least, HALF * s.curves.fall.fall))
    return both(s.curves.jump.grad / 3.0, lasting)


def _flat_over_position(s: Seen) -> float:
    return 0.15 * s.curves.steepest / max(s.curves.slope, 0.02) if s.curves.steepest > 0.1 else 0.0


def _uneven(s: Seen) -> float:
    level = s.curves.depth_ratio.level
    return abs(math.log10(level)) if level > 0.0 else 0.0


def _depth_uneven(s: Seen) -> float:
    return _uneven(s) if s.curves.warmed_up else 0.0


def _violent_start(s: Seen) -> float:
    if s.curves.warmed_up or s.curves.rows > 60:
        return 0.0
    over = s.curves.loss.level - s.curves.loss.first
    loss = both(over / (0.05 * abs(s.curves.loss.first) + TINY), over / (CLEAR * s.curves.fall.noise + TINY))
    return either(loss, ratio(s.curves.grad.level, 5.0 * s.curves.grad.first), _uneven(s))


def _creeps_and_climbs(s: Seen) -> float:
    return both(s.curves.grad.creep / 1.3, s.curves.fall.given_back / (0.5 * GIVEN_BACK))


def _creeps(s: Seen) -> float:
    return s.curves.grad.creep / 4.0


def _climbs(s: Seen) -> float:
    return s.curves.fall.given_back / GIVEN_BACK


def _stopped_early(s: Seen) -> float:
    fall = s.curves.fall
    return both(fall.idle / IDLE, fall.rows / 100.0) if fall.fallen > 1.0 else 0.0


def _never_fell(s: Seen) -> float:
    return s.curves.fall.rows / 200.0 if s.curves.fall.fallen <= 1.0 else 0.0


def _overflowing(s: Seen) -> float:
    # With a loss scaler that the log does not show, a row of this is routine; a loss that is NaN outranks it.
    return float(s.curves.overflows)


def _broken(s: Seen) -> float:
    # A loss of exactly 0 is how a logger that filters NaN shows a window of nothing else.
    return math.inf if s.curves.nonfinite or s.curves.loss.value == 0.0 else 0.0


CURVE_RULES: tuple[Rule, ...] = (
    Rule(
        "mask_zeroed", 10, _heads_alike,
        "every head attends with the same entropy while the loss has fallen: the scores do not matter",
        CURVES, ("rope_wrong_frequency",), ("head_entropy", "attention_entropy"),
    ),
    Rule(
        "mask_off_by_one", 1, _blind_to_itself,
        "no attention at all on the query's own position",
        INSTABILITY, ("mask_missing",), ("attention_mass_self",),
    ),
    Rule(
        "mask_off_by_one", 1, _peeks_ahead,
        "some attention on later positions, little of it at first",
        INSTABILITY, ("mask_missing",), ("attention_mass_future",),
    ),
    Rule(
        "mask_missing", 1, _sees_the_future,
        "attention on later positions from the start: the future leaks in",
        INSTABILITY, ("mask_off_by_one",), ("attention_mass_future",),
    ),
    Rule(
        "fp16_attention_overflow", 1, _overflows,
        "attention scores near the largest fp16 number, or NaN soon after they were large",
        CURVES, ("high_lr",),
    ),
    Rule(
        "stale_optimizer_state", 1, _updates_without_reason,
        "updates jump while gradient norm and learning rate stay: the step comes from the optimizer's memory",
        INSTABILITY, ("high_lr",), ("layer_update_ratio",),
    ),
    Rule(
        "corrupt_tokens", 2, _input_moved,
        "the loss jumped in one row, together with what the batch is made of, and does not come back",
        CURVES, ("high_lr",),
    ),
    Rule(
        "rope_wrong_offset", 5, _attention_moved,
        "the loss jumped in one row and attention with it, the data did not, and it does not come back",
        CURVES, ("rope_wrong_frequency", "rope_on_keys_only", "mask_zeroed"),
    ),
    Rule(
        "corrupt_tokens", 3, _jumped_from_calm,
        "gradient norm flat, then a jump in a single row that the loss has not come back from: suspect the data",
        CURVES, ("stale_optimizer_state", "high_lr"),
    ),
    Rule(
        "rope_on_keys_only", 32, _flat_over_position,
        "the loss no longer falls as it did through a document: positions can't be told apart",
        CURVES, ("rope_wrong_frequency", "rope_wrong_offset", "mask_zeroed"), ("age_loss",),
    ),
    Rule(
        "post_ln_depth", 10, _depth_uneven,
        "gradient norms of the first and the last blocks differ ten-fold: normalisation, not learning rate",
        CURVES, ("no_warmup", "high_lr"), ("layer_grad_norm",),
    ),
    Rule(
        "no_warmup", 12, _violent_start,
        "learning rate at its peak from the first row, and loss up, gradients violent, or uneven over depth",
        TRAINING, ("high_lr", "post_ln_depth"),
    ),
    Rule(
        "high_lr", 4, _creeps_and_climbs,
        "gradient norm crept up row by row before the loss turned up: the instability was building",
        CURVES, ("post_ln_depth", "no_warmup"),
    ),
    Rule(
        "high_lr", 4, _creeps,
        "gradient norm four-fold without any jump",
        SYMPTOMS, ("post_ln_depth", "no_warmup"),
    ),
    Rule(
        "high_lr", 4, _climbs,
        "the loss has given back a part of its fall for long",
        SYMPTOMS, ("corrupt_tokens", "post_ln_depth", "no_warmup"),
    ),
    Rule(
        "labels_detached", 1, _stopped_early,
        "99 % of the fall of the loss came in the first tenth of the run, and nothing since",
        SYMPTOMS, ("post_ln_depth", "vanishing_depth", "high_lr"),
    ),
    Rule(
        "lr_too_low", 1, _never_fell,
        "the loss has not fallen in 200 rows by more than its noise",
        TRAINING, ("effective_lr_zero", "loss_detached", "labels_detached"),
    ),
    Rule(
        "high_lr", 1, _overflowing,
        "the gradient is NaN or infinite, and no step was skipped for it",
        CURVES, ("loss_scale_stuck_high", "fp16_attention_overflow", "corrupt_tokens"), ("grad_norm",),
    ),
    Rule(
        "high_lr", 1, _broken,
        "loss or weights are NaN or infinite, or the loss is exactly 0; nothing above said why",
        CURVES, ("corrupt_tokens", "post_ln_depth", "fp16_attention_overflow"), most=LARGEST_SCORE,
    ),
)  # fmt: skip
