"""From twin to faulty run exactly the declared change differs, by its effect on what the training loop is given."""

import dataclasses
import re

import numpy as np
import pytest
import torch

from trainwreck.scenarios.config.settings import leaves, replace
from trainwreck.scenarios.config.sizes import healthy
from trainwreck.scenarios.spec.faults import Curve, FaultKind, Setting, StateEdit
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.loop import fresh_state, train

# What differs, and the scenarios that nothing else differs in.
ALONE = {
    "batch": (
        "augmentation_noise bad_batch_document bad_batch_foreign bad_batch_repeats corrupt_tokens "
        "degenerate_batches distribution_shift gradient_dominated label_leak label_noise labels_detached "
        "labels_one_class labels_shifted sequence_length_explosion sequences_truncated shuffle_correlated "
        "speech_noisy_transcripts speech_misaligned_transcripts "
        "token_to_empty tokenizer_mismatch unshuffled_epochs validation_leak vocabulary_drift catastrophic_forgetting "
        "eos_masked_as_padding grad_accumulation_token_mean prompt_scored targets_all_masked "
        "dpo_stuck_at_log2 benign_hard_pairs "
        "benign_batch_ramp benign_bimodal_loss benign_curriculum benign_epoch_staircase benign_hard_speakers "
        "benign_huge_transient benign_late_drop benign_length_ramp benign_mixture_change benign_single_spike "
        "benign_spike_recovers"
    ),
    "clock": "loader_stall benign_clean_resume benign_loader_hiccup",
    "data.pool": "overfit_small_set",
    "decoding.flush": "kv_cache_stale",
    "decoding.scheduled_sampling": "teacher_forcing_mismatch",
    "diffusion.emphasis": "diffusion_timestep_imbalance benign_timestep_weights",
    "modalities.picture_weight": "multimodal_loss_imbalance benign_modality_weights",
    "retrieval.refresh": "retrieval_stale_index benign_older_index",
    "dropout": "dropout_too_high eval_mode_in_training benign_dropout_gap",
    "evaluation.average": "ema_misused diffusion_no_ema",
    "evaluation.dropout": "dropout_on_at_eval",
    "evaluation.sample": "benign_validation_noise",
    "exchange.alone": "ddp_loss_scale_inconsistent",
    "exchange.clips_alone": "clip_norm_per_shard",
    "exchange.late": "ddp_stale_gradients",
    "exchange.shards": "ddp_same_data",
    "exchange.summed": "ddp_gradients_not_averaged",
    "exchange.unshared": "replicas_out_of_sync",
    "label_smoothing": "label_smoothing_too_high",
    "log": "log_loss_summed log_nan_as_zero log_norm_of_one_shard log_rows_missing",
    "loss": "fused_loss_wrong_gradient",
    "learning rate": "high_lr lr_jump benign_decay_phase benign_jump_at_step_two benign_warm_restart",
    "model.attention": "softmax_unshifted",
    "model.init.head_std": "output_init_too_large",
    "model.init.new_rows_std": "new_rows_random",
    "model.lora_alpha": "lora_scale_wrong",
    "model.norm": "batchnorm_in_transformer",
    "model.norm_eps": "norm_eps_zero",
    "model.placement": "post_ln_depth",
    "model.positions": "packed_positions_not_reset",
    "model.recompute": "recompute_mask_differs",
    "model.variance": "loss_scale_collapse",
    "optimizer.beta1": "momentum_too_high",
    "optimizer.beta2": "adam_beta2_low",
    "optimizer.clip": "clip_too_loose clip_too_tight clipping_off",
    "optimizer.eps": "adam_eps_wrong",
    "optimizer.lr": (
        "high_lr_masked_by_decay lr_too_low slow_divergence small_batch_oscillation attention_logit_growth "
        "lr_edge_spikes lion_lr_transplanted muon_lr_transplanted benign_edge_of_stability"
    ),
    "optimizer.weight_decay": "weight_decay_too_high weight_decay_too_low benign_gradient_rise",
    "parametrization.gain_NP": (
        "embedding_block_zeroed embedding_rows_zeroed ffn_scaled ffn_units_dropped norm_gain_scaled "
        "query_projection_zeroed value_projection_zeroed"
    ),
    "parametrization.index_NP": "embedding_rows_swapped head_split_wrong heads_tied query_key_swapped",
    "parametrization.shift_NP": "norm_bias_shifted",
    "policy.mixed": "rl_groups_mixed",
    "policy.one_draw": "rl_zero_advantage_groups",
    "policy.entropy": "rl_entropy_runs_away benign_rl_entropy_fall",
    "policy.group": "benign_rl_norm_growth",
    "policy.value_weight": "ppo_value_weight_too_high",
    "policy.comparisons": "rl_reward_hacked",
    "policy.kl": "rlhf_kl_too_strong rlhf_kl_too_weak",
    "precision.format": "benign_cache_rounding",
    "precision.second_moments": "fp16_adam_state",
    "precision.weights": "bf16_weight_rounding",
    "preferences.anchor": "dpo_chosen_falls",
    "reduction": "loss_wrong_reduction",
    "routing.balance_axis": "moe_balance_loss_blind",
    "routing.balance_loss": "moe_router_collapse",
    "schedule.calls": "schedule_wrong_total",
    "schedule.warmup_steps": "no_warmup warmup_too_long warmup_too_short",
    "state.parameters": "nan_weight_spread output_reinitialised sdc_weight_bit",
    "tables.allowed_NTS": "mask_missing mask_off_by_one mask_inverted",
    "tables.bare_NL2": "missing_branch_norm",
    "tables.branch_gain_NL2": "residual_bypassed",
    "tables.cache_rows_NS": "kv_cache_leak",
    "tables.cache_slots_NT": "kv_cache_truncated",
    "tables.documents_N": "document_mask_missing",
    "tables.logit_gain_N": "logits_scaled",
    "tables.noise_N": "residual_noise",
    "tables.rotary_q_NTK": "rope_on_keys_only rope_wrong_offset",
    "tables.scale_N": "attention_unscaled mask_zeroed benign_high_entropy_head",
    "tables.shortcut_gain_NL2": "vanishing_depth residual_scaled",
    "updates.decays_NP": "spiky_layer",
    "updates.gain_N": "grad_accumulation_unscaled second_moment_underestimates",
    "updates.kept_N": "gradients_not_cleared",
    "updates.rows_N": "microbatches_dropped",
    "updates.moves_NP": "effective_lr_zero",
    "updates.reaches_NP": "frozen_parameters loss_detached lora_gets_no_gradient projections_frozen",
}
# Several things that are one act, as the page's Injection says it: what differs, and why together.
TOGETHER = {
    "benign_slow_plateau_then_drop": (
        "model.init.embedding_std, model.init.head_std, model.init.matrix_std",
        "one factor on the spread of all weights",
    ),
    "kv_cache_off_by_one": (
        "tables.cache_places_NT, tables.cache_slots_NT",
        "one index: the slot that a token is kept in, and its position",
    ),
    "ppo_too_many_epochs": (
        "policy.clip, policy.clip_high, policy.updates",
        "many updates on the same answers, and a clip that lets them through",
    ),
    "constant_low_lr": (
        "optimizer.lr, schedule.decay, schedule.warmup_steps",
        "a constant rate has neither warm-up nor decay",
    ),
    "weight_decay_on_all": (
        "optimizer.coupled, optimizer.weight_decay, updates.decays_NP",
        "Adam with L2 in place of AdamW with groups",
    ),
    "schedule_floor_early": (
        "schedule.final_fraction, schedule.total_steps",
        "one schedule: where it ends, and at what",
    ),
    "fp16_attention_overflow": (
        "model.attention, tables.scale_N",
        "scores in float16, and at some severities no 1/sqrt(d)",
    ),
    "fp16_no_loss_scaling": ("precision.dynamic, precision.loss_scale", "no scaler is a scale that is static, and 1"),
    "log_of_zero": (
        "batch, loss",
        "a loss that fails on tokens that the model has ruled out, and such tokens: known ones are not ruled out",
    ),
    "loss_scale_stuck_high": ("clock, precision.dynamic, state.loss_scale", "a resume with a static scale"),
    "poisoned_checkpoint": (
        "clock, state.first, state.parameters, state.second",
        "a resume, and what its checkpoint holds",
    ),
    "sqrt_negative": (
        "model.variance, state.parameters",
        "a norm that fails on a large mean, and that mean: without it nothing happens",
    ),
    "padding_attended": ("batch, tables.documents_N", "padding is neither masked nor left out of the loss"),
    "rope_wrong_frequency": ("tables.rotary_k_NTK, tables.rotary_q_NTK", "queries and keys alike"),
    "rope_low_precision": ("tables.rotary_k_NTK, tables.rotary_q_NTK", "queries and keys alike"),
    "position_shifted": ("tables.rotary_k_NTK, tables.rotary_q_NTK", "queries and keys alike"),
    "position_truncated": ("tables.rotary_k_NTK, tables.rotary_q_NTK", "queries and keys alike"),
    "capacity_too_small": ("model.mlp_ratio, model.width", "one smaller model"),
    "dead_relu": ("model.activation, model.init.mlp_bias", "a unit that can die, and a bias that kills it"),
    "init_too_large": (
        "model.init.embedding_std, model.init.head_std, model.init.matrix_std",
        "one factor on every spread",
    ),
    "data_replayed": ("batch, clock", "a resume, and what it loses"),
    "resume_skips_data": ("batch, clock", "a resume, and what it loses"),
    "unseeded_runs": ("batch, clock", "a resume, and what it loses"),
    "late_finetune_divergence": (
        "clock, learning rate, optimizer.clip",
        "a resume as another training: its rate, and no clipping",
    ),
    "head_untied_at_resume": ("clock, model.tied", "a resume, and what it loses"),
    "fp8_scale_stale": (
        "clock, precision.amax_updates, state.amax_history",
        "a resume, what it brings back that is old, and that it stays so",
    ),
    "optimizer_state_lost": ("clock, state.count, state.first, state.second", "a resume, and what it loses"),
    "schedule_restarted": ("clock, learning rate", "a resume, and what it loses"),
    "stale_optimizer_state": ("clock, state.second", "a resume, and what it loses"),
    "benign_auxiliary_loss": ("log_objective, z_loss", "a term of the objective, and that it is logged"),
    "benign_loss_scale_backoff": (
        "precision.dynamic, precision.format, precision.growth_interval, precision.loss_scale",
        "mixed precision, with its scaler",
    ),
    "benign_noisy_small_batch": ("batch, optimizer.lr", "a small batch, and the rate that goes with it"),
}

SEED = 3
NEAR, FAR = 10, 40  # steps from the onset on: each of the first ones, and a late one


def state(job, step):
    """A state in mid-run: no two parts of it are the same, nor two steps."""
    made = {}
    for place, (name, value) in enumerate(fresh_state(job).items()):
        drawn = torch.Generator().manual_seed(100 * step + place)
        made[name] = value + torch.rand(value.shape, generator=drawn)
    return made


def same(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return type(a) is type(b) and a == b


def fields(part, prefix):
    return {f"{prefix}.{f.name}": getattr(part, f.name) for f in dataclasses.fields(part)}


def logged(job, steps):
    """Rows as they are logged of some steps; what happened is a function of the step's number."""
    rows = []
    for step in range(steps.stop):
        happened = {"loss": np.float32(step + 1), "grad_norm": np.float32(step + 2 if step % 3 else np.inf)}
        rows.append(job.logged(happened, rows, step))
    return [{name: float(value) for name, value in rows[step].items()} for step in steps]


def given(job, steps):
    """All that the loop is given for a range of steps in a segment, but the setup, by name."""
    segment = job.segment(steps.start)
    found = fields(segment.exchange, "exchange")
    for name in ("tables", "parametrization", "updates"):
        found |= fields(getattr(segment, name), name)
    found |= fields(job.batches(steps), "batch")
    found["learning rate"] = [job.learning_rate(step) for step in steps]
    found["log"] = logged(job, steps)
    found["clock"] = [job.seconds(1.0, step) for step in steps]
    return found


def resumed(job, step):
    """The parts of the state that the changes of a step change."""
    if not job.resumes(step):
        return set()
    before = state(job, step)
    now, earlier = before, {s: state(job, s) for s in job.snapshots()} | {step: before}
    for at in job.resumes(step):
        now = at.change.state(now, earlier, step)
    return {f"state.{name}" for name in now if not same(now[name], before[name])}


def different(a, b):
    return {name for name in a | b if name not in a or name not in b or not same(a[name], b[name])}


def differences(entry, knobs):
    """What differs from the twin from the onset on, by name: settings, and what does not follow from settings."""
    setup = entry.base(healthy(entry.sizes[0]))
    onset = entry.onset_step(SEED, setup.steps)
    faulty, twin = Job("faulty", SEED, setup, entry.changes(knobs, setup, SEED)), Job("twin", SEED, setup)
    if onset:
        before = range(max(0, onset - 2), onset)
        assert faulty.segment(onset - 1).setup == twin.segment(onset - 1).setup
        assert not different(given(faulty, before), given(twin, before))
        assert not any(resumed(faulty, step) for step in before)
    found = set()
    for steps in (range(onset, onset + NEAR), range(onset + FAR, onset + FAR + 1)):
        now, usual = (leaves(job.segment(steps.start).setup) for job in (faulty, twin))
        found |= different(now, usual)
        shown = faulty.segment(steps.start).setup
        for path, value in leaves(setup).items():  # what is planned for mid-run is so in each of the two
            shown = replace(shown, path, value) if usual[path] != value and now[path] == usual[path] else shown
        found |= different(given(faulty, steps), given(Job("shown", SEED, shown), steps))
        found |= {name for step in steps for name in resumed(faulty, step)}
    return {"batch" if name.startswith("batch.") else name for name in found}


def declared(name):
    """The names that are in the tables."""
    found = {what for what, names in ALONE.items() if name in names.split()}
    return found | set(TOGETHER[name][0].split(", ") if name in TOGETHER else ())


def group(what, resumed):
    """What a difference is made of; a setting and a variant are both configured."""
    known = {
        "batch": "data",
        "log": "log",
        "learning rate": "tensor",
        "clock": "state" if resumed else "data",
        "state": "state",
    }
    known |= dict.fromkeys(("tables", "parametrization", "updates"), "tensor") | {"exchange": "process"}
    return known.get(what, known.get(what.split(".")[0], "setup"))


GROUPS = {
    FaultKind.SETTING: "setup", FaultKind.VARIANT: "setup", FaultKind.TENSOR: "tensor", FaultKind.DATA: "data",
    FaultKind.STATE: "state", FaultKind.PROCESS: "process", FaultKind.LOG: "log",
}  # fmt: skip


@pytest.mark.parametrize("name", scenarios())
def test_exactly_what_is_declared_differs_from_the_twin(name):
    entry = scenario(name)
    levels = list(entry.severities.values()) or [entry.knobs]
    found = set().union(*(differences(entry, knobs) for knobs in levels))
    assert found == declared(name)
    assert bool(found) != entry.own_twin
    if entry.own_twin:
        return
    changes = [change for knobs in levels for change in entry.fault(knobs, entry.base(healthy(entry.sizes[0])))]
    resumes = any(change.resume for change in changes)
    assert {group(what, resumes) for what in found} <= {GROUPS[kind] for kind in entry.kinds}
    assert {GROUPS[kind] for kind in entry.kinds} == {GROUPS[change.kind] for change in changes}
    if "clock" in found:
        assert re.search(r"\bresum(e|es|ed)\b|\bloader\b|\bclock\b", entry.page()["Injection"])


def test_one_thing_differs_or_the_table_says_why_several_do():
    every = " ".join(ALONE.values()).split()
    assert len(every) == len(set(every))
    assert not set(every) & set(TOGETHER)
    assert {*every, *TOGETHER} == {name for name, entry in scenarios().items() if not entry.own_twin}
    assert all("," in what and why for what, why in TOGETHER.values())


def test_a_second_change_is_seen():
    entry, other = scenario("clipping_off"), scenario("corrupt_tokens")
    setup = entry.base(healthy(entry.sizes[0]))
    for more, seen in (
        (other.fault(other.knobs_of(other.default_severity()), setup), {"batch"}),
        ([StateEdit(lambda state, earlier: state)], {"clock"}),
        ([Curve(lambda rate, since, setup: 2 * rate)], {"learning rate"}),
        ([StateEdit(lambda state, earlier: earlier, since=-2, resume=False)],
         {f"state.{name}" for name in ("parameters", "first", "second", "count", "loss_scale", "good_steps")}),
        ([Setting("precision.loss_scale", 2.0)], {"precision.loss_scale"}),
    ):  # fmt: skip

        class Two(type(entry)):
            def fault(self, knobs, setup, more=more):
                return [*super().fault(knobs, setup), *more]

        assert differences(Two(), entry.knobs) == {"optimizer.clip"} | seen


def test_a_threshold_over_every_gradient_is_no_clipping_bit_for_bit():
    jobs = []
    for name in ("clip_too_loose", "clipping_off"):
        (spec,) = family_of(name, [0], overrides=("steps=60",), roles=(Role.FAULTY,))
        jobs.append(Job(name, 0, spec.setup, spec.entry.changes_at(spec.knobs, spec.setup, 20)))
    loose, off = (result.trace for result in train(jobs))
    assert jobs[0].setup == jobs[1].setup
    assert loose["grad_norm"][20:].max() > jobs[0].setup.optimizer.clip  # there was something to clip
    for name, values in loose.signals.items():
        np.testing.assert_array_equal(values, off[name], name)
