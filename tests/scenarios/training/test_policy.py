"""Runs that are trained by rewards: the update and the sampler against plain loops, the state, and what is refused."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import log_softmax

from trainwreck.evaluation.dataset.schema import REWARDED
from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.models import gpt
from trainwreck.models.config import Format, Norm
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import REWARDED as GOES_WITH
from trainwreck.scenarios.config.settings import Dialect, Reduction, SourceKind, check, replace, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import training_block, validation
from trainwreck.scenarios.data.reward import learned
from trainwreck.scenarios.data.sources.tasks import END, GIVEN, Tasks
from trainwreck.scenarios.spec.faults import At, Setting
from trainwreck.scenarios.spec.planned import policy_step
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.loop import fresh_state, train
from trainwreck.scenarios.training.objectives import policy
from trainwreck.scenarios.training.objectives.rollouts import counts

STEPS, SEED, ROWS, GROUP, CONTEXT = 24, 3, 12, 4, 16
OTHER = {
    "model.causal": False, "data.source": SourceKind.TEXT, "data.dialect": Dialect.CHAT, "data.pool": 8,
    "data.longest": 4, "data.padded": True, "data.one_token_every": 3, "data.padding_every": 3, "data.short_every": 2,
    "model.norm": Norm.BATCH, "precision.format": Format.FP8, "evaluation.sample": 2, "dropout": 0.1, "z_loss": 0.1,
    "label_smoothing": 0.1, "reduction": Reduction.SUM, "distributed.ranks": 2, "growth.rows": 128, "adapters.rank": 4,
    "model.attention": "deterministic", "model.experts": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def setup():
    base = bases.policy(healthy(Size.MICRO))
    small = {"steps": STEPS, "evaluation__every": 5, "evaluation__rows": 6, "data__rows": ROWS}
    return replaced(base, schedule__warmup_steps=3, policy__group=GROUP, policy__comparisons=200, **small)


def said(weights, bundle, tokens, temperature):
    """ln p of the next token, [T, V], after each token of a row [T + 1] but the last."""
    inputs = tokens[:-1].view(1, 1, -1)
    model = bundle.model(bundle.plan.views(weights[None]), 0, None)
    return log_softmax(gpt.forward(model, inputs, 0 * inputs)[0] / temperature, -1)


def next_of(weights, bundle, tokens, temperature):
    """ln p of the token after the last of some, [V]."""
    padded = torch.cat((tokens, tokens.new_zeros(CONTEXT + 1 - len(tokens))))
    return said(weights, bundle, padded, temperature)[len(tokens) - 1].detach()


def answer_of(tokens):
    """Places of a row's answer, its end included."""
    places = []
    for place in range(GIVEN, len(tokens)):
        places.append(place)
        if tokens[place] == END:
            break
    return places


def by_the_papers(state, bundle, settings, reward):
    """Loss and its parts for the answers of a state, by loops over groups, answers and tokens."""
    now = state["parameters"].clone().requires_grad_()
    answers, old = state["answers"], state["old_logp"].view(ROWS, CONTEXT)
    total, clipped, divergences, entropies, rewards = torch.zeros(()), [], [], [], []
    for first in range(0, ROWS, GROUP):
        group = [reward.reward(answers[row].numpy()) for row in range(first, first + GROUP)]
        mean = sum(group) / GROUP
        std = math.sqrt(sum((r - mean) ** 2 for r in group) / (GROUP - 1))
        rewards += group
        for row, own in zip(range(first, first + GROUP), group, strict=True):
            advantage = (own - mean) / (std + 1e-4)
            new = said(now, bundle, answers[row], settings.temperature)
            reference = said(state["reference"], bundle, answers[row], settings.temperature)
            places, terms = answer_of(answers[row].tolist()), []
            for place in places:
                token = answers[row][place]
                ratio = (new[place - 1, token] - old[row, place - 1]).exp()
                bounded = ratio.clamp(1 - settings.clip, 1 + settings.clip_high)
                surrogate = torch.min(ratio * advantage, bounded * advantage)
                r = (reference[place - 1, token] - new[place - 1, token]).exp()
                divergences.append(r - r.log() - 1)
                entropies.append(-(new[place - 1].exp() * new[place - 1]).sum())
                value = float(ratio.detach())
                clipped.append(value < 1 - settings.clip or value > 1 + settings.clip_high)
                terms.append(-surrogate + settings.kl * divergences[-1] - settings.entropy * entropies[-1])
            total = total + sum(terms) / len(terms) / ROWS
    (grad,) = torch.autograd.grad(total, now)
    mean = {name: float(torch.stack(part).mean().detach()) for name, part in (("kl", divergences), ("h", entropies))}
    return float(total.detach()), grad, np.mean(clipped), mean, np.mean(rewards)


@pytest.mark.parametrize("entropy", [0.0, 0.05])
def test_a_step_is_that_of_the_papers_under_autograd(entropy, setup, make_job):
    tight = {"policy__clip": 0.1, "policy__clip_high": 0.15, "policy__temperature": 0.8, "policy__entropy": entropy}
    setup = replaced(setup, policy__updates=4, optimizer__lr=0.01, **tight)
    at = policy_step(SEED, STEPS) + 6  # the third step on the second answers
    job = make_job(SEED, setup)
    result = train([job], keep={job.run_id: [at, at + 1]})[0]
    state = result.states[at]
    bundle = Bundle([job], [state], at)
    reward = learned(Tasks(0), SEED, 200, 0.0)
    loss, grad, clipped, mean, rewarded = by_the_papers(state, bundle, setup.policy, reward)
    trace = result.trace
    assert trace["loss"][at] == pytest.approx(loss, rel=1e-4, abs=1e-5)
    assert trace["kl"][at] == pytest.approx(mean["kl"], rel=1e-3)
    assert trace["policy_entropy"][at] == pytest.approx(mean["h"], rel=1e-4)
    assert trace["clip_share"][at] == pytest.approx(clipped)
    assert 0.1 < clipped < 0.9
    assert trace["reward"][at] == pytest.approx(rewarded, rel=1e-4)
    lengths = [len(answer_of(row.tolist())) for row in state["answers"]]
    assert trace["answer_length"][at] == pytest.approx(np.mean(lengths))
    assert trace["true_reward"][at] == pytest.approx(Tasks(0).true_reward(state["answers"].numpy()).mean(), rel=1e-5)
    assert trace["grad_norm"][at] == pytest.approx(float(grad.norm()), rel=1e-4)
    first = 0.9 * state["first"] + 0.1 * grad * min(1.0, 1.0 / float(grad.norm()))
    torch.testing.assert_close(result.states[at + 1]["first"], first, rtol=1e-3, atol=1e-6)


def test_answers_are_those_of_a_loop_over_tokens(setup, make_job):
    setup = replaced(setup, policy__temperature=0.7)
    at, job = policy_step(SEED, STEPS) + 3, make_job(SEED, setup)
    result = train([job], keep={job.run_id: [at, at + 1]})[0]
    before, after = result.states[at], result.states[at + 1]
    bundle = Bundle([job], [before], at)
    prompts = training_block(replaced(setup, policy__begun=True), SEED, range(at, at + 1)).at(0).inputs[:, :GIVEN]
    assert (prompts.reshape(-1, GROUP, GIVEN) == prompts[::GROUP, None]).all()
    draws = generator(SEED, "answers", at).random((ROWS, CONTEXT + 1 - GIVEN))
    for row, answer in enumerate(after["answers"]):
        tokens, logp = torch.from_numpy(prompts[row]), torch.zeros(CONTEXT)
        while len(tokens) <= CONTEXT and END not in tokens:
            chances = next_of(before["parameters"], bundle, tokens, 0.7)
            draw = torch.tensor(draws[row, len(tokens) - GIVEN], dtype=torch.float32)
            token = (chances.exp().cumsum(0) < draw).sum().clamp(max=63)
            logp[len(tokens) - 1] = chances[token]
            tokens = torch.cat((tokens, token[None]))
        assert answer.tolist() == tokens.tolist() + [END] * (CONTEXT + 1 - len(tokens))
        said_of = slice(GIVEN - 1, len(tokens) - 1)
        got = after["sampler_logp"].view(ROWS, CONTEXT)[row]
        torch.testing.assert_close(got[said_of], logp[said_of], rtol=1e-4, atol=1e-5)
    assert result.trace["sampler_log_ratio"][at] < 1e-5


def test_answers_stay_for_as_many_steps_as_there_are_updates(setup, make_job):
    begin = policy_step(SEED, STEPS)
    job = make_job(SEED, replaced(setup, policy__updates=3))
    result = train([job], keep={job.run_id: list(range(begin, STEPS))})[0]
    drawn = {step: result.states[step + 1]["answers"] for step in range(begin, STEPS - 1)}
    for step in range(begin + 1, STEPS - 1):
        assert torch.equal(drawn[step], drawn[step - 1]) == ((step - begin) % 3 != 0)
    assert (result.trace["clip_share"][begin::3] == 0).all()  # at the first step on answers every ratio is 1
    assert torch.equal(result.states[STEPS - 1]["reference"], result.states[begin]["parameters"])


def test_a_sampler_that_is_seldom_synchronised_has_older_weights(setup, make_job):
    begin = policy_step(SEED, STEPS)
    job = make_job(SEED, replaced(setup, policy__sync=4))
    result = train([job], keep={job.run_id: list(range(begin, STEPS))})[0]
    for step in range(begin, STEPS - 1):
        synced = begin + (step - begin) // 4 * 4
        assert torch.equal(result.states[step + 1]["sampler"], result.states[synced]["parameters"])
        assert (result.trace["sampler_log_ratio"][step] > 1e-4) == (step != synced)


def test_importance_weighs_answers_by_what_the_sampler_had_made_of_them(setup, make_job):
    stale = replaced(setup, policy__sync=8, optimizer__lr=0.03)
    begin = policy_step(SEED, STEPS)
    plain, weighed = (
        train([make_job(SEED, replaced(stale, policy__importance=flag))])[0].trace for flag in (False, True)
    )
    assert plain["loss"][begin] == pytest.approx(weighed["loss"][begin], abs=1e-6)
    assert plain["loss"][begin + 1] != pytest.approx(weighed["loss"][begin + 1], abs=1e-4)


def test_advantages_are_within_groups_or_across_them():
    rewards = torch.arange(12.0).view(1, 12) ** 2
    for mixed in (False, True):
        found, even = policy.advantage(rewards, 4, torch.tensor([mixed]))
        groups = [range(i, 12, 3) for i in range(3)] if mixed else [range(i, i + 4) for i in range(0, 12, 4)]
        for rows in groups:
            part = rewards[0, list(rows)]
            torch.testing.assert_close(found[0, list(rows)], (part - part.mean()) / (part.std() + 1e-4))
        assert even == 0
    _, even = policy.advantage(torch.tensor([[1.0, 1, 2, 3]]), 2, torch.tensor([False]))
    assert even == 0.5


def test_rewards_on_the_device_are_those_of_the_host(setup, make_job):
    job = make_job(SEED, replaced(setup, policy__begun=True))
    bundle = Bundle([job], [fresh_state(job)], 0)
    rows = Tasks(0).sample(5, "some", range(1), 60, CONTEXT).tokens[0]
    rows[::2, GIVEN:] = np.where(rows[::2, GIVEN:] == END, rows[::2, GIVEN : GIVEN + 1], rows[::2, GIVEN:])  # no end
    rows[1, GIVEN : GIVEN + 4] = [0, END, 1, 2]  # what follows the end is no part of the answer
    tokens = torch.from_numpy(rows)[None]
    true = bundle.rollouts.true_rewards(tokens)[0].numpy()
    assert np.allclose(true, Tasks(0).true_reward(rows))
    assert np.allclose(bundle.rollouts.rewards(tokens)[0], learned(Tasks(0), SEED, 200, 0.0).reward(rows), atol=1e-5)
    assert counts(tokens)[0].sum(1).tolist() == [len(answer_of(row)) for row in rows.tolist()]


def test_an_offset_is_a_constant_of_a_topic_which_advantages_do_not_see(setup):
    tasks = Tasks(0)
    plain, moved = (learned(tasks, SEED, 200, 0.0, offset) for offset in (0.0, 3.0))
    rows = tasks.sample(5, "some", range(1), 600, CONTEXT, group=GROUP).tokens[0]
    constant = moved.reward(rows) - plain.reward(rows)
    of_topic = [constant[rows[:, 0] == topic] for topic in np.unique(rows[:, 0])]
    assert all(part == pytest.approx(part[0]) for part in of_topic)
    drawn = 3.0 * generator(SEED, "reward/offsets").standard_normal(len(of_topic))
    assert [part[0] for part in of_topic] == pytest.approx(drawn)
    without, within = (
        policy.advantage(torch.from_numpy(model.reward(rows))[None], GROUP, torch.tensor([False]))[0]
        for model in (plain, moved)
    )
    torch.testing.assert_close(without, within, rtol=1e-6, atol=1e-6)


def test_answers_of_a_group_are_one_where_they_are_drawn_by_the_same_numbers(setup, make_job):
    at = policy_step(SEED, STEPS)
    job = make_job(SEED, setup, At(at, Setting("policy.one_draw", True)))
    result = train([job], keep={job.run_id: [at + 1]})[0]
    answers = result.states[at + 1]["answers"].view(-1, GROUP, CONTEXT + 1)
    assert (answers == answers[:, :1]).all()
    assert not (answers[0] == answers[1]).all()
    assert (result.trace["groups_without_variance"][at:] == 1).all()
    assert result.trace["grad_norm"][at] < 1e-3


def test_what_is_judged_is_the_true_reward_of_answers_to_held_out_prompts(setup, make_job):
    job = make_job(SEED, setup)
    bundle = Bundle([job], [fresh_state(job)], 0)
    found = float(policy.evaluate(bundle, 0)["validation_loss"])
    prompts = validation(setup)[0].inputs[:, :GIVEN]
    draws = generator(SEED, "answered", 0).random((6, CONTEXT + 1 - GIVEN))
    rewards = []
    for row in range(6):
        tokens = torch.from_numpy(prompts[row])
        while len(tokens) <= CONTEXT:
            chances = next_of(bundle.flat[0], bundle, tokens, 1.0)
            draw = torch.tensor(draws[row, len(tokens) - GIVEN], dtype=torch.float32)
            tokens = torch.cat((tokens, (chances.exp().cumsum(0) < draw).sum().clamp(max=63)[None]))
        rewards.append(Tasks(0).true_reward(tokens.numpy()))
    assert found == pytest.approx(1 - np.mean(rewards), abs=1e-6)


def test_a_run_is_bitwise_the_same_alone_and_beside_others(setup, make_job, differing, train_together_and_alone):
    jobs = [make_job(seed, setup) for seed in range(3, 10)]
    late = policy_step(3, STEPS) + 2
    jobs += [make_job(3, setup, At(late, Setting(f"policy.{k}", v)), name=k) for k, v in (
        ("kl", 0.0), ("updates", 3), ("mixed", True), ("sync", 3), ("comparisons", 20),
        ("temperature", 0.5), ("one_draw", True),
    )]  # fmt: skip
    together = train_together_and_alone(jobs, STEPS)
    for other in together[7:]:
        assert "loss" in differing(together[0], other)


@pytest.mark.parametrize("updates", [1, 4])
def test_a_run_that_is_entered_goes_on_with_its_answers_and_its_reference(updates, setup, make_job):
    job = make_job(SEED, replaced(setup, policy__updates=updates, policy__sync=2))
    for step in range(policy_step(SEED, STEPS) - 1, policy_step(SEED, STEPS) + 6):
        whole = train([job], keep={job.run_id: [step]})[0]
        entered = train([job], enter={job.run_id: (step, whole.states[step])})[0]
        for name, values in entered.trace.signals.items():
            assert np.array_equal(values, whole.trace[name][step:], equal_nan=True), name


def test_other_runs_and_steps_on_text_have_none_of_the_signals(setup, tiny, make_job):
    begin = policy_step(3, STEPS)
    trace, other = (result.trace for result in train([make_job(3, setup), make_job(4, tiny)]))
    for name in REWARDED:
        assert np.isnan(trace[name][:begin]).all(), name
        assert np.isfinite(trace[name][begin:]).all(), name
        assert np.isnan(other[name]).all(), name
    assert trace["kl"][begin] == pytest.approx(0, abs=1e-6)
    from_the_start = train([make_job(3, replaced(setup, policy__begun=True))])[0].trace
    assert np.isfinite(from_the_start["reward"]).all()


@pytest.mark.parametrize("path", GOES_WITH)
def test_what_rewards_do_not_go_with_is_refused(path, setup):
    check(setup)
    assert OTHER.keys() == GOES_WITH.keys()
    with pytest.raises(InputError, match=rf"^{path}: .* is not allowed with objective=policy; allowed: "):
        check(replace(setup, path, OTHER[path]))


def test_half_a_group_is_refused(setup):
    with pytest.raises(InputError) as error:
        check(replaced(setup, data__rows=6))
    assert str(error.value) == (
        "data.rows: 6 is not allowed with objective=policy; allowed: multiples of policy.group, 4"
    )


def test_rewards_and_their_settings_are_refused_elsewhere(tiny):
    with pytest.raises(InputError) as error:
        check(replaced(tiny, policy__kl=0.5))
    assert str(error.value) == (
        "policy.kl: 0.5 is not allowed with objective=next_token, "
        "which has no settings of its own; allowed: 0.1, or objective=policy"
    )
    with pytest.raises(InputError) as error:
        check(replaced(tiny, data__dialect=Dialect.TASKS))
    assert str(error.value) == (
        "data.dialect: 'tasks' is not allowed with objective=next_token; allowed: with objective=policy"
    )
