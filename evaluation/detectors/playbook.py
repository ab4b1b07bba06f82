"""The rules that debugging guides teach, as an ordered list, with a cause for each."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from trainwreck.evaluation.detectors.evidence import Evidence, both, either, ratio
from trainwreck.evaluation.protocol import Context, Detector, Row, Verdict
from trainwreck.evaluation.registry import register

FP16_MAX = 65504.0
STRONGEST = 100.0

CURVES = "Debugging Transformer Training Runs: Reading the Curves"
INSTABILITY = "Debugging Training Instability"
TRAINING = "Debugging training: interpreting training curves and gradient statistics"
SYMPTOMS = "Recognizing the early signs of training instability"


@dataclass(frozen=True)
class Rule:
    """One line of the playbook.

    strength: how far the evidence goes, 1 at the rule's threshold, NaN where it has none. hold:
    rows in a row at 1 or more before the rule fires. then: causes that the same picture fits less
    well, in order. says: the rule in words. source: the document that teaches it.
    """

    cause: str
    hold: int
    strength: Callable[[Evidence], float]
    says: str
    source: str
    then: tuple[str, ...] = ()


def _heads_alike(e: Evidence) -> float:
    learning = e.progress > 0.15 or e.widest_spread > 0.1
    return 0.02 / (e.entropy_spread + 1e-3) if learning else 0.0


def _blind_to_itself(e: Evidence) -> float:
    return 2.0 if e.self_mass < 1e-6 else 0.0


def _peeks_ahead(e: Evidence) -> float:
    return e.future / 0.01 if e.first_future < 0.25 else 0.0


def _sees_the_future(e: Evidence) -> float:
    return e.future / 0.01 if e.first_future >= 0.25 else 0.0


def _overflows(e: Evidence) -> float:
    logit = e.logit.last_finite
    if logit > 1.01 * FP16_MAX:  # finite beyond the range of fp16: not computed in it
        return 0.0
    broken = e.nonfinite or math.isinf(e.logit.value)
    return 3.0 if broken and logit > 0.15 * FP16_MAX else logit / (0.5 * FP16_MAX)


def _updates_without_reason(e: Evidence) -> float:
    steady = e.grad.jump < 2.0 and 0.8 < e.lr_change < 1.25
    return e.update_jump / 4.0 if steady else 0.0


def _input_moved(e: Evidence) -> float:
    return e.jump.inputs / 6.0 if e.jump else 0.0


def _attention_moved(e: Evidence) -> float:
    return e.jump.attention / 6.0 if e.jump and not e.jump.inputs > 6.0 else 0.0


def _jumped_from_calm(e: Evidence) -> float:
    return e.jump.grad / 3.0 if e.jump else 0.0


def _flat_over_position(e: Evidence) -> float:
    return 0.35 * e.steepest / max(e.slope, 1e-3) if e.steepest > 0.04 else 0.0


def _uneven(e: Evidence) -> float:
    level = e.depth_ratio.level
    return abs(math.log10(level)) if level > 0.0 else 0.0


def _depth_uneven(e: Evidence) -> float:
    return _uneven(e) if e.warmed_up else 0.0


def _violent_start(e: Evidence) -> float:
    if e.warmed_up or e.rows > 60:
        return 0.0
    return either(ratio(e.loss.level, 1.05 * e.loss.first), ratio(e.grad.level, 5.0 * e.grad.first), _uneven(e))


def _creeps_and_climbs(e: Evidence) -> float:
    return both(e.grad.creep / 1.3, e.rise / 1.1)


def _creeps(e: Evidence) -> float:
    return e.grad.creep / 4.0


def _climbs(e: Evidence) -> float:
    return e.rise / 1.3


def _broken(e: Evidence) -> float:
    # A loss of exactly 0 is how a logger that filters NaN shows a window of nothing else.
    return 2.0 if e.nonfinite or e.loss.value == 0.0 else 0.0


RULES: tuple[Rule, ...] = (
    Rule(
        "mask_zeroed", 4, _heads_alike,
        "every head attends with the same entropy while the loss has fallen: the scores do not matter",
        CURVES, ("rope_wrong_frequency",),
    ),
    Rule(
        "mask_off_by_one", 2, _blind_to_itself,
        "no attention at all on the query's own position",
        INSTABILITY, ("mask_missing",),
    ),
    Rule(
        "mask_off_by_one", 2, _peeks_ahead,
        "some attention on later positions, little of it at first",
        INSTABILITY, ("mask_missing",),
    ),
    Rule(
        "mask_missing", 2, _sees_the_future,
        "attention on later positions from the start: the future leaks in",
        INSTABILITY, ("mask_off_by_one",),
    ),
    Rule(
        "fp16_attention_overflow", 1, _overflows,
        "attention scores near the largest fp16 number, or NaN soon after they were large",
        CURVES, ("high_lr",),
    ),
    Rule(
        "stale_optimizer_state", 1, _updates_without_reason,
        "updates jump while gradient norm and learning rate stay: the step comes from the optimizer's memory",
        INSTABILITY, ("high_lr",),
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
        "gradient norm flat, then a jump in a single row: suspect the data",
        CURVES, ("stale_optimizer_state", "high_lr"),
    ),
    Rule(
        "rope_on_keys_only", 32, _flat_over_position,
        "the loss no longer falls as it did through a document: positions can't be told apart",
        CURVES, ("rope_wrong_frequency", "rope_wrong_offset", "mask_zeroed"),
    ),
    Rule(
        "post_ln_depth", 6, _depth_uneven,
        "gradient norms of the first and the last blocks differ ten-fold: normalisation, not learning rate",
        CURVES, ("no_warmup", "high_lr"),
    ),
    Rule(
        "no_warmup", 3, _violent_start,
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
        "high_lr", 6, _climbs,
        "the loss climbs and stays up",
        SYMPTOMS, ("corrupt_tokens", "post_ln_depth", "no_warmup"),
    ),
    Rule(
        "high_lr", 1, _broken,
        "loss, gradient or weights are NaN or infinite, or the loss is exactly 0; nothing above said why",
        CURVES, ("corrupt_tokens", "post_ln_depth", "fp16_attention_overflow"),
    ),
)  # fmt: skip


@register
class Playbook(Detector):
    """The first rule that has held long enough names the cause; the others follow.

    The score is the largest strength of any rule, kept under 1 until that rule has held for its
    rows; the alarm is a score of 1 or more.

    >>> detector = Playbook()
    >>> detector.reset(None)
    >>> _ = detector.update({"step": 0, "loss": 4.0, "attention_logit_max": [2.0e4, 50.0]})
    >>> detector.update({"step": 1, "loss": float("nan"), "attention_logit_max": None})
    Verdict(score=3.0, alarm=True, causes=('fp16_attention_overflow', 'high_lr', 'corrupt_tokens', 'post_ln_depth'))
    """

    name = "playbook"
    rule = f"an ordered list of {len(RULES)} rules that debugging guides teach, each naming a cause"
    source = f"{CURVES}; {INSTABILITY}; {TRAINING}; {SYMPTOMS}"
    blind_spots = (
        "Causes without a rule; faults that leave a lower or slower curve of the usual shape, since it knows no "
        "healthy run to compare with; the first 8 to 32 rows, which are its baseline. Planned jumps look like faults."
    )
    causes = tuple(dict.fromkeys(cause for rule in RULES for cause in (rule.cause, *rule.then)))
    signals = (
        "loss", "grad_norm", "lr", "skipped", "nonfinite_weights", "token_entropy", "unique_share", "pad_share",
        "layer_grad_norm", "layer_update_ratio", "attention_entropy", "head_entropy", "attention_logit_max",
        "attention_mass_future", "attention_mass_self", "attention_distance", "age_loss",
    )  # fmt: skip

    def reset(self, context: Context | None) -> None:
        self.evidence = Evidence()
        self.held = [0] * len(RULES)

    def update(self, row: Row) -> Verdict:
        self.evidence.see(row)
        strengths = [_bounded(rule.strength(self.evidence)) for rule in RULES]
        self.held = [held + 1 if strength >= 1.0 else 0 for held, strength in zip(self.held, strengths, strict=True)]
        fired = [rule for rule, held in zip(RULES, self.held, strict=True) if held >= rule.hold]
        score = max(
            strength if held >= rule.hold else min(strength, held / rule.hold if held else 0.99 * strength, 0.99)
            for rule, held, strength in zip(RULES, self.held, strengths, strict=True)
        )
        named = [rule.cause for rule in fired] + [cause for rule in fired for cause in rule.then]
        return Verdict(score, bool(fired), tuple(dict.fromkeys(named)))


def _bounded(strength: float) -> float:
    return 0.0 if math.isnan(strength) else min(STRONGEST, max(0.0, strength))
