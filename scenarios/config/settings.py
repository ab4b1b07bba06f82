"""The configuration of one training run, as nested keyword-only dataclasses.

Units: steps count optimizer updates; losses are nats per token.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.models.config import LATER, Format, ModelConfig, OptimizerKind, Recompute
from trainwreck.scenarios.config.experts import EXPERT_RANGES, RoutingConfig, check_experts
from trainwreck.scenarios.config.objectives import (
    DecodingConfig,
    DiffusionConfig,
    ModalitiesConfig,
    ObjectiveKind,
    PolicyConfig,
    PreferencesConfig,
    RetrievalConfig,
    TranscriptionConfig,
    check_objective,
)


class SourceKind(Enum):
    """Where tokens come from."""

    LANGUAGE = "language"  # sources.language: synthetic, entropy known
    TEXT = "text"  # sources.text: bytes of files


class Dialect(Enum):
    """Which tokens the language has."""

    FULL = "full"  # every structure
    CHAIN = "chain"  # content alone, mostly a sharp Markov chain: needs no attention
    RECALL = "recall"  # short documents full of names whose attribute holds for the document
    ECHO = "echo"  # a chain with triggers that copy the token three back: needs attention, learnt soon
    FAR_ECHO = "far_echo"  # triggers that copy the token two or sixteen back, in documents of 33 tokens
    CHAT = "chat"  # rows of a prompt, an answer to it and its end, then padding; the answer alone is scored
    WALK = "walk"  # a chain whose next token depends on the one before alone, in documents of 17 tokens
    REFRAIN = "refrain"  # rows of a verse and its refrain, which repeats it; the refrain alone is scored
    RULES = "rules"  # hardly anything but operators, and what they make of a token: needs the MLP
    PAIRS = "pairs"  # text in plain and coarse forms of words, then pairs of a plain and a coarse answer to a prompt
    FACTS = "facts"  # rows of a passage, a question and its answer, again and again; the answers alone are scored
    TASKS = "tasks"  # rows of a prompt, an answer of mixed quality and its end; the answer alone is scored
    SPEECH = "speech"  # rows of frames of speech and their transcript; the transcript alone is scored
    CAPTIONS = "captions"  # rows of pictures, patch by patch, each with its caption


class Reduction(Enum):
    """How the losses of a batch's tokens become one number."""

    MEAN = "mean"
    SUM = "sum"


class Decay(Enum):
    """Shape of the learning rate after the warm-up."""

    COSINE = "cosine"
    LINEAR = "linear"
    CONSTANT = "constant"
    WSD = "wsd"  # warm-up, stable, decay: the peak, and a linear decay over the last fifth


class LossForm(Enum):
    """How the loss is computed; all but the first are wrong on purpose."""

    LOG_SUM_EXP = "log_sum_exp"
    LOG_OF_SOFTMAX = "log_of_softmax"  # kernels.cross_entropy.naive
    FIRST_FACTOR = "first_factor"  # kernels.cross_entropy.first_factor


@dataclass(kw_only=True)
class DataConfig:
    """Training data. `language_seed` draws the language; `text` is a file, empty for the default.

    pool: rows that there are, in a new order each epoch; 0 for rows without end. longest: tokens of a row
    that are kept, the rest is padding; 0 for all.
    padded: a row has one document and then padding, in place of packed documents.
    short_every: of so many rows of a training batch the last has two tokens, one of them to be predicted, and then
    padding; 0 for none.
    rare_words: so many of a training row's first tokens, every second one, are rare words: of ids that the source does
    not use, and not scored.
    one_token_every, padding_every: of so many training batches one, drawn, repeats a single token, or has a row
    that ends in padding; 0 for none.
    """

    source: SourceKind = SourceKind.LANGUAGE
    dialect: Dialect = Dialect.FULL
    rows: int = 12
    language_seed: int = 0
    text: str = ""
    pool: int = field(default=0, metadata=LATER)
    longest: int = field(default=0, metadata=LATER)
    padded: bool = field(default=False, metadata=LATER)
    one_token_every: int = field(default=0, metadata=LATER)
    padding_every: int = field(default=0, metadata=LATER)
    short_every: int = field(default=0, metadata=LATER)
    rare_words: int = field(default=0, metadata=LATER)


@dataclass(kw_only=True)
class OptimizerConfig:
    """Optimizer. `clip` is the largest gradient norm let through, None to let all through.

    For SGD beta1 is the momentum; beta2 and eps are not used. Lion has no eps. Under Muon beta1 is its matrices'
    momentum too; their updates are as large as AdamW's, so that all weights share one rate. coupled: the decay is added
    to the gradient, as L2 regularisation, and not to the update. update_clip: largest RMS of g / sqrt(v) of a parameter
    at which Adam makes a whole step, None for no bound.
    """

    kind: OptimizerKind = OptimizerKind.ADAMW
    lr: float = 1e-2
    beta1: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.1
    clip: float | None = 1.0
    coupled: bool = field(default=False, metadata=LATER)
    update_clip: float | None = field(default=None, metadata=LATER)


@dataclass(kw_only=True)
class ScheduleConfig:
    """Linear warm-up, then decay to `final_fraction` of the peak at the last step, which is then kept.

    total_steps: the length that the schedule is made for, None for the run's own. calls: how often the
    scheduler is stepped in each step.
    """

    warmup_steps: int = 30
    decay: Decay = Decay.COSINE
    final_fraction: float = 0.1
    total_steps: int | None = field(default=None, metadata=LATER)
    calls: int = field(default=1, metadata=LATER)


@dataclass(kw_only=True)
class PrecisionConfig:
    """Format of matrix products, and the loss scale that keeps float16 gradients in range.

    weights, second_moments: formats in which these are kept between steps. amax_updates: whether float8's scales follow
    the largest magnitudes of the steps.

    The defaults of the dynamic scale are PyTorch's, with an interval that suits short runs.
    """

    format: Format = Format.FP32
    loss_scale: float = 1.0
    dynamic: bool = False
    growth_interval: int = 100
    smallest_scale: float = 1.0
    largest_scale: float = 2.0**24
    weights: Format = field(default=Format.FP32, metadata=LATER)
    second_moments: Format = field(default=Format.FP32, metadata=LATER)
    amax_updates: bool = field(default=True, metadata=LATER)


@dataclass(kw_only=True)
class DistributedConfig:
    """Data-parallel training: each of `ranks` processes trains on every `ranks`-th row of the batch."""

    ranks: int = 1


@dataclass(kw_only=True)
class GrowthConfig:
    """A token table that grows in mid-run, at a step drawn from the seed (`spec.planned.growth_step`).

    rows: of the table from then on; 0 for one that keeps its size. share: of the tokens that are from then on written
    with a new id, which is that of the old one and the rows that there were. Held-out rows stay as they are.
    """

    rows: int = 0
    share: float = 0.1


@dataclass(kw_only=True)
class AdapterConfig:
    """Fine-tuning by adapters, from a step on that is drawn from the seed (`spec.planned.adapter_step`).

    rank: of the adapters, 0 for a run that stays what it is; what they add is scaled by `model.lora_alpha`.
    language_seed: of the language that rows are in from then on, held-out ones too. Of what there was before, only the
    last norm is trained on.
    """

    rank: int = 0
    language_seed: int = 1


@dataclass(kw_only=True)
class EvaluationConfig:
    """A fixed held-out set of `rows` rows, evaluated every `every` steps and at the last one.

    fresh: as many other rows are evaluated as well.
    dropout: evaluate with the dropout of training. average: decay of the moving average of the weights
    that is evaluated in place of them; 0 for the weights themselves.
    sample: rows drawn from the set at each evaluation but the last; 0 for all of them.
    """

    every: int = 25
    rows: int = 48
    fresh: bool = field(default=False, metadata=LATER)
    dropout: bool = field(default=False, metadata=LATER)
    average: float = field(default=0.0, metadata=LATER)
    sample: int = field(default=0, metadata=LATER)


@dataclass(kw_only=True)
class Setup:
    """Everything that decides a healthy run, given its seed.

    tail: steps a run goes on for after its loss has become non-finite, so that the aftermath is
    on record. label_smoothing: share of the training target that is spread over all tokens. log_objective:
    the logged loss is what is minimised, z-loss and all.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig, metadata=LATER)
    growth: GrowthConfig = field(default_factory=GrowthConfig, metadata=LATER)
    adapters: AdapterConfig = field(default_factory=AdapterConfig, metadata=LATER)
    objective: ObjectiveKind = field(default=ObjectiveKind.NEXT_TOKEN, metadata=LATER)
    decoding: DecodingConfig = field(default_factory=DecodingConfig, metadata=LATER)
    routing: RoutingConfig = field(default_factory=RoutingConfig, metadata=LATER)
    preferences: PreferencesConfig = field(default_factory=PreferencesConfig, metadata=LATER)
    diffusion: DiffusionConfig = field(default_factory=DiffusionConfig, metadata=LATER)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig, metadata=LATER)
    modalities: ModalitiesConfig = field(default_factory=ModalitiesConfig, metadata=LATER)
    transcription: TranscriptionConfig = field(default_factory=TranscriptionConfig, metadata=LATER)
    policy: PolicyConfig = field(default_factory=PolicyConfig, metadata=LATER)
    steps: int = 400
    dropout: float = 0.0
    z_loss: float = 0.0
    loss: LossForm = field(default=LossForm.LOG_SUM_EXP, metadata=LATER)
    tail: int = 20
    label_smoothing: float = field(default=0.0, metadata=LATER)
    reduction: Reduction = field(default=Reduction.MEAN, metadata=LATER)
    log_objective: bool = field(default=False, metadata=LATER)


UNDER_ONE = 0.999999  # Adam divides by 1 - beta
# What a CPU's cache line holds: other shapes are summed in an order that depends on the bundle.
ALIGNED, MULTIPLE = ("model.width", "model.context", "model.vocab_size"), 16

# What a run has to be to have rare words, by setting: they are drawn in each step, and nothing else has their ids.
WITH_RARE_WORDS: dict[str, tuple[Any, ...]] = {
    "objective": (ObjectiveKind.NEXT_TOKEN,),
    "data.source": (SourceKind.LANGUAGE,),
    "data.dialect": (
        Dialect.FULL, Dialect.CHAIN, Dialect.RECALL, Dialect.ECHO, Dialect.FAR_ECHO, Dialect.WALK, Dialect.RULES,
    ),
    "data.pool": (0,),
    "data.padded": (False,),
    "data.one_token_every": (0,),
    "data.padding_every": (0,),
    "growth.rows": (0,),
    "adapters.rank": (0,),
}  # fmt: skip
LARGEST = 60  # ids of a dialect

KEPT = ("precision.weights", "precision.second_moments")  # without the scales that float8 needs

# Settings that may be None.
OPTIONAL = ("optimizer.clip", "optimizer.update_clip", "schedule.total_steps")

# Setting to (lowest, highest, whether the lowest itself is allowed).
RANGES: dict[str, tuple[float, float, bool]] = {
    "steps": (1, 10**7, True),
    "tail": (0, 10**6, True),
    "dropout": (0, 0.95, True),
    "z_loss": (0, 1, True),
    "label_smoothing": (0, 1, True),
    "model.init.mlp_bias": (-1e3, 1e3, True),
    "model.init.embedding_std": (0, 1e5, True),
    "model.init.matrix_std": (0, 1e3, True),
    "model.init.residual_std": (0, 1e5, True),
    "model.init.head_std": (0, 1e3, True),
    "model.init.new_rows_std": (0, 1e3, True),
    "data.rows": (1, 10**5, True),
    "data.language_seed": (0, 2**62, True),
    "data.pool": (0, 10**6, True),
    "data.longest": (0, 10**6, True),
    "data.one_token_every": (0, 10**6, True),
    "data.padding_every": (0, 10**6, True),
    "data.short_every": (0, 10**5, True),
    "data.rare_words": (0, 2**15, True),
    "distributed.ranks": (1, 64, True),
    "adapters.rank": (0, 2**16, True),
    "adapters.language_seed": (0, 2**62, True),
    "growth.rows": (0, 2**22, True),
    "growth.share": (0, 1, True),
    "decoding.scheduled_sampling": (0, 1, True),
    "preferences.beta": (0, 1e3, False),
    "preferences.anchor": (0, 1e3, True),
    "diffusion.emphasis": (0, 100, True),
    "retrieval.refresh": (0, 10**6, True),
    "modalities.picture_weight": (0, 1e6, True),
    "transcription.noise": (0, 1e3, True),
    "policy.kl": (0, 1e3, True),
    "policy.clip": (0, 1, True),
    "policy.clip_high": (0, 1e3, True),
    "policy.entropy": (-1e3, 1e3, True),
    "policy.updates": (1, 10**5, True),
    "policy.group": (2, 10**4, True),
    "policy.temperature": (0, 1e3, False),
    "policy.sync": (1, 10**6, True),
    "policy.comparisons": (1, 10**6, True),
    "policy.length_bias": (-1e3, 1e3, True),
    "policy.offset": (0, 1e3, True),
    "policy.value_weight": (0, 1e6, True),
    "policy.gae_lambda": (0, 1, True),
    "policy.value_clip": (0, 1e6, False),
    "optimizer.lr": (0, 1e4, True),
    "optimizer.beta1": (0, UNDER_ONE, True),
    "optimizer.beta2": (0, UNDER_ONE, True),
    "optimizer.eps": (0, 1e3, True),
    "optimizer.weight_decay": (0, 1e4, True),
    "optimizer.clip": (0, 1e12, False),
    "optimizer.update_clip": (0, 1e12, False),
    "schedule.warmup_steps": (0, 10**7, True),
    "schedule.final_fraction": (0, 1, True),
    "schedule.total_steps": (1, 10**7, True),
    "schedule.calls": (1, 10**4, True),
    "precision.loss_scale": (0, 2.0**40, False),
    "precision.growth_interval": (1, 10**7, True),
    "precision.smallest_scale": (0, 2.0**40, False),
    "precision.largest_scale": (0, 2.0**40, False),
    "evaluation.every": (1, 10**7, True),
    "evaluation.rows": (1, 10**5, True),
    "evaluation.average": (0, 1, True),
    "evaluation.sample": (0, 10**5, True),
    **EXPERT_RANGES,
}


def check(setup: Setup) -> None:
    """InputError for the first setting that is out of range."""
    for path, (low, high, inclusive) in RANGES.items():
        value = get(setup, path)
        if value is None and path in OPTIONAL:
            continue
        if value is None or not (low <= value <= high) or (value == low and not inclusive):
            bound = f"{low:g}" if inclusive else f"over {low:g}"
            raise InputError(f"{path}: {value!r} is not allowed; allowed: {bound} to {high:g}")
    for path in KEPT:
        if get(setup, path) is Format.FP8:
            allowed = ", ".join(f.value for f in Format if f is not Format.FP8)
            raise InputError(f"{path}: 'fp8' is not allowed; allowed: {allowed}")
    if setup.precision.format is Format.FP8 and setup.model.recompute is not Recompute.NONE:
        how = setup.model.recompute.value  # the second pass would have the scales of the next step
        raise InputError(f"model.recompute: {how!r} is not allowed with precision.format=fp8; allowed: 'none'")
    for path in ALIGNED:
        if get(setup, path) % MULTIPLE:
            raise InputError(f"{path}: {get(setup, path)} is not allowed; allowed: multiples of {MULTIPLE}")
    check_objective(setup)
    check_experts(setup)
    if 0 < setup.growth.rows < setup.model.vocab_size:
        rows = f"0, or model.vocab_size, {setup.model.vocab_size}, and more"
        raise InputError(f"growth.rows: {setup.growth.rows} is not allowed; allowed: {rows}")
    if setup.model.lora_rank not in (0, setup.adapters.rank):
        rank = setup.model.lora_rank
        raise InputError(f"model.lora_rank: {rank} is not allowed without a frozen base; allowed: adapters.rank={rank}")
    if setup.adapters.rank > setup.model.width:
        widest = f"0 to model.width, {setup.model.width}"
        raise InputError(f"adapters.rank: {setup.adapters.rank} is not allowed; allowed: {widest}")
    if setup.data.short_every and setup.data.dialect is Dialect.CHAT:
        every = setup.data.short_every  # a row's first tokens are a prompt's, which is not scored
        raise InputError(f"data.short_every: {every} is not allowed with data.dialect=chat; allowed: 0")
    if setup.data.rare_words:
        _check_rare_words(setup)
    if setup.data.rows % setup.distributed.ranks:
        ranks = f"distributed.ranks, {setup.distributed.ranks}"
        raise InputError(f"data.rows: {setup.data.rows} is not allowed; allowed: multiples of {ranks}")


def _check_rare_words(setup: Setup) -> None:
    words, table = setup.data.rare_words, setup.model.vocab_size
    for path, possible in WITH_RARE_WORDS.items():
        if get(setup, path) not in possible:
            other = as_dict(get(setup, path))
            raise InputError(f"data.rare_words: {words} is not allowed with {path}={other}; allowed: 0")
    if table <= LARGEST:
        tables = f"model.vocab_size={table}; allowed: 0, or a table over {LARGEST}"
        raise InputError(f"data.rare_words: {words} is not allowed with {tables}")
    if 2 * words > setup.model.context:
        most = f"0 to half of model.context, {setup.model.context // 2}"
        raise InputError(f"data.rare_words: {words} is not allowed; allowed: {most}")


def get(setup: Setup, path: str) -> Any:
    """The value at a dotted path."""
    node: Any = setup
    for name in path.split("."):
        _check_field(node, name, path)
        node = getattr(node, name)
    return node


def replace(setup: Setup, path: str, value: Any) -> Setup:
    """A copy with the value at a dotted path replaced; the rest is shared. InputError for one that a part refuses."""

    def rebuild(node: Any, names: list[str]) -> Any:
        _check_field(node, names[0], path)
        inner = value if len(names) == 1 else rebuild(getattr(node, names[0]), names[1:])
        return dataclasses.replace(node, **{names[0]: inner})

    try:
        changed: Setup = rebuild(setup, path.split("."))
    except InputError:
        raise
    except ValueError as error:  # a part of the model's configuration says so
        raise InputError(str(error)) from error
    return changed


def replaced(setup: Setup, **values: Any) -> Setup:
    """`replace` for several paths at once; `__` stands for the dot: optimizer__lr=1e-3."""
    for name, value in values.items():
        setup = replace(setup, name.replace("__", "."), value)
    return setup


def as_dict(node: Any) -> Any:
    """Plain JSON types of a setup; an Enum is its value."""
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return {f.name: as_dict(getattr(node, f.name)) for f in dataclasses.fields(node)}
    return node.value if isinstance(node, Enum) else node


def leaves(node: Any, prefix: str = "") -> dict[str, Any]:
    """Every plain value below a dataclass or a dictionary by its dotted path."""
    if dataclasses.is_dataclass(node):
        parts = {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    elif isinstance(node, dict):
        parts = node
    else:
        return {prefix: node}
    return {k: v for name, part in parts.items() for k, v in leaves(part, f"{prefix}.{name}".lstrip(".")).items()}


def essence(node: Any) -> Any:
    """What names a run: `as_dict` without settings marked `LATER` that have their default."""
    if not hasattr(node, "__dataclass_fields__") or isinstance(node, type):
        return node.value if isinstance(node, Enum) else node
    found = {}
    for name, item in _fields(node.__class__):
        value = getattr(node, name)
        if item is None or value != (item.default_factory() if item.default is dataclasses.MISSING else item.default):
            found[name] = essence(value)
    return found


@cache
def _fields(kind: type) -> tuple[tuple[str, Any], ...]:
    """Names of a dataclass's fields, each with the field where it is marked `LATER`."""
    return tuple((f.name, f if f.metadata.get("later") else None) for f in dataclasses.fields(kind))


def fingerprint(content: Any) -> str:
    """A short hash of JSON-like content or of a setup; equal content, equal hash."""
    text = json.dumps(essence(content), sort_keys=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _check_field(node: Any, name: str, path: str) -> None:
    if not dataclasses.is_dataclass(node):
        raise InputError(f"setting: {path!r} is not allowed; {name!r} is below a plain value")
    if name not in node.__dataclass_fields__:
        raise unknown(f"setting {path!r}", name, [f.name for f in dataclasses.fields(node)])
