"""What a run records, one row a step: the single source for writer, reader and documentation.

Axes of a signal besides the step:
    scalar     one number
    layers     embedding, each transformer layer, head          (layers + 2 numbers)
    blocks     each transformer layer                           (layers numbers)
    heads      each head of each layer, layer by layer          (layers * heads numbers)
    positions  eight equal parts of the row                     (8 numbers)
    ages       tokens since the document began: 1, 2, 3-4, 5-8 ..., doubling up to the row's length
               (NaN where a batch has no such token)
    ranks      each process that trains the run                 (one number where there is one)
    groups     matrices of the layers, embedding, head, vectors (4 numbers, NaN for what a model does not have);
               embedding: with positions that are learnt; vectors: gains and biases

A run of several ranks records the mean of what they saw, weighted by their tokens; of a maximum, a
minimum or a count the most extreme; the validation loss is the first rank's.

An imported run has the steps of its log, and null where the log has no value.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 4
BUCKETS = 8
GROUPS = ("matrices", "embedding", "head", "vectors")


class Axis(Enum):
    """What a signal has a number for, besides each step."""

    SCALAR = "scalar"
    LAYERS = "layers"
    BLOCKS = "blocks"
    HEADS = "heads"
    POSITIONS = "positions"
    AGES = "ages"
    RANKS = "ranks"
    GROUPS = "groups"


class Role(Enum):
    """Outcome: what the run did. Setting: its configuration. Input: its batches. Hash: equal or not, no more.

    Monitor: an outcome that labels leave out, since it was added when they had been measured.
    """

    OUTCOME = "outcome"
    SETTING = "setting"
    INPUT = "input"
    HASH = "hash"
    MONITOR = "monitor"


@dataclass(frozen=True)
class Signal:
    """One telemetry column. `positive` signals are compared by their logarithm."""

    name: str
    axis: Axis
    unit: str
    meaning: str
    role: Role = Role.OUTCOME
    positive: bool = False


def _scalar(name: str, unit: str, meaning: str, role: Role = Role.OUTCOME, positive: bool = False) -> Signal:
    return Signal(name, Axis.SCALAR, unit, meaning, role, positive)


def _blocks(name: str, unit: str, meaning: str, positive: bool = False) -> Signal:
    return Signal(name, Axis.BLOCKS, unit, meaning, positive=positive)


SIGNALS: tuple[Signal, ...] = (
    _scalar("loss", "nats/token", "training loss of the batch, before the update"),
    _scalar("validation_loss", "nats/token", "loss on a fixed held-out set; empty between evaluations"),
    _scalar(
        "fresh_loss", "nats/token", "loss on a second held-out set; empty between evaluations and where a run has none"
    ),
    _scalar("row_loss_max", "nats/token", "largest loss of any row of the batch, mean over the row's scored tokens"),
    _scalar("row_grad_share", "share", "largest row's share of the gradient at the logits, by absolute sum"),
    _scalar("grad_norm", "1", "global gradient norm before clipping, after unscaling", positive=True),
    _scalar("clip_coef", "1", "factor that clipping applied to the gradient", Role.SETTING),
    _scalar("lr", "1", "learning rate of the step", Role.SETTING),
    _scalar("loss_scale", "1", "factor on the loss before the backward pass", Role.SETTING),
    _scalar("skipped", "0 or 1", "the update was skipped because a gradient overflowed", Role.SETTING),
    _scalar("tokens_per_second", "tokens/s", "throughput on a modelled clock, not a measured one", Role.INPUT),
    _scalar("tokens", "tokens", "tokens of the batch that are not padding", Role.INPUT),
    _scalar("step_seconds", "s", "time of the step on a modelled clock, which goes with the longest row", Role.INPUT),
    _scalar("token_entropy", "nats", "entropy of the token histogram of the batch", Role.INPUT),
    _scalar("unique_share", "share", "distinct tokens of the batch over the size of the token table", Role.INPUT),
    _scalar("pad_share", "share", "padding among the tokens of the batch", Role.INPUT),
    _scalar("nonfinite_grads", "count", "gradient elements that are NaN or infinite"),
    _scalar("zero_grads", "share", "gradient elements that are exactly 0: without a loss scale, float16's underflow"),
    _scalar("nonfinite_weights", "count", "layers with a weight that is NaN or infinite, before the update"),
    _scalar("log_z", "nats", "mean log partition function of the output softmax"),
    _scalar("output_max", "nats", "largest magnitude of an output logit", positive=True),
    Signal("layer_grad_norm", Axis.LAYERS, "1", "gradient norm of the layer, before clipping", positive=True),
    Signal("layer_weight_norm", Axis.LAYERS, "1", "weight norm of the layer", positive=True),
    Signal("layer_weight_max", Axis.LAYERS, "1", "largest weight magnitude of the layer", positive=True),
    Signal("layer_update_ratio", Axis.LAYERS, "1", "norm of the update over norm of the weights", positive=True),
    Signal(
        "layer_moment_rms",
        Axis.LAYERS,
        "1",
        "root mean square of g / sqrt(v), v the second moment: over about 2.3 v underestimates g; NaN under SGD",
        positive=True,
    ),
    _blocks("activation_mean", "1", "mean of the residual stream after the layer"),
    _blocks("activation_std", "1", "standard deviation of the residual stream after the layer", positive=True),
    _blocks("activation_max", "1", "largest magnitude of the residual stream after the layer", positive=True),
    _blocks("dead_share", "share", "MLP units that fire for no token of the batch"),
    _blocks("attention_entropy", "nats", "entropy of attention, mean over heads and queries"),
    _blocks("attention_entropy_min", "nats", "least entropy of any query's attention; 0 where one sees only itself"),
    _blocks("attention_logit_max", "1", "largest scaled attention score that is not masked"),
    _blocks("attention_mass_self", "share", "attention on the query's own position"),
    _blocks("attention_mass_future", "share", "attention on later positions; 0 where they are not hidden"),
    _blocks("attention_mass_other_document", "share", "attention on other documents of the row"),
    _blocks("attention_mass_padding", "share", "attention on padding"),
    _blocks("attention_distance", "positions", "mean distance of what is attended to"),
    Signal("head_entropy", Axis.HEADS, "nats", "entropy of attention of one head, mean over queries"),
    Signal("position_loss", Axis.POSITIONS, "nats/token", "loss by position in the row"),
    Signal("age_loss", Axis.AGES, "nats/token", "loss by tokens since the document began"),
    Signal("rank_batch_hash", Axis.RANKS, "24 bits", "hash of the tokens that the rank was fed", Role.HASH),
    Signal("rank_weight_hash", Axis.RANKS, "24 bits", "hash of the rank's weights; NaN where there is one", Role.HASH),
    Signal(
        "rank_grad_norm",
        Axis.RANKS,
        "1",
        "norm of the rank's own gradient, before it is shared; NaN where there is one",
        positive=True,
    ),
    # Of runs on prompts and answers.
    _scalar("scored_tokens", "tokens", "targets of the batch that count; empty without answers", Role.INPUT),
    _scalar("end_probability", "1", "mean probability of an answer's end where it ends; empty without answers"),
    _scalar("adapter_norm", "1", "norm of the adapters' second matrices, which start at 0; empty without adapters"),
    # Of runs with products in float8.
    _scalar("float8_saturated", "share", "of the operand with the most, values past float8's largest; empty without"),
    _scalar("float8_flushed", "share", "of the operand with the most, values that float8 made 0; empty without"),
    # Of runs with experts in the place of the MLP.
    _scalar("expert_load_entropy", "nats", "entropy of the experts' shares of tokens, of the layer with the least"),
    _scalar("expert_load_max", "share", "largest share of a layer's tokens that one expert gets; empty without any"),
    _scalar("expert_dropped", "share", "tokens whose expert was full, of the layer with the most; empty without"),
    _scalar("router_logit_norm", "1", "norm of a token's router logits, mean over tokens, of the layer with the most"),
    _scalar("balance_loss", "1", "the routers' balance loss as it is computed, mean over layers; 1 at even loads"),
    # Of runs that decode held-out rows: their validation_loss is where the model reads its own tokens.
    _scalar("forced_loss", "nats/token", "held-out loss where the model reads true tokens; empty without decoding"),
    _scalar("forced_late_loss", "nats/token", "forced_loss of the last quarter of a row's tokens alone"),
    _scalar("free_first_loss", "nats/token", "held-out loss of the first decoded token; empty without decoding"),
    _scalar("free_early_loss", "nats/token", "held-out loss of the first quarter of the decoded tokens"),
    _scalar("free_late_loss", "nats/token", "held-out loss of the last quarter of the decoded tokens"),
    _scalar("cache_gap", "nats", "mean change of a decoded token's log-probability where its row is read uncached"),
    _scalar("neighbour_gap", "nats", "mean change of a decoded token's log-probability beside other rows"),
    # Of runs on pairs of answers: their validation_loss is that of held-out right answers.
    _scalar("dpo_loss", "nats/pair", "mean of -ln sigmoid(beta * margin); empty without pairs"),
    _scalar("margin", "nats", "chosen_logp less rejected_logp; empty without pairs"),
    _scalar("chosen_logp", "nats/answer", "mean log-probability of right answers over the reference's"),
    _scalar("rejected_logp", "nats/answer", "mean log-probability of wrong answers over the reference's"),
    _scalar("preference_accuracy", "share", "pairs of the batch with a margin over 0; empty without pairs"),
    _scalar("validation_rejected_loss", "nats/token", "held-out loss of wrong answers; empty without pairs"),
    _scalar("validation_accuracy", "share", "held-out pairs whose right answer has the higher probability"),
    # Of runs that fill in masked tokens: their validation_loss is the evidence bound on held-out rows.
    _scalar("denoise_early", "nats/token", "held-out loss where up to a third is masked; empty without diffusion"),
    _scalar("denoise_middle", "nats/token", "held-out loss where a third to two thirds of the tokens are masked"),
    _scalar("denoise_late", "nats/token", "held-out loss where two thirds and more of the tokens are masked"),
    _scalar("raw_loss", "nats/token", "validation_loss of the weights themselves, averaged or not; empty without"),
    _scalar("sample_violations", "share", "sampled tokens that the language never has after the one before"),
    # Of runs that retrieve passages, on held-out questions.
    _scalar("hit_rate", "share", "held-out questions whose passage is the right one; empty without retrieval"),
    _scalar("hit_loss", "nats/token", "held-out loss after the right passage; empty without retrieval"),
    _scalar("miss_loss", "nats/token", "held-out loss after another passage than the right one; empty without any"),
    _scalar("index_age", "steps", "since the index of passages was made; empty without retrieval"),
    # Of runs on pictures with captions.
    _scalar("picture_loss", "nats/token", "held-out loss of tokens of pictures; empty without pictures"),
    _scalar("caption_loss", "nats/token", "held-out loss of tokens of captions; empty without pictures"),
    # Of runs that transcribe, on held-out utterances, of the cross-attention head with the most on a word's own frames.
    _scalar("alignment_mass", "share", "cross-attention that is on the word's own frames; empty without frames"),
    _scalar("alignment_entropy", "nats", "entropy of a word's cross-attention over frames; empty without frames"),
    _scalar("alignment_order", "share", "words whose mean frame is past that of the word before; empty without frames"),
    # Of runs that are trained by rewards: their validation_loss is 1 less the true reward of held-out prompts' answers.
    _scalar("reward", "1", "mean reward of the step's answers by the reward model; empty without rewards"),
    _scalar("true_reward", "1", "mean true reward of the step's answers, 0 to 1, which the training does not know"),
    _scalar("kl", "nats/token", "mean divergence of the policy from the reference on the step's answers"),
    _scalar("policy_entropy", "nats/token", "mean entropy of the policy's next token on the step's answers"),
    _scalar("clip_share", "share", "tokens of the answers whose ratio of probabilities is past the clip"),
    _scalar("answer_length", "tokens", "mean length of the step's answers, their end included; empty without rewards"),
    _scalar("groups_without_variance", "share", "groups of answers whose rewards are all the same"),
    _scalar("sampler_log_ratio", "nats", "mean change of a token's log-probability from sampler to policy, as drawn"),
    _scalar("value_loss", "1", "half the squared error of values, the larger one by the clip; empty without a critic"),
    _scalar("explained_variance", "1", "1 less the variance of returns less values over that of returns, as drawn"),
    # Of weights and updates.
    Signal(
        "spectral_norm",
        Axis.BLOCKS,
        "1",
        "largest singular value of any matrix of the layer, before the update; empty between evaluations",
        Role.MONITOR,
        positive=True,
    ),
    Signal(
        "update_rms",
        Axis.GROUPS,
        "1",
        "root mean square of what the step added to the weights, by group of parameters",
        Role.MONITOR,
        positive=True,
    ),
    Signal(
        "qk_spectral_entropy",
        Axis.HEADS,
        "nats",
        "entropy of the normalised singular values of a head's W_q W_k^T, before the update; empty between evaluations",
        Role.MONITOR,
    ),
)

DECODING = (
    "forced_loss", "forced_late_loss", "free_first_loss", "free_early_loss", "free_late_loss", "cache_gap",
    "neighbour_gap",
)  # fmt: skip
EXPERTS = ("expert_load_entropy", "expert_load_max", "expert_dropped", "router_logit_norm", "balance_loss")
# Known at each step of runs of one objective; a run of another one has none of them.
PREFERRED = ("dpo_loss", "margin", "chosen_logp", "rejected_logp", "preference_accuracy")
REWARDED = (
    "reward", "true_reward", "kl", "policy_entropy", "clip_share", "answer_length", "groups_without_variance",
    "sampler_log_ratio",
)  # fmt: skip
CRITIC = ("value_loss", "explained_variance")  # of those with a value head
OF_OBJECTIVES = (*PREFERRED, *REWARDED, *CRITIC)
PAIRED = ("validation_rejected_loss", "validation_accuracy")
DENOISING = ("denoise_early", "denoise_middle", "denoise_late", "raw_loss", "sample_violations")
RETRIEVAL = ("hit_rate", "hit_loss", "miss_loss", "index_age")
MODALITIES = ("picture_loss", "caption_loss")
ALIGNED = ("alignment_mass", "alignment_entropy", "alignment_order")
EVALUATED = (*DECODING, *PAIRED, *DENOISING, *RETRIEVAL, *MODALITIES, *ALIGNED)  # of one objective each
EVALUATIONS = ("validation_loss", "fresh_loss", *EVALUATED)  # known at evaluated steps only
EVALUATED_LISTS = ("spectral_norm", "qk_spectral_entropy")  # so are these
# Columns that a telemetry file of this version may lack, since they were added within it. They are missing where a run
# has nothing for them: NaN in a trace, null in a file and None in a row.
ADDED_SIGNALS = (
    "scored_tokens", "end_probability", "adapter_norm", "float8_saturated", "float8_flushed", *EXPERTS,
    *OF_OBJECTIVES, *EVALUATED, "spectral_norm", "update_rms", "qk_spectral_entropy",
)  # fmt: skip

BY_NAME = {signal.name: signal for signal in SIGNALS}


def column_type(signal: Signal) -> "pa.DataType":
    """Arrow type of a signal's column."""
    import pyarrow as pa

    return pa.float32() if signal.axis is Axis.SCALAR else pa.list_(pa.float32())


def telemetry_schema() -> "pa.Schema":
    """Arrow schema of a telemetry file: run_id, step, then every signal as float32 or a list of it."""
    import pyarrow as pa

    fields = [pa.field("run_id", pa.string(), nullable=False), pa.field("step", pa.int32(), nullable=False)]
    for signal in SIGNALS:
        facts = {"unit": signal.unit, "meaning": signal.meaning}
        fields.append(pa.field(signal.name, column_type(signal), metadata=facts))
    return pa.schema(fields, metadata={"trainwreck_schema": str(SCHEMA_VERSION)})


# The sections of a scenario's page, in order.
SECTIONS = ("Failure", "Mechanism", "Injection", "Signature", "Cure", "Realism", "References")


PUBLIC_SEEDS = 10_000  # seeds of public plans are under it; those that a salt draws are not
JOINT = "+"  # between the scenarios, causes and families of a compound run


class RunKind(Enum):
    """What a run is an example of."""

    FAILING = "failing"
    COMPOUND = "compound"  # failing, with a second scenario beside
    HEALTHY = "healthy"
    LOOK_ALIKE = "look-alike"
    LATENT = "latent"  # not harmed, and its signature is there
    NOT_SHOWN = "not shown"  # a fault that neither harmed nor shows its signature, as altered settings can have it
    CURED = "cured"
    IMPORTED = "imported"  # someone else's log: its labels are people's, not measured, see the manifest


# Runs that are to be found.
FAILURES = (RunKind.FAILING.value, RunKind.COMPOUND.value)
# Runs under a fault without its cure; which of the kinds is measured.
UNDER_FAULT = (*FAILURES, RunKind.LATENT.value, RunKind.NOT_SHOWN.value)
# Those of them that were not harmed: neither to be found nor to be let alone.
UNHARMED = (RunKind.LATENT.value, RunKind.NOT_SHOWN.value)


# Family of scenarios whose runs are healthy and logged wrongly: look-alikes with a cause, which is right to name.
LOGGING = "logging"


class Harm(Enum):
    """On which side of the twin's loss a run is harmed."""

    ABOVE = "above"
    BELOW = "below"  # of a leak: the loss is lower than it can honestly be
    EITHER = "either"


class Outcome(Enum):
    """How a run ended against its twin."""

    RECOVERED = "recovered"  # final loss not off the twin's by more than the tolerance on the side of the harm
    DAMAGED = "damaged"  # final loss off the twin's by more than the tolerance on the side of the harm
    NON_FINITE = "non_finite"  # the loss became NaN or infinite and stayed so


# What of a run no training run may have; `held_out` joins several by +, in this order. cause: of a pair, neither cause.
# base: healthy and look-alike runs have it as well. shape: in data sets of version 1 of the plan, for another base.
HELD_OUT = ("look-alike", "cause", "severity", "pair", "shape", "base")

# Name, Arrow type and meaning of each column of the runs table.
RUN_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("run_id", "string", "name of the run; a hash of what was run"),
    ("scenario", "string", "catalogue entry, two joined by + in a compound run; empty for healthy runs"),
    (
        "cause",
        "string",
        "true cause, two joined by + in a compound run; empty for healthy runs, and for look-alikes whose log is right",
    ),
    ("causes", "string", "JSON: each true cause to its first step, the earliest first"),
    ("family", "string", "family of each cause, joined by +; a look-alike's own; empty for healthy runs"),
    (
        "kind",
        "string",
        "failing, compound, healthy, look-alike, latent, not shown or cured; imported where no experiment says",
    ),
    ("split", "string", "calibration (healthy runs and look-alikes to freeze thresholds on), train, test or private"),
    (
        "held_out",
        "string",
        "what of it no training run has: look-alike, cause, severity, pair, shape, base; several joined by +, as in "
        "cause+base; empty where that is nothing",
    ),
    ("severity", "string", "subtle, clear or severe; empty where there is no scale"),
    ("seed", "int64", "seed of every random stream of the run"),
    ("size", "string", "micro, deep, small or nano"),
    ("base", "string", "hash of the healthy configuration, shared by a run, its twin and its cure"),
    ("planned_steps", "int32", "steps the run was meant to take"),
    ("last_step", "int32", "last recorded step"),
    ("onset_step", "int32", "first step under the fault, of two the earlier (s); empty without one"),
    ("cure_step", "int32", "first step under the cure, of two the later; empty without one"),
    ("visible_step", "int32", "first step at which any outcome signal leaves the twin (v)"),
    ("visible_steps", "string", "JSON: outcome signal to its own first visible step"),
    ("visible_profiles", "string", "JSON: observation profile to the first step at which its rows show it"),
    ("no_return_step", "int32", "last step at which the cure saves the run (p); empty where it was not measured"),
    ("no_return_branches", "string", "JSON: step of the cure to the branch's final gap, null where not finite"),
    ("no_return_monotone", "bool", "no branch was saved after one that was lost; empty without branches"),
    ("outcome", "string", "recovered, damaged or non_finite"),
    ("final_loss", "double", "validation loss at the end, nats/token"),
    ("final_gap", "double", "final_loss less the twin's, or the source's entropy without one, nats/token"),
    ("tolerance", "double", "gap within which a final loss counts as the twin's; empty for healthy runs"),
    (
        "harm",
        "string",
        "above, below or either: the side of the twin's loss on which the run is harmed; empty for healthy runs",
    ),
    ("signatures", "string", "JSON: each true cause to whether its signature holds against the twin; {} where unknown"),
    ("twin_id", "string", "run_id of the twin; empty for healthy runs"),
    ("context", "string", "JSON: the declared configuration, what the practitioner believes is running"),
    ("spec", "string", "JSON: everything needed to train the run again"),
    ("file", "string", "telemetry file of the run, relative to the data set"),
)

# Columns that a runs table of this version may lack, since they were added within it, and what stands in for them.
ADDED = {"harm": Harm.EITHER.value, "signatures": "{}"}


def step_of(cell: Any) -> int | None:
    """A step of the runs table; None, NaN and NA are none.

    >>> step_of(83.0), step_of(None), step_of(float("nan"))
    (83, None, None)
    """
    try:
        return int(cell)
    except (TypeError, ValueError):
        return None


def runs_schema() -> "pa.Schema":
    """Arrow schema of the runs table."""
    import pyarrow as pa

    return pa.schema(
        [pa.field(name, pa.type_for_alias(kind), metadata={"meaning": meaning}) for name, kind, meaning in RUN_FIELDS],
        metadata={"trainwreck_schema": str(SCHEMA_VERSION)},
    )


def document(columns: Collection[str] | None = None) -> str:
    """The schema as a Markdown page. columns: that the telemetry of a release has; by default every one."""
    axes = (__doc__ or "").split("\n\n", 1)[1].rstrip()
    lines = [f"# Columns of a data set (schema version {SCHEMA_VERSION})", "", "```", axes, "```", ""]
    lines += ["`telemetry/*.parquet`, one row a step; float32, or a list of it:", ""]
    lines += ["| signal | axis | unit | role | meaning |", "|---|---|---|---|---|"]
    here = [s for s in SIGNALS if columns is None or s.name in columns]
    lines += [f"| `{s.name}` | {s.axis.value} | {s.unit} | {s.role.value} | {s.meaning} |" for s in here]
    if len(here) < len(SIGNALS):
        absent = ", ".join(f"`{s.name}`" for s in SIGNALS if s not in here)
        lines += ["", f"No run has a value of these, and they are no columns: {absent}."]
    lines += ["", "`runs.parquet`, one row a run:", "", "| column | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, _, meaning in RUN_FIELDS]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
