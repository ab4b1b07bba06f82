"""Runs with a critic: estimates, losses and a whole update against plain loops, the state, and what is refused."""

import numpy as np
import pytest
import torch
from torch.nn.functional import layer_norm, log_softmax

from trainwreck.evaluation.dataset.schema import CRITIC
from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.models import gpt
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import check, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.reward import learned
from trainwreck.scenarios.data.sources.tasks import END, GIVEN, Tasks
from trainwreck.scenarios.spec.faults import At, Setting
from trainwreck.scenarios.spec.planned import policy_step
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.loop import train
from trainwreck.scenarios.training.objectives import critic

STEPS, SEED, ROWS, GROUP, CONTEXT = 24, 3, 12, 4, 16


@pytest.fixture(scope="module")
def setup():
    base = bases.policy_critic(healthy(Size.MICRO))
    small = {"steps": STEPS, "evaluation__every": 5, "evaluation__rows": 6, "data__rows": ROWS}
    return replaced(base, schedule__warmup_steps=3, policy__group=GROUP, policy__comparisons=200, **small)


def by_hand(reward, values, decay):
    """Advantages of an answer's tokens as the sum of Schulman et al. 2016, term by term, and its returns."""
    n = len(values)
    after = [*values[1:], 0.0]
    deltas = [(reward if t == n - 1 else 0.0) + after[t] - values[t] for t in range(n)]
    advantages = np.array([sum(decay ** (s - t) * deltas[s] for s in range(t, n)) for t in range(n)])
    return advantages, advantages + np.array(values)


def answer_of(tokens):
    """Places of a row's answer, its end included."""
    places = range(GIVEN, len(tokens))
    end = next((place for place in places if tokens[place] == END), places[-1])
    return list(range(GIVEN, end + 1))


@pytest.mark.parametrize("decay", [0.0, 0.6, 0.95, 1.0])
def test_estimates_are_the_sums_of_the_paper_answer_by_answer(decay):
    draw = generator(5, "critic")
    rows, first = 5, 3
    lengths = [1, 4, 7, 2, CONTEXT - first]  # the last one has no end
    values, rewards = draw.standard_normal((2, rows, CONTEXT)), draw.standard_normal((2, rows))
    scored = np.array([[first <= t < first + n for t in range(CONTEXT)] for n in lengths])
    found = critic.estimates(
        torch.from_numpy(rewards),
        torch.from_numpy(values.reshape(2, -1)),
        torch.from_numpy(np.stack([scored.ravel()] * 2)),
        torch.full((2,), decay, dtype=torch.float64),
        CONTEXT,
    )
    advantages, returns = (x.view(2, rows, CONTEXT).numpy() for x in found)
    for run in range(2):
        for row, length in enumerate(lengths):
            part = slice(first, first + length)
            wanted = by_hand(rewards[run, row], values[run, row, part].tolist(), decay)
            np.testing.assert_allclose(advantages[run, row, part], wanted[0], rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(returns[run, row, part], wanted[1], rtol=1e-12, atol=1e-12)
            if decay == 1:
                np.testing.assert_allclose(returns[run, row, part], rewards[run, row], rtol=1e-12)
    assert (advantages[:, ~scored] == 0).all()
    assert (returns[:, ~scored] == 0).all()


def test_a_value_loss_is_the_larger_one_of_two():
    values, old, returns = ([0.0, 1.0, 1.0, -1.0], [0.0, 0.0, 0.5, 0.0], [1.0, 2.0, 0.0, 1.0])
    found = critic.errors(*(torch.tensor([x]) for x in (values, old, returns)), torch.tensor([0.2]))[0]
    wanted = [max((v - r) ** 2, (o + np.clip(v - o, -0.2, 0.2) - r) ** 2) / 2 for v, o, r in zip(
        values, old, returns, strict=True)]  # fmt: skip
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert wanted == pytest.approx([0.5, 1.62, 0.5, 2.0])


def test_signals_of_a_critic_by_hand():
    returns, values = np.array([1.0, 2.0, 4.0, 9.0]), np.array([1.5, 1.0, 4.0, 7.0])
    counts = torch.tensor([[1.0, 1.0, 1.0, 1.0, 0.0]])
    padded = [torch.tensor([[*x, 77.0]]) for x in (values, returns)]
    found = critic.explained_variance(*padded, counts)
    assert float(found) == pytest.approx(1 - np.var(returns - values) / np.var(returns))
    assert critic.explained_variance(padded[0], torch.ones(1, 5), counts).isnan().all()
    white = critic.whitened(padded[1], counts)[0, :4]
    np.testing.assert_allclose(white, (returns - returns.mean()) / returns.std(ddof=1), rtol=1e-6)


@pytest.mark.parametrize("decay", [0.9, 1.0])
def test_estimates_and_what_they_explain_are_those_of_stable_baselines(decay):
    from gymnasium.spaces import Box, Discrete
    from stable_baselines3.common.buffers import RolloutBuffer
    from stable_baselines3.common.utils import explained_variance

    draw, lengths = generator(6, "critic"), [3, 1, 8, 5]
    scored = np.array([[2 <= t < 2 + n for t in range(10)] for n in lengths])
    values, rewards = draw.standard_normal(scored.shape).astype(np.float32), draw.standard_normal(4).astype(np.float32)
    tensors = torch.from_numpy(values).view(1, -1), torch.from_numpy(scored).view(1, -1)
    advantages, returns = critic.estimates(torch.from_numpy(rewards)[None], *tensors, torch.tensor([decay]), 10)
    # Answers one after the other, each an episode of one environment.
    buffer = RolloutBuffer(sum(lengths), Box(0, 1, (1,)), Discrete(2), "cpu", gae_lambda=decay, gamma=1.0)
    buffer.values[:, 0] = values[scored]
    ends = np.cumsum(lengths)
    buffer.rewards[ends - 1, 0] = rewards
    buffer.episode_starts[ends - lengths, 0] = 1.0
    buffer.compute_returns_and_advantage(torch.tensor([7.0]), np.array([True]))
    inside = tensors[1][0]
    np.testing.assert_allclose(advantages[0, inside], buffer.advantages[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(returns[0, inside], buffer.returns[:, 0], rtol=1e-5, atol=1e-6)
    found = critic.explained_variance(tensors[0], returns, tensors[1].float())
    assert float(found) == pytest.approx(explained_variance(buffer.values[:, 0], buffer.returns[:, 0]), rel=1e-4)


def by_the_papers(state, bundle, settings, reward):
    """Loss, its gradient, the mean value loss and how much values explain, by loops over answers and tokens."""
    now = state["parameters"].clone().requires_grad_()

    def read(flat, tokens):
        w = bundle.plan.views(flat[None])
        inputs = tokens[:-1].view(1, 1, -1)
        x = gpt.states(bundle.model(w, 0, None), inputs, 0 * inputs)[0]
        x = layer_norm(x, x.shape[-1:], w["final_norm.gain"][0], w["final_norm.bias"][0], 1e-5)
        logits = x @ w["head.weight"][0] + w["head.bias"][0]
        return log_softmax(logits, -1), x @ w["head.value.weight"][0, :, 0]

    answers = state["answers"]
    old, old_values = (state[name].view(ROWS, CONTEXT) for name in ("old_logp", "old_values"))
    rows = []
    for row, tokens in enumerate(answers):
        at = np.array(answer_of(tokens.tolist())) - 1
        rows.append(
            (row, at, *by_hand(reward.reward(tokens.numpy()), old_values[row, at].tolist(), settings.gae_lambda))
        )
    pooled = np.concatenate([advantages for _, _, advantages, _ in rows])
    total, missed, judged = torch.zeros(()), [], []
    for row, at, advantages, returns in rows:
        logp, values = read(now, answers[row])
        reference, _ = read(state["reference"], answers[row])
        terms = []
        for place, raw, wanted in zip(at, advantages, returns, strict=True):
            token = answers[row][place + 1]
            advantage = (raw - pooled.mean()) / np.sqrt(pooled.var(ddof=1) + 1e-8)
            ratio = (logp[place, token] - old[row, place]).exp()
            surrogate = torch.min(ratio * advantage, ratio.clamp(1 - settings.clip, 1 + settings.clip_high) * advantage)
            r = (reference[place, token] - logp[place, token]).exp()
            was = old_values[row, place]
            near = was + (values[place] - was).clamp(-settings.value_clip, settings.value_clip)
            missed.append(torch.max((values[place] - wanted) ** 2, (near - wanted) ** 2) / 2)
            terms.append(-surrogate + settings.kl * (r - r.log() - 1) + settings.value_weight * missed[-1])
            judged.append((float(was), wanted))
        total = total + sum(terms) / len(terms) / ROWS
    (grad,) = torch.autograd.grad(total, now)
    was, wanted = np.array(judged).T
    explained = 1 - np.var(wanted - was) / np.var(wanted)
    return float(total.detach()), grad, float(torch.stack(missed).mean().detach()), explained


def test_a_step_is_that_of_the_papers_under_autograd(setup, make_job):
    tight = {"policy__clip": 0.1, "policy__value_clip": 0.05, "policy__gae_lambda": 0.8, "policy__value_weight": 0.7}
    setup = replaced(setup, policy__updates=4, optimizer__lr=0.01, **tight)
    at = policy_step(SEED, STEPS) + 6  # the third step on the second answers
    job = make_job(SEED, setup)
    result = train([job], keep={job.run_id: [at, at + 1]})[0]
    state = result.states[at]
    reward = learned(Tasks(0), SEED, 200, 0.0, setup.policy.offset)
    loss, grad, missed, explained = by_the_papers(state, Bundle([job], [state], at), setup.policy, reward)
    trace = result.trace
    assert trace["loss"][at] == pytest.approx(loss, rel=1e-4, abs=1e-5)
    assert trace["value_loss"][at] == pytest.approx(missed, rel=1e-4)
    assert trace["explained_variance"][at] == pytest.approx(explained, rel=1e-3, abs=1e-4)
    assert trace["grad_norm"][at] == pytest.approx(float(grad.norm()), rel=1e-4)
    first = 0.9 * state["first"] + 0.1 * grad * min(1.0, 1.0 / float(grad.norm()))
    torch.testing.assert_close(result.states[at + 1]["first"], first, rtol=1e-3, atol=1e-6)
    values = Bundle([job], [state], at).plan.views(grad[None])["head.value.weight"]
    assert values.abs().min() > 0


def test_a_value_head_stays_at_0_until_rewards_begin(setup, make_job):
    begin = policy_step(SEED, STEPS)
    runs = [make_job(SEED, replaced(setup, model__value_head=flag)) for flag in (True, False)]
    result, without = train(runs, keep={runs[0].run_id: [begin, begin + 1]})
    plan = Bundle([runs[0]], [result.states[begin]], begin).plan
    at, after = (plan.views(result.states[s]["parameters"][None])["head.value.weight"] for s in (begin, begin + 1))
    assert not at.any()
    assert after.all()
    assert "old_values" not in result.states[begin]
    for name in ("loss", "grad_norm", "kl"):
        assert np.array_equal(result.trace[name][:begin], without.trace[name][:begin], equal_nan=True), name
    assert result.trace["reward"][begin] == without.trace["reward"][begin]
    for name in CRITIC:
        assert np.isnan(result.trace[name][:begin]).all(), name
        assert np.isfinite(result.trace[name][begin:]).all(), name
        assert np.isnan(without.trace[name]).all(), name


def test_a_run_is_bitwise_the_same_alone_and_beside_others(setup, make_job, differing, train_together_and_alone):
    jobs = [make_job(seed, setup) for seed in range(3, 10)]
    late = policy_step(3, STEPS) + 2
    jobs += [make_job(3, setup, At(late, Setting(f"policy.{k}", v)), name=k) for k, v in (
        ("value_weight", 30.0), ("gae_lambda", 0.0), ("updates", 3),
    )]  # fmt: skip
    together = train_together_and_alone(jobs, STEPS)
    for other in together[7:]:
        assert "loss" in differing(together[0], other)


@pytest.mark.parametrize("updates", [1, 4])
def test_a_run_that_is_entered_goes_on_with_its_old_values(updates, setup, make_job):
    job = make_job(SEED, replaced(setup, policy__updates=updates))
    for step in range(policy_step(SEED, STEPS) - 1, policy_step(SEED, STEPS) + 6):
        whole = train([job], keep={job.run_id: [step]})[0]
        entered = train([job], enter={job.run_id: (step, whole.states[step])})[0]
        for name, values in entered.trace.signals.items():
            assert np.array_equal(values, whole.trace[name][step:], equal_nan=True), name


def test_a_value_head_is_refused_elsewhere(tiny):
    with pytest.raises(InputError) as error:
        check(replaced(tiny, model__value_head=True))
    assert str(error.value) == (
        "model.value_head: True is not allowed with objective=next_token; allowed: with objective=policy"
    )


@pytest.mark.parametrize("name", ["value_weight", "gae_lambda", "value_clip"])
def test_settings_of_a_critic_are_refused_without_one(setup, name):
    check(replaced(setup, **{f"policy__{name}": 0.5}))
    with pytest.raises(InputError) as error:
        check(replaced(setup, model__value_head=False, **{f"policy__{name}": 0.5}))
    assert str(error.value) == (
        f"policy.{name}: 0.5 is not allowed without model.value_head; "
        f"allowed: {getattr(setup.policy, name)}, or model.value_head=True"
    )
