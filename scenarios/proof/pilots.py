"""What was looked at on real text at `small` before a proof, so that the table of proofs hides no choice."""

LOOKED_AT = {
    "Signature there, cure not within the 160 steps": (
        "adam_beta2_low", "adam_eps_wrong", "degenerate_batches", "labels_one_class", "labels_shifted", "loss_detached",
        "loss_scale_collapse", "lr_too_low", "mask_zeroed", "overfit_small_set", "residual_noise",
        "schedule_floor_early", "tokenizer_mismatch", "warmup_too_long", "weight_decay_too_high",
    ),
    "no signature": (
        "attention_unscaled", "dropout_on_at_eval", "dropout_too_high", "effective_lr_zero", "embedding_rows_swapped",
        "frozen_parameters", "head_split_wrong", "late_finetune_divergence", "log_of_zero", "mask_inverted",
        "mask_missing", "norm_gain_scaled", "output_reinitialised", "post_ln_depth", "projections_frozen",
        "spiky_layer", "token_to_empty", "value_projection_zeroed",
    ),
    "a healthy run looks the same": ("high_lr",),
    "a look-alike that does not end as its twin": (
        "benign_auxiliary_loss", "benign_batch_ramp", "benign_bimodal_loss", "benign_curriculum",
        "benign_decay_phase", "benign_high_entropy_head", "benign_late_drop", "benign_length_ramp",
        "benign_mixture_change", "benign_noisy_small_batch",
    ),
}  # fmt: skip
"""What was found on one seed beyond those of a proof, 20 or 21, to the scenarios that it was found of."""

STRENGTHS = (
    "Where a fault at home's strength had no signature there, or no cure in time, others were looked at too. "
    "Proven at those, which the table names: `ffn_scaled` (a factor of 64 for 8), `embedding_block_zeroed` (0.9 "
    "of the features for half of them), `query_projection_zeroed` (layer 5 for 0). `ffn_units_dropped` was looked "
    "at with the whole MLP dropped alone. `residual_scaled` and `label_smoothing_too_high` held on one seed when "
    "subtle, and are not proven, as the table says. `residual_noise` subtle and `weight_decay_too_high` at a "
    "factor of 50 are cured, but have no signature. `embedding_rows_swapped` with 64 pairs for 8, which of bytes "
    "are control characters only, jumps and is cured, but has relearnt less within the run than its signature "
    "asks. `labels_one_class` and `labels_shifted` are not cured within 320 steps either. A fault in the "
    "language's own tokens can't be in real text."
)
"""Other strengths and lengths, in words."""


def sentence() -> str:
    """All of it in words."""
    parts = [f"{what}: {', '.join(f'`{id}`' for id in ids)}" for what, ids in LOOKED_AT.items()]
    return "; ".join(parts) + ". " + STRENGTHS
