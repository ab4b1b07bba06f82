"""What a model and its optimizer are made of. Runs of one bundle share a `ModelConfig`; what differs is a tensor.

Settings alone: torch is imported by the modules that compute.
"""

import math
from dataclasses import dataclass, field
from enum import Enum

# Metadata of a setting that came after the first release of names: at its default it leaves no mark on them.
LATER = {"later": True}


class Norm(Enum):
    """LayerNorm (Ba et al. 2016) or RMSNorm (Zhang and Sennrich 2019); the third is wrong on purpose."""

    LAYER = "layer"
    RMS = "rms"
    BATCH = "batch"  # models.variants.batch_norm: over the tokens of the batch, not over the features of a token


class Variance(Enum):
    """How a LayerNorm forms its denominator; RMSNorm has no variance. The other two are wrong on purpose."""

    TWO_PASS = "two_pass"  # sqrt(mean((x - mean)^2) + eps)
    ONE_PASS = "one_pass"  # sqrt(mean(x^2) - mean(x)^2 + eps)
    EPS_OUTSIDE = "eps_outside"  # sqrt(mean((x - mean)^2)) + eps


class Placement(Enum):
    """Norm inside the residual branch (pre-LN) or after the sum (Post-LN); Xiong et al. 2020."""

    PRE = "pre"
    POST = "post"


class Activation(Enum):
    """MLP non-linearity. SwiGLU (Shazeer 2020) has a gate, so a third matrix of the same width."""

    GELU = "gelu"
    RELU = "relu"
    SWIGLU = "swiglu"


class Positions(Enum):
    """How a token knows its place: rotary embedding (Su et al. 2021), or a learned vector that is added to its own.

    Learned vectors (Vaswani et al. 2017) are looked up by the place in the document; by that in the row, on packed
    documents, is wrong on purpose.
    """

    ROTARY = "rotary"
    DOCUMENT = "document"
    ROW = "row"


class Recompute(Enum):
    """Whether a layer's activations are kept for the backward pass, or computed again in it (Chen et al. 2016).

    Computed again with dropout masks that the forward pass did not have is wrong on purpose.
    """

    NONE = "none"
    SAME_MASKS = "same_masks"
    OTHER_MASKS = "other_masks"


class Format(Enum):
    """The number format of matrix products, or of what is kept between steps."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"  # products in the layers alone, see models/precision.py


class OptimizerKind(Enum):
    """The rule that turns gradients into updates.

    SGD has heavy-ball momentum and decoupled decay, which is SGDW (Loshchilov and Hutter 2019). Lion: Chen et al. 2023.
    Muon is for the matrices between embedding and head, and leaves the rest to AdamW (`models/muon.py`).
    """

    ADAMW = "adamw"
    SGD = "sgd"
    LION = "lion"
    MUON = "muon"


@dataclass(kw_only=True)
class Init:
    """Standard deviations of the normal initialisation. Biases start at 0, gains at 1.

    Matrices of a residual branch's end are divided by sqrt(2 * layers) (GPT-2) where `scale_residual` is set;
    residual_std is theirs instead where it is over 0. mlp_bias is what the biases of an MLP's hidden units start at
    instead of 0. zero_padding: the last row of the token table starts at 0, as that of a padding id does.
    new_rows_std is that of rows that the token table and the head get in mid-run; 0 for the mean of the old ones.
    router_std is that of the routers of experts.
    """

    embedding_std: float = 0.09
    matrix_std: float = 0.09
    head_std: float = 0.02
    scale_residual: bool = True
    mlp_bias: float = field(default=0.0, metadata=LATER)
    residual_std: float = field(default=0.0, metadata=LATER)
    zero_padding: bool = field(default=False, metadata=LATER)
    new_rows_std: float = field(default=0.0, metadata=LATER)
    router_std: float = field(default=0.02, metadata=LATER)


# Of each size: above what a machine's memory holds, and small enough that the memory needed can be computed.
LARGEST = {
    "layers": 4096, "width": 2**16, "heads": 2**12, "mlp_ratio": 256, "vocab_size": 2**22, "context": 2**16,
    "experts_per_token": 64, "expert_units": 2**16, "frame_width": 2**16,
}  # fmt: skip

MOST_EXPERTS, MOST_ENCODER_LAYERS = 4096, 4096
CAPACITY = 0.25, 64.0  # with less three tokens in four are dropped, and more


@dataclass(kw_only=True)
class ModelConfig:
    """A decoder-only transformer (GPT), or one that reads to both sides.

    vocab_size counts the rows of the token table, which may be more than the source's tokens, as
    tables are padded in practice. residual_gain multiplies the shortcut (DeepNorm, Wang et al.
    2022, uses (2 * layers) ** 0.25 with Post-LN). attention names a variant of kernels.attention.
    tied: the head's weights are the token table (Press and Wolf 2017), one parameter, which starts and is updated as
    the table is: without weight decay, and by AdamW under Muon.
    causal: a token sees itself and those before it; without, all of its document.
    lora_rank: of the adapters on every matrix of the layers, 0 for none. With them a matrix W computes as
    W + (lora_alpha / lora_rank) A B, where B starts at 0 (LoRA, Hu et al. 2021).
    encoder_layers: of an encoder of frames, which every layer then attends to as well; 0 for no encoder
    (`models.encoding`). frame_width: features of a frame.
    experts: of every layer, in the place of its MLP; 0 for an MLP. Each is an MLP of expert_units, and a router sends a
    token to experts_per_token of them (Shazeer et al. 2017). One takes capacity times an even share of the tokens, and
    those that come after are dropped: nothing is added to their residual stream (Switch, Fedus et al. 2021).
    value_head: a column of weights beside the head, which starts at 0, and reads a number off each final state.
    """

    layers: int = 2
    width: int = 64
    heads: int = 4
    mlp_ratio: int = 4
    vocab_size: int = 64
    context: int = 64
    norm: Norm = Norm.LAYER
    variance: Variance = field(default=Variance.TWO_PASS, metadata=LATER)
    placement: Placement = Placement.PRE
    activation: Activation = Activation.GELU
    bias: bool = True
    qk_norm: bool = False
    norm_eps: float = 1e-5
    residual_gain: float = 1.0
    rope_base: float = 10000.0
    positions: Positions = field(default=Positions.ROTARY, metadata=LATER)
    tied: bool = field(default=False, metadata=LATER)
    causal: bool = field(default=True, metadata=LATER)
    recompute: Recompute = field(default=Recompute.NONE, metadata=LATER)
    attention: str = "reference"
    lora_rank: int = field(default=0, metadata=LATER)
    lora_alpha: float = field(default=16.0, metadata=LATER)
    experts: int = field(default=0, metadata=LATER)
    experts_per_token: int = field(default=1, metadata=LATER)
    expert_units: int = field(default=64, metadata=LATER)
    capacity: float = field(default=1.25, metadata=LATER)
    value_head: bool = field(default=False, metadata=LATER)
    encoder_layers: int = field(default=0, metadata=LATER)
    frame_width: int = field(default=16, metadata=LATER)
    init: Init = field(default_factory=Init)

    def __post_init__(self) -> None:
        for name in LARGEST:
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"model.{name}: {value} is not allowed; allowed: 1 or more")
            if value > LARGEST[name]:
                raise ValueError(f"model.{name}: {value} is not allowed; allowed: 1 to {LARGEST[name]}")
        if self.width % (2 * self.heads):
            raise ValueError(
                f"model.width: {self.width} is not allowed with {self.heads} heads; "
                f"allowed: multiples of {2 * self.heads}"
            )
        if not 0 <= self.norm_eps < math.inf:
            raise ValueError(f"model.norm_eps: {self.norm_eps} is not allowed; allowed: 0 or more")
        if not 0 < self.rope_base < math.inf:
            raise ValueError(f"model.rope_base: {self.rope_base} is not allowed; allowed: over 0")
        if not 0 <= self.lora_rank <= self.width:
            raise ValueError(
                f"model.lora_rank: {self.lora_rank} is not allowed; allowed: 0 to model.width, {self.width}"
            )
        if not math.isfinite(self.lora_alpha):
            raise ValueError(f"model.lora_alpha: {self.lora_alpha} is not allowed; allowed: finite numbers")
        if not 0 <= self.experts <= MOST_EXPERTS:
            raise ValueError(f"model.experts: {self.experts} is not allowed; allowed: 0 to {MOST_EXPERTS}")
        if not 0 <= self.encoder_layers <= MOST_ENCODER_LAYERS:
            raise ValueError(
                f"model.encoder_layers: {self.encoder_layers} is not allowed; allowed: 0 to {MOST_ENCODER_LAYERS}"
            )
        if self.encoder_layers and (self.experts or self.placement is Placement.POST):
            raise ValueError(
                f"model.encoder_layers: {self.encoder_layers} is not allowed with experts or Post-LN; allowed: 0"
            )
        low, high = CAPACITY
        if not low <= self.capacity <= high:
            raise ValueError(f"model.capacity: {self.capacity} is not allowed; allowed: {low:g} to {high:g}")
        if not math.isfinite(self.residual_gain):
            raise ValueError(f"model.residual_gain: {self.residual_gain} is not allowed; allowed: finite numbers")
        if self.tied and self.placement is Placement.POST and not self.bias:
            raise ValueError(
                "model.tied: True is not allowed where a head has nothing of its own; allowed: with biases"
            )
        if self.recompute is not Recompute.NONE and self.norm is Norm.BATCH:
            raise ValueError(
                f"model.recompute: {self.recompute.value!r} is not allowed with a BatchNorm; allowed: 'none'"
            )

    @property
    def head_width(self) -> int:
        """Features of one head."""
        return self.width // self.heads

    @property
    def lora_scale(self) -> float:
        """alpha / r."""
        return self.lora_alpha / self.lora_rank

    @property
    def attention_scale(self) -> float:
        """1 / sqrt(head width)."""
        return 1.0 / math.sqrt(self.head_width)
