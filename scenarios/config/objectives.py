"""What runs are trained for: the objectives that there are, and settings that only runs of one objective have."""

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.models.config import LATER


class ObjectiveKind(Enum):
    """What a run is trained for, and evaluated by; a module of `training.objectives` each."""

    NEXT_TOKEN = "next_token"  # the next token of given rows
    DECODING = "decoding"  # rows that the model goes on with by itself
    PREFERENCES = "preferences"  # the right one of two answers
    DIFFUSION = "diffusion"  # tokens that are masked, as many as a timestep says
    RETRIEVAL = "retrieval"  # answers to questions, after passages that the model finds by itself
    MODALITIES = "modalities"  # pictures and their captions, with a weight on pictures
    TRANSCRIPTION = "transcription"  # what is said in acoustic frames, by an encoder and a decoder
    POLICY = "policy"  # the reward of answers that the model draws by itself


@dataclass(kw_only=True)
class DecodingConfig:
    """Rows that the model goes on with by itself, token after token, through a cache of keys and values.

    Held-out rows are evaluated so. scheduled_sampling: share of the tokens that training reads from what the model
    would have written there, and not from the row (Bengio et al. 2015). flush: what is cached of held-out prompts is
    cleared before each evaluation.
    """

    scheduled_sampling: float = 0.0
    flush: bool = True


@dataclass(kw_only=True)
class PreferencesConfig:
    """Pairs of answers to a prompt, of which one is preferred, by direct preference optimisation.

    beta: factor on the margin (Rafailov et al. 2023). anchor: weight of the loss of the right answers' tokens beside
    it (Pang et al. 2024). begun: the run is trained on pairs from the first step on; else on text, and on pairs from a
    step on that is drawn from the seed (`spec.planned.preferences_step`).
    """

    beta: float = 0.1
    anchor: float = 1.0
    begun: bool = False


@dataclass(kw_only=True)
class DiffusionConfig:
    """Tokens masked by a noise schedule, to be told from those that are left: masked diffusion.

    At timestep t, from 0 to 1, the share t of a row's tokens is masked. emphasis: a row counts (1 + emphasis) * t **
    emphasis times in training; 0 is the evidence bound, in which every timestep counts alike. Held-out rows have that.
    """

    emphasis: float = 0.0


@dataclass(kw_only=True)
class RetrievalConfig:
    """Questions whose passages the model finds in an index of a store that changes.

    refresh: steps from one time that the index is rebuilt, of the weights and the store of then, to the next; 0 for
    step 0 alone.
    """

    refresh: int = 10


@dataclass(kw_only=True)
class ModalitiesConfig:
    """Pictures and their captions as one stream of tokens.

    picture_weight: how much a token of a picture counts in the training loss; one of a caption counts 1.
    """

    picture_weight: float = 1.0


@dataclass(kw_only=True)
class TranscriptionConfig:
    """Transcripts of acoustic frames, which an encoder reads and a decoder attends to (Vaswani et al. 2017).

    noise: standard deviation of what is added to each feature of a frame.
    """

    noise: float = 0.3


@dataclass(kw_only=True)
class PolicyConfig:
    """Answers that the model draws by itself, by their rewards: group-relative policy optimisation (Shao et al. 2024).

    With `model.value_head` advantages are not those of groups, but generalised advantage estimates (Schulman et al.
    2016), of which value_weight, gae_lambda and value_clip are settings: the coefficient of the value loss, the decay
    of later errors, and how far a value counts from the one when answers were drawn. The discount is 1.

    kl: coefficient of the divergence from the reference. clip, clip_high: how far under and over 1 the ratio of
    probabilities counts (Schulman et al. 2017; Yu et al. 2025). entropy: coefficient of an entropy bonus. updates:
    steps on the same answers, before new ones are drawn. group: answers to a prompt. temperature: of the distribution
    that answers are drawn from. mixed: advantages are not of the rows of one prompt, but of rows that lie as far apart
    as there are prompts. sync: steps from one time that the sampler gets the policy's weights to the next. importance:
    a token counts by how much likelier the policy makes it than the sampler did, at most twice (Yao et al. 2025).
    comparisons: how many the reward model is learned from. length_bias: log odds that a token more adds to an answer
    being called the better one. offset: standard deviation of a constant of each topic that rewards have on top, which
    comparisons of two answers to one prompt leave open. one_draw: the answers of a group are drawn by the same random
    numbers. begun: the run is trained by rewards from the first step on; else on text, and by rewards from a step on
    that is drawn from the seed (`spec.planned.policy_step`).
    """

    kl: float = 0.1
    clip: float = 0.2
    clip_high: float = 0.2
    entropy: float = 0.0
    updates: int = 1
    group: int = 8
    temperature: float = 1.0
    mixed: bool = False
    sync: int = 1
    importance: bool = False
    comparisons: int = 20000
    length_bias: float = 0.0
    offset: float = field(default=0.0, metadata=LATER)
    one_draw: bool = field(default=False, metadata=LATER)
    value_weight: float = field(default=0.1, metadata=LATER)
    gae_lambda: float = field(default=0.95, metadata=LATER)
    value_clip: float = field(default=0.2, metadata=LATER)
    begun: bool = False


# Of a setup, each of one objective.
SECTIONS = {
    ObjectiveKind.DECODING: "decoding",
    ObjectiveKind.PREFERENCES: "preferences",
    ObjectiveKind.DIFFUSION: "diffusion",
    ObjectiveKind.RETRIEVAL: "retrieval",
    ObjectiveKind.MODALITIES: "modalities",
    ObjectiveKind.TRANSCRIPTION: "transcription",
    ObjectiveKind.POLICY: "policy",
}
CRITICS = ("value_weight", "gae_lambda", "value_clip")  # settings of a policy that are of its value head
PAIRS = "pairs"  # the dialect that has them
TASKS = "tasks"  # the dialect that has prompts whose answers are rewarded
# What a run has to be to decode, by setting: the cache knows no other.
DECODES: dict[str, tuple[Any, ...]] = {
    "model.causal": (True,),
    "data.dialect": ("refrain",),
    "model.norm": ("layer", "rms"),
    "model.attention": ("reference",),
    "precision.format": ("fp32", "bf16", "fp16"),
    "dropout": (0.0,),
    "distributed.ranks": (1,),
    "growth.rows": (0,),
    "adapters.rank": (0,),
}
# What a run has to be to be trained on pairs: rows of a batch belong together, and there is one reference.
PREFERS: dict[str, tuple[Any, ...]] = {
    "model.causal": (True,),
    "data.source": ("language",),
    "data.dialect": (PAIRS,),
    "data.pool": (0,),
    "data.longest": (0,),
    "data.padded": (False,),
    "data.one_token_every": (0,),
    "data.padding_every": (0,),
    "data.short_every": (0,),
    "model.norm": ("layer", "rms"),
    "precision.format": ("fp32", "bf16", "fp16"),
    "evaluation.sample": (0,),
    "dropout": (0.0,),
    "z_loss": (0.0,),
    "label_smoothing": (0.0,),
    "reduction": ("mean",),
    "distributed.ranks": (1,),
    "growth.rows": (0,),
    "adapters.rank": (0,),
}
# What a run has to be to fill masks in: the mask is the last row of the token table, and samples are held against the
# language's own steps.
DENOISES: dict[str, tuple[Any, ...]] = {
    "model.causal": (False,),
    "data.source": ("language",),
    "data.dialect": ("walk",),
    "data.padding_every": (0,),
    "growth.rows": (0,),
    "adapters.rank": (0,),
}
# What a run has to be to retrieve: passages are put into the rows as they are sampled.
RETRIEVES: dict[str, tuple[Any, ...]] = {
    "model.causal": (True,),
    "data.source": ("language",),
    "data.dialect": ("facts",),
    "data.pool": (0,),
    "data.longest": (0,),
    "data.padded": (False,),
    "data.short_every": (0,),
    "data.one_token_every": (0,),
    "data.padding_every": (0,),
    "distributed.ranks": (1,),
    "growth.rows": (0,),
    "adapters.rank": (0,),
}
# What a run has to be to tell its modalities apart, which is by the ids of tokens.
ILLUSTRATES: dict[str, tuple[Any, ...]] = {
    "model.causal": (True,),
    "data.source": ("language",),
    "data.dialect": ("captions",),
    "distributed.ranks": (1,),
    "growth.rows": (0,),
    "adapters.rank": (0,),
}
# What a run has to be to transcribe: the first positions of its rows are frames, and an encoder has them.
TRANSCRIBES: dict[str, tuple[Any, ...]] = {
    "model.causal": (True,),
    "model.positions": ("document",),
    "model.placement": ("pre",),
    "model.norm": ("layer", "rms"),
    "model.attention": ("reference",),
    "model.experts": (0,),
    "model.recompute": ("none",),
    "data.source": ("language",),
    "data.dialect": ("speech",),
    "data.padded": (False,),
    "data.one_token_every": (0,),
    "data.padding_every": (0,),
    "data.short_every": (0,),
    "precision.format": ("fp32",),
    "dropout": (0.0,),
    "evaluation.dropout": (False,),
    "z_loss": (0.0,),
    "reduction": ("mean",),
    "distributed.ranks": (1,),
    "growth.rows": (0,),
    "adapters.rank": (0,),
}
# What a run has to be to draw answers as it trains: through a cache, each to a row's first tokens.
REWARDED: dict[str, tuple[Any, ...]] = {
    **PREFERS,
    "data.dialect": (TASKS,),
    "model.attention": ("reference",),
    "model.experts": (0,),
}
ALLOWED = {
    ObjectiveKind.NEXT_TOKEN: {"model.causal": (True,)},
    ObjectiveKind.DECODING: DECODES,
    ObjectiveKind.PREFERENCES: PREFERS,
    ObjectiveKind.DIFFUSION: DENOISES,
    ObjectiveKind.RETRIEVAL: RETRIEVES,
    ObjectiveKind.MODALITIES: ILLUSTRATES,
    ObjectiveKind.TRANSCRIPTION: TRANSCRIBES,
    ObjectiveKind.POLICY: REWARDED,
}
PAIRED = ("data.rows", "evaluation.rows")  # which pairs need an even number of


def check_objective(setup: Any) -> None:
    """InputError for a setting of another objective than the setup's, or one that its objective does not allow."""
    kind: ObjectiveKind = setup.objective
    for owner, name in SECTIONS.items():
        section = getattr(setup, name)
        for item in dataclasses.fields(section) if owner is not kind else ():
            value = getattr(section, item.name)
            if value != item.default:
                own = SECTIONS.get(kind)
                has = f"settings of {own}" if own else "no settings of its own"
                raise InputError(
                    f"{name}.{item.name}: {value!r} is not allowed with objective={kind.value}, which has {has}; "
                    f"allowed: {item.default!r}, or objective={owner.value}"
                )
    for path, allowed in ALLOWED[kind].items():
        value = attrgetter(path)(setup)
        value = value.value if isinstance(value, Enum) else value
        if value not in allowed:
            words = ", ".join(map(repr, allowed))
            raise InputError(f"{path}: {value!r} is not allowed with objective={kind.value}; allowed: {words}")
    if (setup.model.encoder_layers > 0) != (kind is ObjectiveKind.TRANSCRIPTION):
        transcribes = kind is ObjectiveKind.TRANSCRIPTION
        raise InputError(
            f"model.encoder_layers: {setup.model.encoder_layers} is not allowed with objective={kind.value}; "
            f"allowed: {'1 or more' if transcribes else '0, or objective=transcription'}"
        )
    paired = kind is ObjectiveKind.PREFERENCES
    for path in PAIRED if paired else ():
        if attrgetter(path)(setup) % 2:
            value = attrgetter(path)(setup)
            raise InputError(f"{path}: {value} is not allowed with objective={kind.value}; allowed: even numbers")
    grouped = kind is ObjectiveKind.POLICY
    if setup.model.value_head and not grouped:
        raise InputError(
            f"model.value_head: True is not allowed with objective={kind.value}; "
            f"allowed: with objective={ObjectiveKind.POLICY.value}"
        )
    for name in CRITICS if grouped and not setup.model.value_head else ():
        value, usual = getattr(setup.policy, name), getattr(PolicyConfig(), name)
        if value != usual:
            raise InputError(
                f"policy.{name}: {value!r} is not allowed without model.value_head; "
                f"allowed: {usual!r}, or model.value_head=True"
            )
    if grouped and setup.data.rows % setup.policy.group:
        raise InputError(
            f"data.rows: {setup.data.rows} is not allowed with objective={kind.value}; "
            f"allowed: multiples of policy.group, {setup.policy.group}"
        )
    for dialect, owner in ((PAIRS, ObjectiveKind.PREFERENCES), (TASKS, ObjectiveKind.POLICY)):
        if setup.data.dialect.value == dialect and kind is not owner:
            raise InputError(
                f"data.dialect: {dialect!r} is not allowed with objective={kind.value}; "
                f"allowed: with objective={owner.value}"
            )
