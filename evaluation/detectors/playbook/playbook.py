"""The rules that debugging guides teach, as an ordered list, with a cause for each."""

import math

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict
from trainwreck.evaluation.detectors.playbook.bookkeeping import Bookkeeping
from trainwreck.evaluation.detectors.playbook.curve_rules import CURVE_RULES
from trainwreck.evaluation.detectors.playbook.evidence import Evidence
from trainwreck.evaluation.detectors.playbook.fact_rules import FACT_RULES
from trainwreck.evaluation.detectors.playbook.integrity import Integrity
from trainwreck.evaluation.detectors.playbook.log_rules import LOG_RULES
from trainwreck.evaluation.detectors.playbook.objective_rules import OBJECTIVE_RULES
from trainwreck.evaluation.detectors.playbook.rules import (
    ADAPTERS,
    CACHES,
    CRITICS,
    CURVES,
    DIFFUSION,
    DIVERGENCE,
    EXPOSURE,
    FLOAT8,
    GRADIENTS,
    GROUPS,
    INDEXES,
    INSTABILITY,
    LOGS,
    MASKS,
    PAIRS,
    REWARDS,
    ROUTERS,
    SYMPTOMS,
    TRAINING,
    Seen,
)
from trainwreck.evaluation.detectors.registry import register

RULES = (*LOG_RULES, *OBJECTIVE_RULES, *FACT_RULES, *CURVE_RULES)
READ = tuple(dict.fromkeys(name for rule in RULES for name in rule.reads))


@register
class Playbook(Detector):
    """The first rule that has held long enough names the cause; the others follow.

    The score is the largest strength of any rule, kept under 1 until that rule has held for its
    rows; the alarm is a score of 1 or more. What is NaN or infinite has the largest score there is.

    >>> detector = Playbook()
    >>> detector.reset(None)
    >>> _ = detector.update({"step": 0, "loss": 4.0, "attention_logit_max": [2.0e4, 50.0]})
    >>> detector.update({"step": 1, "loss": float("nan"), "attention_logit_max": None})
    Verdict(score=1e+300, alarm=True, causes=('fp16_attention_overflow', 'high_lr', 'corrupt_tokens', 'post_ln_depth'))
    """

    name = "playbook"
    rule = f"an ordered list of {len(RULES)} rules that debugging guides teach, each naming a cause"
    source = "; ".join((
        CURVES, INSTABILITY, TRAINING, SYMPTOMS, DIVERGENCE, LOGS, MASKS, GRADIENTS, ADAPTERS, FLOAT8, CACHES, EXPOSURE,
        PAIRS, ROUTERS, INDEXES, DIFFUSION, REWARDS, GROUPS, CRITICS,
    ))  # fmt: skip
    blind_spots = (
        "Causes without a rule; faults that leave a lower or slower curve of the usual shape, since it knows no "
        "healthy run to compare with; the first 8 to 32 rows, which are its baseline. Planned jumps look like faults."
    )
    causes = tuple(dict.fromkeys(cause for rule in RULES for cause in (rule.cause, *rule.then)))
    signals = (
        "loss", "validation_loss", "row_loss_max", "grad_norm", "clip_coef", "lr", "loss_scale", "skipped",
        "tokens_per_second", "token_entropy", "unique_share", "pad_share", "zero_grads", "nonfinite_weights",
        "layer_grad_norm", "layer_weight_norm", "layer_weight_max", "layer_update_ratio", "layer_moment_rms",
        "activation_max", "dead_share", "attention_entropy", "head_entropy", "attention_logit_max",
        "attention_mass_self", "attention_mass_future", "attention_mass_other_document", "attention_mass_padding",
        "attention_distance", "age_loss", "position_loss", "rank_batch_hash", "rank_weight_hash", "scored_tokens",
        "end_probability", "adapter_norm", "float8_saturated", "forced_loss", "free_first_loss", "free_early_loss",
        "free_late_loss", "cache_gap", "neighbour_gap", "dpo_loss", "margin", "chosen_logp", "balance_loss",
        "expert_dropped", "hit_rate", "index_age", "raw_loss", "denoise_early", "denoise_late", "sample_violations",
        "kl", "clip_share", "policy_entropy", "reward", "groups_without_variance", "value_loss",
    )  # fmt: skip

    def reset(self, context: Context | None) -> None:
        self.seen = Seen(Evidence(), Integrity(), Bookkeeping())
        self.strengths = [0.0] * len(RULES)
        self.row = 0
        self.judged = [0] * len(RULES)  # the latest row that said anything to the rule
        self.began: list[int | None] = [None] * len(RULES)  # the row from which on the strength was 1 or more

    def update(self, row: Row) -> Verdict:
        self.seen.see(row)
        self.row += 1
        logged = {name for name in READ if row.get(name) is not None}
        for i, rule in enumerate(RULES):
            if not rule.reads or not logged.isdisjoint(rule.reads):
                self.strengths[i] = strength = _bounded(rule.strength(self.seen), rule.most)
                if strength < 1.0:
                    self.began[i] = None
                elif self.began[i] is None:
                    self.began[i] = self.row
                self.judged[i] = self.row
        held = self.held()
        fired = [rule for rule, rows in zip(RULES, held, strict=True) if rows >= rule.hold]
        score = max(
            strength if rows >= rule.hold else min(strength, rows / rule.hold if rows else 0.99 * strength, 0.99)
            for rule, rows, strength in zip(RULES, held, self.strengths, strict=True)
        )
        named = [rule.cause for rule in fired] + [cause for rule in fired for cause in rule.then]
        return Verdict(score, bool(fired), tuple(dict.fromkeys(named)))

    def held(self) -> list[int]:
        """For how many rows each rule's strength has been 1 or more, as far as was logged; it fires from `hold` on."""
        return [
            0 if began is None else judged - began + 1 for began, judged in zip(self.began, self.judged, strict=True)
        ]


def _bounded(strength: float, most: float) -> float:
    return 0.0 if math.isnan(strength) else min(most, max(0.0, strength))
