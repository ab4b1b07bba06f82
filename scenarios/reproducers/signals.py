"""How the plain program takes each signal: lines of its training loop, by the signal's name."""

from trainwreck.evaluation.dataset.schema import EVALUATIONS, OF_OBJECTIVES

# What the model itself collects, a list with an entry a layer (or a head).
SEEN = {
    "activation_mean", "activation_std", "activation_max", "dead_share", "attention_entropy", "attention_logit_max",
    "attention_distance", "attention_mass_future", "attention_mass_other_document", "attention_mass_padding",
    "head_entropy",
}  # fmt: skip
ALWAYS = {"loss", "grad_norm", *EVALUATIONS, *OF_OBJECTIVES, "layer_update_ratio"}  # taken where they come up
RANKS = {"rank_weight_hash", "rank_batch_hash"}
TIMES = {"step_seconds", "tokens_per_second"}

LINES: dict[str, tuple[str, ...]] = {
    "lr": ('row["lr"] = rate',),
    "clip_coef": ('row["clip_coef"] = clip_coef',),
    "loss_scale": ('row["loss_scale"] = float(scale)',),
    "skipped": ('row["skipped"] = float(overflow)',),
    "zero_grads": ('row["zero_grads"] = float((grads == 0).float().mean())',),
    "log_z": ('row["log_z"] = float(torch.logsumexp(logits.detach().float(), -1).mean())',),
    "output_max": ('row["output_max"] = float(logits.detach().abs().amax())',),
    "layer_grad_norm": ('row["layer_grad_norm"] = [float(part.norm()) for part in by_layer(grads, plan)]',),
    "layer_weight_norm": ('row["layer_weight_norm"] = [float(part.norm()) for part in by_layer(used.detach(), plan)]',),
    "layer_weight_max": (
        'row["layer_weight_max"] = [float(part.abs().amax()) for part in by_layer(used.detach(), plan)]',
    ),
    "nonfinite_weights": (
        'row["nonfinite_weights"] = sum(not bool(part.isfinite().all()) for part in by_layer(used.detach(), plan))',
    ),
    "token_entropy": (
        "share = np.bincount(batch.inputs.ravel()) / batch.inputs.size",
        'row["token_entropy"] = -float((share[share > 0] * np.log(share[share > 0])).sum())',
    ),
    "unique_share": ('row["unique_share"] = len(np.unique(batch.inputs)) / c.vocab_size',),
    "pad_share": ('row["pad_share"] = float((batch.documents < 0).mean())',),
    "row_loss_max": (
        "by_row, scored = nll.detach().view(len(batch.inputs), -1), weight.view(len(batch.inputs), -1) > 0",
        'row["row_loss_max"] = float(((by_row * scored).sum(1) / scored.sum(1)).nan_to_num(-1).amax())',
    ),
    "row_grad_share": (  # a token's gradient at its logits, weight * (softmax - onehot), sums to this, over two
        "share = (weight * -torch.expm1(-nll.detach())).view(len(batch.inputs), -1).sum(1)",
        'row["row_grad_share"] = float(share.amax() / share.sum())',
    ),
    "position_loss": (
        "sums = torch.stack((nll.detach() * weight, weight)).view(2, len(batch.inputs), 8, -1).sum((1, 3))",
        'row["position_loss"] = (sums[0] / sums[1]).tolist()  # in eight buckets',
    ),
    "age_loss": (  # by tokens since the document began: 1, 2, 3 to 4, 5 to 8 ...
        "place, new = np.arange(c.context), np.diff(batch.documents, axis=1, prepend=-2) != 0",
        "age = place - np.maximum.accumulate(np.where(new, place, 0), 1) + 1",
        "bucket = torch.from_numpy(np.ceil(np.log2(age)).astype(np.int64)).flatten()",
        "sums = [torch.zeros(8).index_add(0, bucket, x) for x in (nll.detach() * weight, weight)]",
        'row["age_loss"] = (sums[0] / sums[1])[: 1 + (c.context - 1).bit_length()].tolist()',
    ),
    "tokens": ('row["tokens"] = int((batch.documents >= 0).sum())',),
    "scored_tokens": ('row["scored_tokens"] = int((batch.weights > 0).sum())',),
    "end_probability": (
        "ends = torch.from_numpy((batch.targets == END) & (batch.inputs != END)).flatten()",
        'row["end_probability"] = float(torch.exp(-nll.detach())[ends].mean())',
    ),
    "adapter_norm": (
        'added = [float(p.detach().norm()) for k, p in named(trained, plan).items() if k.endswith(".lora_b")]',
        'row["adapter_norm"] = math.hypot(*added) if added else math.nan',
    ),
    "float8_saturated": ('row["float8_saturated"] = max(float(x) for x in seen.pop("saturated"))',),
    "expert_load_entropy": ('row["expert_load_entropy"] = float(-torch.special.xlogy(loads, loads).sum(1).amin())',),
    "expert_load_max": ('row["expert_load_max"] = float(loads.amax())',),
    "balance_loss": ('row["balance_loss"] = float(balance.detach().mean())',),
    "step_seconds": ('row["step_seconds"] = seconds',),
    "tokens_per_second": ('row["tokens_per_second"] = (batch.documents >= 0).sum() / seconds',),
}
# The modelled clock: six operations a weight and token at 1e11 a second, and three per cent of jitter.
CLOCK = (
    "length = ((batch.documents >= 0) * np.arange(1, c.context + 1)).max()",
    'jitter = math.exp(0.03 * generator(SEED, "clock", step).standard_normal())',
    "seconds = c.rows * length * 6 * len(trained) / 1e11 * jitter * taken  # a modelled clock",
)
# Of several ranks: means by tokens, and a hash of what each of them has.
OF_RANKS = (
    "bits = [zlib.crc32(x.tobytes()) % 2**24 for x in (trained.detach().numpy(), mine.inputs)]",
    "dist.all_gather_object(everyone := [None] * c.ranks, (row, weight.sum().item(), *bits))",
    "counts = np.array([his[1] for his in everyone])",
    "row = {name: counts @ [his[0][name] for his in everyone] / counts.sum() for name in row}",
    'row |= {f"rank_{k}_hash": [his[i] for his in everyone] for i, k in ((2, "weight"), (3, "batch"))}',
)
