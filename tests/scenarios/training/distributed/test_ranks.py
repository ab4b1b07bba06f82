"""Runs that real processes train together, over gloo: against one process, against themselves, under each fault."""

import dataclasses

import numpy as np
import pytest
import torch

from trainwreck.models.config import Format
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.exchange import square
from trainwreck.scenarios.spec.faults import At, Process, StateEdit
from trainwreck.scenarios.training.loop import train

ONSET, CURE, STEPS = 6, 13, 20
# What is a sum, a mean over scored tokens or an extreme comes out as of the whole batch.
OF_THE_BATCH = (
    "loss", "validation_loss", "grad_norm", "clip_coef", "lr", "loss_scale", "skipped", "nonfinite_grads",
    "nonfinite_weights", "token_entropy", "unique_share", "pad_share", "output_max", "layer_grad_norm",
    "layer_weight_norm", "layer_weight_max", "layer_update_ratio", "activation_max", "attention_logit_max",
    "attention_entropy_min",
)  # fmt: skip


def process(**values):
    return Process(lambda exchange: dataclasses.replace(exchange, **values))


FAULTS = {
    "same": process(shards=(0, 0)),
    "summed": process(summed=True),
    "apart": process(hears=square(2, lambda r, q: r == q)),
    "late": process(late=square(2, lambda r, q: r != q)),
    "norms": process(unshared=("norm.gain", "norm.bias")),
    "clip": process(clips_alone=True),
}
RESUME = StateEdit(lambda state, earlier: state)
FP16 = {
    "precision__format": Format.FP16, "precision__loss_scale": 2.0**17, "precision__dynamic": True,
    "precision__growth_interval": 2, "optimizer__clip": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def two(tiny):
    return replaced(tiny, distributed__ranks=2)


@pytest.fixture(scope="module")
def jobs(two, tiny, make_job):
    """By name: healthy runs of one, two and four ranks; each fault from the onset on, and each cured."""
    scaled = replaced(two, **FP16)
    alone = process(alone=True)
    made = {
        "one": make_job(3, tiny, name="one"),
        "two": make_job(3, two, name="two"),
        "four": make_job(3, replaced(tiny, distributed__ranks=4), name="four"),
        "scaled": make_job(3, scaled, name="scaled"),
        "alone": make_job(3, scaled, At(ONSET, alone), name="alone"),
    }
    for name, fault in FAULTS.items():
        made[name] = make_job(3, two, At(ONSET, fault), name=name)
        made[f"{name} cured"] = make_job(3, two, At(ONSET, fault, CURE), At(CURE, RESUME), name=f"{name} cured")
    return made


@pytest.fixture(scope="module")
def said():
    return {"steps": 0, "loss": {}}


@pytest.fixture(scope="module")
def results(jobs, said):
    """All of them trained in one call: one process for one rank, two for two, four for four."""

    def watch(block):
        said["loss"].setdefault(block.run_id, []).append(block["loss"])

    def progress(steps):
        said["steps"] += steps

    # At the cure a state is kept that has just been loaded from a checkpoint, in whatever order.
    keep = {"late": [10], "alone": [16], "two": [10], **{f"{name} cured": [CURE] for name in FAULTS}}
    return dict(zip(jobs, train(list(jobs.values()), keep=keep, watch=watch, progress=progress), strict=True))


def apart(result):
    """Steps at which the ranks' weights are not the same."""
    hashes = result.trace["rank_weight_hash"]
    return np.flatnonzero((hashes != hashes[:, :1]).any(1)).tolist()


@pytest.mark.parametrize("name", ["two", "four"])
def test_healthy_ranks_are_one_process_but_for_rounding(name, results):
    one, many = results["one"].trace, results[name].trace
    for signal in OF_THE_BATCH:
        np.testing.assert_allclose(many[signal], one[signal], rtol=1e-4, atol=1e-5, err_msg=signal)
    for signal in ("activation_mean", "activation_std", "attention_entropy", "head_entropy", "log_z"):
        np.testing.assert_allclose(many[signal], one[signal], rtol=0.02, atol=1e-2, err_msg=signal)
    assert apart(results[name]) == []


def test_every_rank_has_its_column(results):
    for name, ranks in (("two", 2), ("four", 4)):
        trace = results[name].trace
        for signal in ("rank_batch_hash", "rank_weight_hash", "rank_grad_norm"):
            assert trace[signal].shape == (STEPS, ranks)
            assert np.isfinite(trace[signal]).all()
        assert (trace["rank_batch_hash"][:, :1] != trace["rank_batch_hash"][:, 1:]).all()
    assert np.isnan(results["one"].trace["rank_grad_norm"]).all()
    np.testing.assert_allclose(
        results["two"].trace["tokens_per_second"], 2 * results["one"].trace["tokens_per_second"], rtol=1e-6
    )


def test_what_is_said_on_the_way(results, jobs, said):
    assert said["steps"] == sum(len(result.trace) for result in results.values())
    for name in jobs:
        assert np.array_equal(np.concatenate(said["loss"][name]), results[name].trace["loss"], equal_nan=True)


@pytest.mark.parametrize("name", [*FAULTS, *(f"{name} cured" for name in FAULTS)])
def test_the_twin_to_the_bit_before_the_onset_and_not_from_it_on(name, results, differing):
    assert differing(results[name], results["two"], 0, ONSET) == []
    assert differing(results[name], results["two"], ONSET, ONSET + 1) != []


def test_ranks_fed_the_same_rows(results):
    hashes = results["same"].trace["rank_batch_hash"]
    equal = hashes[:, 0] == hashes[:, 1]
    assert equal.tolist() == [False] * ONSET + [True] * (STEPS - ONSET)
    assert np.array_equal(hashes[:, 0], results["two"].trace["rank_batch_hash"][:, 0])
    norms = results["same"].trace["rank_grad_norm"]
    np.testing.assert_allclose(results["same"].trace["grad_norm"][ONSET:], norms[ONSET:, 0], rtol=1e-5)
    assert apart(results["same"]) == []


def test_a_sum_is_twice_the_average(results):
    ratio = results["summed"].trace["grad_norm"] / results["two"].trace["grad_norm"]
    np.testing.assert_allclose(ratio[: ONSET + 1], [1.0] * ONSET + [2.0], rtol=1e-5)
    assert apart(results["summed"]) == []


def test_ranks_that_share_nothing_part_until_they_resume_from_one_checkpoint(results):
    assert apart(results["apart"]) == list(range(ONSET + 1, STEPS))
    assert apart(results["apart cured"]) == list(range(ONSET + 1, CURE))


@pytest.mark.parametrize("name", ["norms", "clip"])
def test_other_gradients_of_norms_or_other_clips_part_the_ranks(name, results):
    assert apart(results[name]) == list(range(ONSET + 1, STEPS))
    assert apart(results[f"{name} cured"]) == list(range(ONSET + 1, CURE))


def test_a_clip_by_the_rank_s_own_norm(results, two):
    trace = results["clip"].trace
    of_each = np.minimum(1.0, two.optimizer.clip / trace["rank_grad_norm"][ONSET])
    assert trace["clip_coef"][ONSET] < results["two"].trace["clip_coef"][ONSET]
    np.testing.assert_allclose(trace["clip_coef"][ONSET], of_each.mean(), rtol=0.02)  # the log weights it by tokens


def test_late_gradients_make_ranks_disagree(results):
    assert apart(results["late"]) == list(range(ONSET + 1, STEPS))
    assert apart(results["late cured"]) == list(range(ONSET + 1, CURE))


def test_an_overflow_that_one_rank_keeps_to_itself(results):
    scaled, alone = results["scaled"], results["alone"]
    assert scaled.trace["skipped"].any()
    assert apart(scaled) == []
    first = apart(alone)[0]
    assert alone.trace["skipped"][first - 1] == 1
    assert first > ONSET
    assert set(range(first, STEPS)) == set(apart(alone))


def test_again_alone_and_entered_in_the_middle_to_the_bit(jobs, results, differing):
    """A second time, beside fewer runs; and from the states of all ranks, with what was on its way between them."""
    names, entered = ["two", "late", "alone"], {"two": 10, "late": 10, "alone": 16}
    again = train([jobs[name] for name in names])
    for name, result in zip(names, again, strict=True):
        assert differing(result, results[name]) == []
    states = {name: (step, results[name].states[step]) for name, step in entered.items()}
    for name, result in zip(names, train([jobs[n] for n in names], enter=states), strict=True):
        for signal, values in result.trace.signals.items():
            whole = results[name].trace[signal][entered[name] :]
            assert np.array_equal(values, whole, equal_nan=True), (name, signal)


def test_a_kept_state_holds_every_rank_s(results):
    state = results["late"].states[10]
    assert not torch.equal(state["parameters"], state["rank1/parameters"])
    assert state["held"].shape == (2, len(state["parameters"]) + 1)
    state = results["two"].states[10]
    assert torch.equal(state["parameters"], state["rank1/parameters"])
    assert "held" not in state
