"""What was looked at on real text at `small` and not taken to a proof, so that the table of proofs hides no choice."""

LOOKED_AT = {
    "Signature there, cure not within the 160 steps": (
        "adam_beta2_low", "adam_eps_wrong", "degenerate_batches", "labels_one_class", "labels_shifted", "loss_detached",
        "lr_too_low", "mask_zeroed", "residual_noise", "schedule_floor_early", "tokenizer_mismatch", "warmup_too_long",
        "weight_decay_too_high",
    ),
    "no signature": (
        "dropout_too_high", "embedding_block_zeroed", "embedding_rows_swapped", "frozen_parameters", "head_split_wrong",
        "mask_inverted", "mask_missing", "output_reinitialised", "projections_frozen", "token_to_empty",
        "value_projection_zeroed",
    ),
    "a look-alike that does not end as its twin": (
        "benign_auxiliary_loss", "benign_batch_ramp", "benign_decay_phase", "benign_high_entropy_head",
        "benign_late_drop", "benign_length_ramp", "benign_mixture_change", "benign_noisy_small_batch",
    ),
}  # fmt: skip
"""What was found on one seed beyond those of a proof, 20 or 21, to the scenarios that it was found of."""


def sentence() -> str:
    """All of it in words."""
    parts = [f"{what}: {', '.join(f'`{id}`' for id in ids)}" for what, ids in LOOKED_AT.items()]
    return "; ".join(parts) + "."
