"""A GPT in which every tensor has a leading run dimension.

Shapes: N runs, B rows, T positions, M = B * T tokens, D width, H heads, K head width, F MLP units, V vocabulary.
"""

from dataclasses import dataclass, field, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from trainwreck.kernels import attention as kernels
from trainwreck.kernels.attention import Mask
from trainwreck.kernels.dtypes import widen
from trainwreck.kernels.random import dropout_mask, run_keys
from trainwreck.kernels.units import affine, gelu, gelu_mlp, norm
from trainwreck.models.config import Activation, Format, ModelConfig, Norm, Placement, Positions, Recompute
from trainwreck.models.experts.mixture import mixture
from trainwreck.models.experts.routing import RouterLosses, balance_loss, route
from trainwreck.models.hooks import Hooks
from trainwreck.models.parameters import LORA_A, LORA_B
from trainwreck.models.precision import Float8, linear
from trainwreck.models.probe import Probe
from trainwreck.models.tables import Tables


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


@dataclass(frozen=True)
class Model:
    """The weights of N runs, and how one forward pass uses them.

    params: name to [N, *shape]. dropout: none where None. probe: collects statistics where given. hooks: faults,
    from `trainwreck.models.variants.select`. impl: of the kernels, reference, triton or cpp, by the rule of
    `trainwreck.kernels.selection` where None. float8: scales of the products in float8; none where None. routers:
    collects what routers of experts add to the objective, where given.
    """

    params: dict[str, Tensor]
    config: ModelConfig
    tables: Tables
    format: Format = Format.FP32
    dropout: Dropout | None = None
    probe: Probe | None = None
    hooks: Hooks = field(default_factory=Hooks)
    impl: str | None = None
    float8: Float8 | None = None
    routers: RouterLosses | None = None

    def matrix(self, name: str) -> tuple[Tensor, Tensor | None]:
        """Weight [N, I, O], with its adapter where it has one, and bias [N, O] of a matrix."""
        if name == "head" and self.config.tied:
            return self.params["embedding.weight"].transpose(1, 2), self.params.get("head.bias")
        weight, bias = self.params[f"{name}.weight"], self.params.get(f"{name}.bias")
        if self.config.lora_rank and f"{name}{LORA_A}" in self.params:
            a_NIR, b_NRO = self.params[f"{name}{LORA_A}"], self.params[f"{name}{LORA_B}"]
            weight = weight + self.config.lora_scale * torch.bmm(a_NIR, b_NRO)
        return weight, bias

    def scale(self, name: str) -> tuple[Tensor, Tensor | None]:
        """Gain and shift of a norm, each [N, D]."""
        return self.params[f"{name}.gain"], self.params.get(f"{name}.bias")


def forward(model: Model, tokens_NBT: Tensor, documents_NBT: Tensor) -> Tensor:
    """Logits, [N, M, V].

    tokens: int64. documents: int64, the document of each token, -1 for padding.
    """
    return logits(model, states(model, tokens_NBT, documents_NBT))


def states(model: Model, tokens_NBT: Tensor, documents_NBT: Tensor) -> Tensor:
    """The residual stream after the last layer, [N, M, D]; tokens and documents as in `forward`."""
    mask = model.tables.mask(documents_NBT)
    x = embed(model.params["embedding.weight"], tokens_NBT.flatten(1))
    if model.config.positions is not Positions.ROTARY:
        x = x + embed(model.params["positions.weight"], places(documents_NBT, model.config.positions).flatten(1))
    x = drop(model, x, "embedding")
    layer = block if model.config.recompute is Recompute.NONE or not torch.is_grad_enabled() else recomputed
    for i in range(model.config.layers):
        x = layer(model, x, f"layer_{i}", mask)
    return x


def logits(model: Model, x_NMD: Tensor) -> Tensor:
    """What the head makes of the last layer's residual stream, [N, M, V]."""
    return model.hooks.branch(norm_linear(model, x_NMD, "final_norm", "head"), "head")


def values(model: Model, x_NMD: Tensor) -> Tensor:
    """What a value head makes of it, [N, M]; in float32 and wider, as the norm before it is.

    No matrix product: with one column its sums would depend on how many runs there are beside each other.
    """
    x = widen(x_NMD) if model.config.placement is Placement.POST else normalise(model, x_NMD, "final_norm")
    return (x * model.params["head.value.weight"].transpose(1, 2)).sum(2)


def block(model: Model, x_NMD: Tensor, layer: str, mask: Mask) -> Tensor:
    """x + attention(norm(x)), then x + mlp(norm(x)). Post-LN: norm(x + attention(x)), then norm(x + mlp(x))."""
    x, hooks = x_NMD, model.hooks
    site = f"{layer}.attention"
    x = shortcut(model, x, site) + hooks.branch(attention(model, x, layer, mask), site)
    x = post_norm(model, x, f"{site}_norm")
    site = f"{layer}.mlp"
    x = shortcut(model, x, site) + hooks.branch(mlp(model, x, layer), site)
    x = post_norm(model, x, f"{site}_norm")
    x = hooks.stream(x, layer)
    if model.probe is not None:
        model.probe.see_stream(x)
    return x


def recomputed(model: Model, x_NMD: Tensor, layer: str, mask: Mask) -> Tensor:
    """`block`, of which nothing but its input is kept: the backward pass computes it again."""
    again = replace(model, probe=None if model.probe is None else Probe())  # what it sees is on record already
    if again.dropout is not None and again.config.recompute is Recompute.OTHER_MASKS:
        again = replace(again, dropout=replace(again.dropout, prefix=f"{again.dropout.prefix}/again"))
    passes = iter((model,))
    work = partial(block, layer=layer, mask=mask)
    result: Tensor = checkpoint(
        lambda x: work(next(passes, again), x), x_NMD, use_reentrant=False, preserve_rng_state=False
    )
    return result


def attention(model: Model, x_NMD: Tensor, layer: str, mask: Mask) -> Tensor:
    """Causal self-attention with rotary positions, [N, M, D]."""
    config, tables, dropout = model.config, model.tables, model.dropout
    x, weight, bias = norm_operands(model, x_NMD, f"{layer}.attention_norm", f"{layer}.qkv")
    later = None  # what attention adds to the product: in C++ that costs no pass of its own
    if model.impl == "cpp" and model.format is Format.FP32 and not config.qk_norm:
        bias, later = None, bias
    qkv = apply_linear(model, x, weight, bias, f"{layer}.qkv")  # [N, M, 3 D]
    if config.qk_norm:
        qkv = norm_heads(qkv, model.params[f"{layer}.qk_gain"], config)
    out_NBHTK, stats = kernels.rotary_attention(
        qkv.unflatten(1, (-1, config.context)),
        tables.rotary_q_NTK,
        tables.rotary_k_NTK,
        config.heads,
        bias_ND=later,
        mask=mask,
        scale_N=tables.scale_N,
        dropout=None if dropout is None else dropout.probabilities(layer),
        stats=model.probe is not None,
        variant=config.attention,
        impl=model.impl,
    )
    if model.probe is not None and stats is not None:
        model.probe.attention.append(stats)
    merged = out_NBHTK.transpose(2, 3).reshape(x_NMD.shape)
    return drop(model, product(model, merged, f"{layer}.attention_out"), f"{layer}/attention")


def mlp(model: Model, x_NMD: Tensor, layer: str) -> Tensor:
    """Two matrices with GELU, ReLU or SwiGLU between them, [N, M, D]."""
    if model.config.experts:
        return drop(model, experts(model, x_NMD, layer), f"{layer}/mlp")
    norm_name, first, last = (f"{layer}.{part}" for part in ("mlp_norm", "mlp_in", "mlp_out"))
    if model.format is Format.FP32 and model.config.activation is Activation.GELU:
        x, weight, bias = norm_operands(model, x_NMD, norm_name, first)
        out, fired_NMF = gelu_mlp(x, (weight, bias), model.matrix(last), model.impl)
    else:
        hidden_NMF, fired_NMF = units(norm_linear(model, x_NMD, norm_name, first), model.config, model.impl)
        out = product(model, hidden_NMF, last)
    if model.probe is not None:
        model.probe.see_hidden(fired_NMF)
    return drop(model, out, f"{layer}/mlp")


def experts(model: Model, x_NMD: Tensor, layer: str) -> Tensor:
    """A router, and what the experts that it chooses put out, [N, M, D]. Padding is routed as other tokens are.

    The router is in float32 whatever the format of the experts' products is, as in Switch.
    """
    x = x_NMD if model.config.placement is Placement.POST else normalise(model, x_NMD, f"{layer}.mlp_norm")
    routes = route(torch.bmm(x, model.params[f"{layer}.router.weight"]), model.config)
    first, last = (model.matrix(f"{layer}.experts_{end}") for end in ("in", "out"))
    out, fired = mixture(x, routes, first, last, partial(units, config=model.config, impl=model.impl), model.format)
    balance = None if model.routers is None else model.routers.see(routes)
    if model.probe is not None:
        model.probe.see_hidden(fired)
        model.probe.see_routes(routes, balance_loss(routes) if balance is None else balance)
    return out


def units(x: Tensor, config: ModelConfig, impl: str | None = None) -> tuple[Tensor, Tensor]:
    """Hidden units of an MLP, and how they fire: the same, but for the gate alone under SwiGLU."""
    if config.activation is Activation.GELU and x.dim() == 3:
        return gelu(x, impl)
    gate, up = x.chunk(2, -1) if config.activation is Activation.SWIGLU else (x, None)
    fired = activate(gate, config.activation, impl)
    return (fired if up is None else fired * up), fired


def shortcut(model: Model, x: Tensor, site: str) -> Tensor:
    """What goes past a branch."""
    gain = model.config.residual_gain
    return model.hooks.shortcut(x if gain == 1.0 else x * gain, site)


def drop(model: Model, x: Tensor, site: str) -> Tensor:
    """x after dropout."""
    return x if model.dropout is None else x * model.dropout.mask(site, *x.shape[1:]).to(x.dtype)


def embed(table_NVD: Tensor, tokens_NM: Tensor) -> Tensor:
    """Rows of each run's own table, [N, M, D]."""
    n, v, d = table_NVD.shape
    offset = torch.arange(n, device=tokens_NM.device).unsqueeze(1) * v
    return F.embedding((tokens_NM + offset).view(-1), table_NVD.reshape(n * v, d)).view(n, -1, d)


def places(documents_NBT: Tensor, positions: Positions) -> Tensor:
    """The place of each token in its document or in its row, from 0 on, int64 [N, B, T]. Padding is a document."""
    place = torch.arange(documents_NBT.shape[-1], device=documents_NBT.device).expand(documents_NBT.shape)
    if positions is Positions.ROW:
        return place
    begins = torch.ones_like(documents_NBT, dtype=torch.bool)
    begins[..., 1:] = documents_NBT[..., 1:] != documents_NBT[..., :-1]
    return place - torch.where(begins, place, 0).cummax(-1).values


def standardise(model: Model, x_NMD: Tensor, name: str) -> Tensor:
    """A norm without gain and shift, never in a half format."""
    config = model.config

    def right(x: Tensor, name: str) -> Tensor:
        assert config.norm is not Norm.BATCH, "a BatchNorm is a variant, which the hooks have to bring"
        return norm(x, config.norm_eps, centred=config.norm is Norm.LAYER, impl=model.impl)

    return model.hooks.norm(right)(widen(x_NMD), name)


def normalise(model: Model, x_NMD: Tensor, name: str) -> Tensor:
    """A norm with the gain and shift of each run."""
    if not model.hooks.norms and model.config.norm is not Norm.BATCH:
        centred = model.config.norm is Norm.LAYER
        x, scale = widen(x_NMD), model.scale(name)
        return norm(x, model.config.norm_eps, centred=centred, scale=scale, impl=model.impl)
    return affine(standardise(model, x_NMD, name), model.scale(name), model.impl)


def post_norm(model: Model, x_NMD: Tensor, name: str) -> Tensor:
    """The norm that stands after the sum under Post-LN."""
    return normalise(model, x_NMD, name) if model.config.placement is Placement.POST else x_NMD


def norm_linear(model: Model, x_NMD: Tensor, before: str, matrix: str) -> Tensor:
    """A matrix, and under pre-LN the norm before it, [N, M, O]."""
    return apply_linear(model, *norm_operands(model, x_NMD, before, matrix), matrix)


def norm_operands(model: Model, x_NMD: Tensor, before: str, matrix: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """What `norm_linear` multiplies: input [N, M, I], weight [N, I, O] and bias [N, O].

    In FP32 gain and shift go into the matrix, (g y + s) W + b = y (g W) + (s W + b): the same numbers
    up to rounding, and five passes over the activations fewer. The half formats round the norm's
    output, so there it has to exist; in C++ it costs no pass of its own.
    """
    weight, bias = model.matrix(matrix)
    if model.config.placement is Placement.POST:
        return x_NMD, weight, bias
    if model.format is not Format.FP32 or model.impl == "cpp":
        return normalise(model, x_NMD, before), weight, bias
    gain, shift = model.scale(before)
    scaled = gain.unsqueeze(2) * weight
    if shift is not None:
        moved = torch.bmm(shift.unsqueeze(1), weight).squeeze(1)
        bias = moved if bias is None else bias + moved
    return standardise(model, x_NMD, before), scaled, bias


def product(model: Model, x_NMI: Tensor, matrix: str) -> Tensor:
    """A matrix of each run, [N, M, O]."""
    return apply_linear(model, x_NMI, *model.matrix(matrix), matrix)


def apply_linear(model: Model, x_NMI: Tensor, weight: Tensor, bias: Tensor | None, matrix: str) -> Tensor:
    """x @ weight + bias, [N, M, O], in the format that the matrix of this name has."""
    if model.float8 is not None and matrix in model.float8.names:
        return model.float8.linear(x_NMI, weight, bias, matrix, model.probe)
    return linear(x_NMI, weight, bias, model.format)


def norm_heads(qkv_NMD: Tensor, gain_N2K: Tensor, config: ModelConfig) -> Tensor:
    """RMSNorm of every query and key head (qk-norm; a LayerNorm in Dehghani et al. 2023); values untouched."""
    n, m, _ = qkv_NMD.shape
    parts = qkv_NMD.view(n, m, 3, config.heads, config.head_width)
    qk = F.rms_norm(widen(parts[:, :, :2]), (config.head_width,), eps=config.norm_eps)
    qk = qk * gain_N2K[:, None, :, None]
    return torch.cat((qk.to(qkv_NMD.dtype), parts[:, :, 2:]), 2).view(n, m, -1)


def activate(x: Tensor, activation: Activation, impl: str | None = None) -> Tensor:
    """GELU in its exact form, ReLU, or the SiLU of SwiGLU's gate."""
    if activation is Activation.GELU:
        return gelu(x.flatten(1, -2), impl)[0].view(x.shape)
    if activation is Activation.RELU:
        return F.relu(x)
    return F.silu(x)
