"""A GPT in which every tensor has a leading run dimension.

Shapes: N runs, B rows, T positions, M = B * T tokens, D width, H heads, K head width, V vocabulary.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainwreck.kernels import attention as kernels
from trainwreck.kernels.attention import AttentionStats, Mask, attention, reduce
from trainwreck.kernels.random import dropout_mask, generator, run_keys
from trainwreck.kernels.rotary import split_and_rotate
from trainwreck.models import variance
from trainwreck.models.batch_norm import RunningMoments
from trainwreck.models.config import Activation, ModelConfig, Norm, Placement, Variance
from trainwreck.models.precision import Format, linear, widen
from trainwreck.models.rotary import rotary_table


@dataclass
class Tables:
    """Tensors that steer attention, one a run: what a fault may replace.

    allowed_NTS: bool, keys a query may see. documents_N: bool, keys of other documents and padding
    are masked. scale_N: float, multiplies q k'. rotary_q_NTK, rotary_k_NTK: complex, [N, T, K/2].
    branch_gain_NL2: float, factor on what attention and MLP of each layer add; shortcut_gain_NL2: on what
    goes past them; logit_gain_N: on the output logits. None is 1 for all.
    bare_NL2: bool, attention and MLP of each layer whose norm leaves its input as it is; None is none.
    noise_N: float, standard deviation of noise in the residual stream after each layer; None is none.
    leaky: some run lets a query see the future, another document or padding.
    causal: in every run the mask is the causal one and documents are kept apart, so a kernel need not
    look at the tables. What the device holds isn't asked: who builds the tables has to say it.
    """

    allowed_NTS: Tensor
    documents_N: Tensor
    scale_N: Tensor
    rotary_q_NTK: Tensor
    rotary_k_NTK: Tensor
    branch_gain_NL2: Tensor | None = None
    shortcut_gain_NL2: Tensor | None = None
    logit_gain_N: Tensor | None = None
    bare_NL2: Tensor | None = None
    noise_N: Tensor | None = None
    leaky: bool = False
    causal: bool = False

    def mask(self, documents_NBT: Tensor) -> Mask:
        """What attention masks in a batch of these documents."""
        if self.causal:
            return Mask(documents_NBT, leaky=self.leaky)
        # Where nothing leaks, all runs keep to their documents.
        return Mask(documents_NBT, self.allowed_NTS, self.documents_N if self.leaky else None, self.leaky)


@dataclass
class Dropout:
    """Which draws dropout uses: rate_N with the seeds and the step of the runs, from streams under `prefix`."""

    seeds: list[int]
    step: int
    rate_N: Tensor
    prefix: str = "dropout"

    def mask(self, site: str, *shape: int) -> Tensor:
        """Scaled keep mask for one site of the model, [N, *shape]."""
        return dropout_mask(self.seeds, f"{self.prefix}/{site}", self.step, shape, self.rate_N)

    def probabilities(self, layer: str) -> kernels.Dropout:
        """The draws for a layer's attention probabilities, which no mask is made of here."""
        keys = run_keys(tuple(self.seeds), f"{self.prefix}/{layer}/probs", self.rate_N.device)
        return kernels.Dropout(keys, self.step, self.rate_N)


@dataclass
class Noise:
    """Which draws the noise in the stream uses: the seeds and the step of the runs."""

    seeds: list[int]
    step: int

    def draw(self, site: str, std_N: Tensor, *shape: int) -> Tensor:
        """Normal noise for one site of the model, [N, *shape]."""
        parts = [generator(seed, f"noise/{site}", self.step).standard_normal(shape) for seed in self.seeds]
        normal = torch.from_numpy(np.stack(parts)).to(std_N.device, std_N.dtype)
        return normal * std_N.view(-1, *[1] * len(shape))


@dataclass
class Probe:
    """What one forward pass leaves behind for statistics, one entry a layer."""

    attention: list[AttentionStats] = field(default_factory=list)
    stream: list[tuple[Tensor, Tensor, Tensor, Tensor]] = field(default_factory=list)
    fired: list[Tensor] = field(default_factory=list)

    @torch.no_grad()
    def see_stream(self, x_NMD: Tensor) -> None:
        """Look at the residual stream after a layer: mean, norm, largest and least."""
        flat = x_NMD.detach().flatten(1)
        norm = torch.linalg.vector_norm(flat, dim=1) / flat.shape[1] ** 0.5
        self.stream.append((flat.mean(1), norm, flat.amax(1), flat.amin(1)))

    @torch.no_grad()
    def see_hidden(self, hidden_NMF: Tensor) -> None:
        """Look at a layer's MLP units: the most that each fires, over the tokens of the batch."""
        self.fired.append(hidden_NMF.detach().amax(1))

    @torch.no_grad()
    def reduce(self) -> dict[str, Tensor]:
        """Every statistic by the name of its signal, each [N, L] ([N, L * H] for head_entropy)."""
        mean, norm, high, low = (torch.stack(parts, 1) for parts in zip(*self.stream, strict=True))
        return reduce(self.attention) | {
            "activation_mean": mean,
            "activation_std": (norm**2 - mean**2).clamp(min=0).sqrt(),
            "activation_max": torch.maximum(high, -low),
            # A unit is dead on a batch when it is over 0 for no token.
            "dead_share": (torch.stack(self.fired, 1) <= 0).float().mean(2),
        }


def healthy_tables(config: ModelConfig, runs: int, dtype: torch.dtype = torch.float32) -> Tables:
    """Causal mask, document mask, 1/sqrt(K) and matching rotary tables for every run."""
    t = config.context
    causal = torch.ones(t, t, dtype=torch.bool).tril()
    rotary = rotary_table(t, config.head_width, config.rope_base, dtype).expand(runs, -1, -1)
    return Tables(
        allowed_NTS=causal.expand(runs, t, t),
        documents_N=torch.ones(runs, dtype=torch.bool),
        scale_N=torch.full((runs,), config.attention_scale, dtype=dtype),
        rotary_q_NTK=rotary,
        rotary_k_NTK=rotary,
    )


def forward(
    params: dict[str, Tensor],
    tokens_NBT: Tensor,
    documents_NBT: Tensor,
    tables: Tables,
    config: ModelConfig,
    fmt: Format = Format.FP32,
    dropout: Dropout | None = None,
    probe: Probe | None = None,
    impl: str | None = None,
    noise: Noise | None = None,
    running: RunningMoments | None = None,
) -> Tensor:
    """Logits, [N, M, V].

    params: name to [N, *shape]. tokens: int64. documents: int64, the document of each token, -1 for
    padding. probe: collects statistics where given. impl: of the kernels, reference or triton, by the rule
    of `trainwreck.kernels.selection` where None. noise: draws of the noise that `tables` asks for.
    running: what a BatchNorm goes by or is to keep; needed with `Norm.BATCH` alone.
    """
    n, b, t = tokens_NBT.shape
    m, d = b * t, config.width
    pre = config.placement is Placement.PRE
    mask = tables.mask(documents_NBT)

    def weights(name: str) -> tuple[Tensor, Tensor | None]:
        return params[f"{name}.weight"], params.get(f"{name}.bias")

    def drop(x: Tensor, site: str) -> Tensor:
        return x if dropout is None else x * dropout.mask(site, m, d).to(x.dtype)

    def scale(name: str) -> tuple[Tensor, Tensor | None]:
        return params[f"{name}.gain"], params.get(f"{name}.bias")

    def at(norm: str) -> "Site | None":  # a string, since torch.compile can't evaluate it
        return None if running is None else (running, norm)

    def bare(layer: int, branch: int) -> Tensor | None:
        return None if tables.bare_NL2 is None else tables.bare_NL2[:, layer, branch]

    def enter(x: Tensor, norm: str, matrix: str, bare_N: Tensor | None = None) -> Tensor:
        """What a branch, or the head, begins with: under pre-LN its norm, then its matrix."""
        if pre:
            return norm_linear(x, *scale(norm), *weights(matrix), config, fmt, bare_N, at(norm))
        return linear(x, *weights(matrix), fmt)

    def attend(x: Tensor, layer: str, bare_N: Tensor | None) -> Tensor:
        qkv = enter(x, f"{layer}.attention_norm", f"{layer}.qkv", bare_N)
        if config.qk_norm:
            qkv = norm_heads(qkv, params[f"{layer}.qk_gain"], config)
        turns = tables.rotary_q_NTK, tables.rotary_k_NTK
        q, k, v = split_and_rotate(qkv.view(n, b, t, 3 * d), *turns, config.heads, impl=impl)
        out, stats = attention(
            q,
            k,
            v,
            mask=mask,
            scale_N=tables.scale_N,
            dropout=None if dropout is None else dropout.probabilities(layer),
            stats=probe is not None,
            variant=config.attention,
            impl=impl,
        )
        if probe is not None and stats is not None:
            probe.attention.append(stats)
        merged = out.transpose(2, 3).reshape(n, m, d)
        return drop(linear(merged, *weights(f"{layer}.attention_out"), fmt), f"{layer}/attention")

    def mlp(x: Tensor, layer: str, bare_N: Tensor | None) -> Tensor:
        hidden = enter(x, f"{layer}.mlp_norm", f"{layer}.mlp_in", bare_N)
        gate, up = hidden.chunk(2, -1) if config.activation is Activation.SWIGLU else (hidden, None)
        fired = activate(gate, config.activation)
        if probe is not None:
            probe.see_hidden(fired)
        fired = fired if up is None else fired * up
        return drop(linear(fired, *weights(f"{layer}.mlp_out"), fmt), f"{layer}/mlp")

    x = drop(embed(params["embedding.weight"], tokens_NBT.view(n, m)), "embedding")
    for i in range(config.layers):
        layer = f"layer_{i}"
        for j, (branch, norm) in enumerate(((attend, "attention_norm"), (mlp, "mlp_norm"))):
            shortcut = x if config.residual_gain == 1.0 else x * config.residual_gain
            if tables.shortcut_gain_NL2 is not None:
                shortcut = shortcut * tables.shortcut_gain_NL2[:, i, j].view(-1, 1, 1)
            added = branch(x, layer, bare(i, j))
            if tables.branch_gain_NL2 is not None:
                added = added * tables.branch_gain_NL2[:, i, j].view(-1, 1, 1)
            x = shortcut + added
            if not pre:
                x = normalise(x, *scale(f"{layer}.{norm}"), config, bare(i, j), at(f"{layer}.{norm}"))
        if tables.noise_N is not None and noise is not None:
            x = x + noise.draw(layer, tables.noise_N, m, d).to(x.dtype)
        if probe is not None:
            probe.see_stream(x)
    logits = enter(x, "final_norm", "head")
    return logits if tables.logit_gain_N is None else logits * tables.logit_gain_N.view(-1, 1, 1).to(logits.dtype)


Site = tuple[RunningMoments, str]  # of a norm of the batch: what it goes by, and its name


def embed(table_NVD: Tensor, tokens_NM: Tensor) -> Tensor:
    """Rows of each run's own table, [N, M, D]."""
    n, v, d = table_NVD.shape
    offset = torch.arange(n, device=tokens_NM.device).unsqueeze(1) * v
    return F.embedding((tokens_NM + offset).view(-1), table_NVD.reshape(n * v, d)).view(n, -1, d)


def standardise(x_NMD: Tensor, config: ModelConfig, bare_N: Tensor | None = None, site: Site | None = None) -> Tensor:
    """LayerNorm or RMSNorm over D without gain and shift, never in a half format; x itself in the bare runs.

    site: of a BatchNorm, which is over the tokens.
    """
    x = widen(x_NMD)
    if config.norm is Norm.BATCH:
        assert site is not None, "a BatchNorm needs what it goes by"
        running, name = site
        y = running.standardise(x, name, config.norm_eps)
        return y if bare_N is None else torch.where(bare_N.view(-1, 1, 1), x, y)
    if config.norm is Norm.LAYER and config.variance is not Variance.TWO_PASS:
        wrong = variance.one_pass if config.variance is Variance.ONE_PASS else variance.eps_outside
        return wrong(x, config.norm_eps)
    norm = F.layer_norm if config.norm is Norm.LAYER else F.rms_norm
    y = norm(x, x.shape[-1:], eps=config.norm_eps)
    return y if bare_N is None else torch.where(bare_N.view(-1, 1, 1), x, y)


def normalise(
    x_NMD: Tensor,
    gain_ND: Tensor,
    shift_ND: Tensor | None,
    config: ModelConfig,
    bare_N: Tensor | None = None,
    site: Site | None = None,
) -> Tensor:
    """A norm with the gain and shift of each run."""
    y, gain = standardise(x_NMD, config, bare_N, site), gain_ND.unsqueeze(1)
    return y * gain if shift_ND is None else torch.addcmul(shift_ND.unsqueeze(1), y, gain)


def norm_linear(
    x_NMD: Tensor,
    gain_ND: Tensor,
    shift_ND: Tensor | None,
    weight_NDO: Tensor,
    bias_NO: Tensor | None,
    config: ModelConfig,
    fmt: Format,
    bare_N: Tensor | None = None,
    site: Site | None = None,
) -> Tensor:
    """A norm and the matrix after it.

    In FP32 gain and shift go into the matrix, (g y + s) W + b = y (g W) + (s W + b): the same numbers
    up to rounding, and five passes over the activations fewer. The half formats round the norm's
    output, so there it has to exist.
    """
    if fmt is not Format.FP32:
        return linear(normalise(x_NMD, gain_ND, shift_ND, config, bare_N, site), weight_NDO, bias_NO, fmt)
    weight = gain_ND.unsqueeze(2) * weight_NDO
    bias = bias_NO
    if shift_ND is not None:
        moved = torch.bmm(shift_ND.unsqueeze(1), weight_NDO).squeeze(1)
        bias = moved if bias is None else bias + moved
    return linear(standardise(x_NMD, config, bare_N, site), weight, bias, fmt)


def norm_heads(qkv_NMD: Tensor, gain_N2K: Tensor, config: ModelConfig) -> Tensor:
    """RMSNorm of every query and key head (qk-norm, Dehghani et al. 2023); values untouched."""
    n, m, _ = qkv_NMD.shape
    parts = qkv_NMD.view(n, m, 3, config.heads, config.head_width)
    qk = F.rms_norm(widen(parts[:, :, :2]), (config.head_width,), eps=config.norm_eps)
    qk = qk * gain_N2K[:, None, :, None]
    return torch.cat((qk.to(qkv_NMD.dtype), parts[:, :, 2:]), 2).view(n, m, -1)


def activate(x: Tensor, activation: Activation) -> Tensor:
    """GELU in its exact form, ReLU, or the SiLU of SwiGLU's gate."""
    if activation is Activation.GELU:
        return F.gelu(x)
    if activation is Activation.RELU:
        return F.relu(x)
    return F.silu(x)
