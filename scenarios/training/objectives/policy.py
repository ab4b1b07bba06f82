"""Answers that the model draws by itself, trained by their rewards: group-relative policy optimisation.

    A = (reward - mean of its group) / (standard deviation of its group + EPS)
    ratio = p / p_old    of a token: by the policy now, and when the answers were drawn
    loss = mean over answers of the mean over their tokens of
           -min(ratio * A, clip(ratio, 1 - clip, 1 + clip_high) * A) + kl * (r - ln r - 1) - entropy * H

with r = p_reference / p, as Shao et al. 2024 (DeepSeekMath, equations 3 and 4) have it, after the clip of Schulman et
al. 2017. H is the entropy of the next token. The reference is the model as it was when rewards began; before that, runs
are trained on the next token of text. The reward is that of `data.reward`, learned from comparisons; the true
one of `data.answers.tasks` is measured beside it, and no gradient comes from it. A run whose model has a value head has
the advantages of `objectives.critic` in the place of A, less their mean and over their standard deviation, and
value_weight times its value loss in the same mean (PPO with a critic, Schulman et al. 2017).

Shapes: N runs, B rows, T positions, R = T + 1 tokens of a row, M = B T tokens, P given tokens, W = R - P, V vocabulary.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from trainwreck.kernels.dtypes import widen
from trainwreck.kernels.random import generator, sent
from trainwreck.models import gpt
from trainwreck.models.decoding.decode import write
from trainwreck.models.loss import weighted_mean
from trainwreck.models.probe import Probe
from trainwreck.scenarios.config.objectives import PolicyConfig
from trainwreck.scenarios.data.sources.tasks import END, GIVEN
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.bundle import Bundle, HeldOut
from trainwreck.scenarios.training.evaluation import evaluated, sampled
from trainwreck.scenarios.training.inputs import Inputs
from trainwreck.scenarios.training.objectives import critic, next_token
from trainwreck.scenarios.training.objectives.losses import Losses
from trainwreck.scenarios.training.objectives.rollouts import Rollouts

EPS = 1e-4  # of a group's standard deviation
HEAVIEST = 2.0  # weight of a token by importance


def losses(bundle: Bundle, block: Inputs, index: int, step: int, probe: Probe | None) -> Losses:
    """Of the answers that were drawn last; before rewards begin, of the tokens of text."""
    if not bundle.program.rewarded:
        return _on_text(bundle, block, index, step, probe)
    rollouts = _rollouts(bundle)
    with torch.no_grad():
        fresh_N = _draw(bundle, block.inputs[index][:, :, :GIVEN], step)
        tokens = rollouts.answers
        inputs, targets = tokens[..., :-1], tokens[..., 1:].flatten(1)
        documents = torch.zeros_like(inputs)
        context = inputs.shape[2]
        weights = scored(tokens).to(bundle.flat.dtype)
        rewards = rollouts.rewards(tokens)
        advantages, even = advantage(rewards, bundle.program.rewarded, rollouts.mixed)
        reference = bundle.plan.views(bundle.parametrization.apply(_there(bundle.reference)))
        logits = _cooled(gpt.forward(bundle.model(reference, step, bundle.running), inputs, documents), rollouts)
        reference_logp = -bundle.token_losses(logits, targets).nll_NM
    model = bundle.model(bundle.parameters(), step, bundle.running, probe=probe)
    states = gpt.states(model, inputs, documents)
    logits = _cooled(gpt.logits(model, states), rollouts)
    nll, log_z, largest = bundle.token_losses(logits, targets, largest=probe is not None)
    rollouts.old_logp = torch.where(fresh_N.unsqueeze(1), -nll.detach(), rollouts.old_logp)
    ratio = torch.exp(-nll - rollouts.old_logp)
    low, high = 1 - rollouts.clip.unsqueeze(1), 1 + rollouts.clip_high.unsqueeze(1)
    each, criticism = advantages.repeat_interleave(context, 1), None
    judged: dict[str, Tensor] = {}
    if rollouts.old_values is not None:
        each, criticism, judged = _criticised(model, states, rollouts, rewards, weights, fresh_N)
    gain = torch.minimum(ratio * each, torch.clamp(ratio, low, high) * each)
    heavier = torch.exp(rollouts.old_logp - rollouts.sampler_logp).clamp(max=HEAVIEST)
    gain = torch.where(rollouts.importance.unsqueeze(1), heavier * gain, gain)
    further = reference_logp + nll
    divergence = torch.exp(further) - further - 1
    with torch.set_grad_enabled(bundle.program.bonus):
        entropy = entropies(logits, log_z)
    value = -gain + rollouts.kl.unsqueeze(1) * divergence
    if bundle.program.bonus:
        value = value - rollouts.entropy.unsqueeze(1) * entropy
    if criticism is not None:
        value = value + rollouts.value_weight.unsqueeze(1) * criticism
    loss = _mean_of_answers(value, bundle.updates.counted(weights, context), context)
    with torch.no_grad():
        past = ((ratio < low) | (ratio > high)).to(nll.dtype)
        found = {
            "reward": rewards.mean(1),
            "true_reward": rollouts.true_rewards(tokens).mean(1),
            "kl": weighted_mean(divergence, weights),
            "policy_entropy": weighted_mean(entropy, weights),
            "clip_share": weighted_mean(past, weights),
            "answer_length": weights.sum(1) / weights.shape[1] * context,
            "groups_without_variance": even,
            "sampler_log_ratio": weighted_mean((rollouts.old_logp - rollouts.sampler_logp).abs(), weights),
        }
    signals = {name: value.detach() for name, value in (found | judged).items()}
    return Losses(loss, loss, nll, log_z, largest, signals, weights)


@torch.no_grad()
def evaluate(bundle: Bundle, step: int) -> dict[str, Tensor]:
    """1 less the mean true reward of answers to held-out prompts, [N]."""
    found = {"validation_loss": _missed(bundle, step, bundle.held_out)}
    if bundle.fresh is not None:
        found["fresh_loss"] = _missed(bundle, step, bundle.fresh)
    return found


def advantage(rewards_NB: Tensor, group: int, mixed_N: Tensor) -> tuple[Tensor, Tensor]:
    """How far each answer is over its group, in standard deviations, [N, B], and which share of groups is even, [N].

    Rows of a group follow each other. mixed: rows of a group lie as far apart as there are groups, as if rewards
    had been laid out by answer, and then by prompt.
    """
    n, b = rewards_NB.shape

    def normalised(rewards_NQG: Tensor) -> tuple[Tensor, Tensor]:
        mean = rewards_NQG.mean(2, keepdim=True)
        std = ((rewards_NQG - mean) ** 2).sum(2, keepdim=True).div(group - 1).sqrt()
        same = (rewards_NQG == rewards_NQG[..., :1]).all(2)
        return (rewards_NQG - mean) / (std + EPS), same.to(mean.dtype).mean(1)

    own, even = normalised(rewards_NB.view(n, -1, group))
    across, even_across = normalised(rewards_NB.view(n, group, -1).transpose(1, 2).contiguous())
    across = across.transpose(1, 2).reshape(n, b)
    return torch.where(mixed_N.unsqueeze(1), across, own.reshape(n, b)), torch.where(mixed_N, even_across, even)


def scored(tokens_NBR: Tensor) -> Tensor:
    """Which targets are an answer's tokens, up to its end, bool [N, M]."""
    answer = tokens_NBR[..., 1:]
    place = torch.arange(answer.shape[2], device=answer.device)
    ended = (answer == END) & (place >= GIVEN - 1)
    return ((ended.cumsum(2) - ended.to(torch.int64) == 0) & (place >= GIVEN - 1)).flatten(1)


def entropies(logits_NMV: Tensor, log_z_NM: Tensor) -> Tensor:
    """Of the next token, nats, [N, M]."""
    wide = widen(logits_NMV)
    total: Tensor = log_z_NM - (torch.exp(wide - log_z_NM.unsqueeze(2)) * wide).sum(2)
    return total


def _on_text(bundle: Bundle, block: Inputs, index: int, step: int, probe: Probe | None) -> Losses:
    """Before rewards: a value head has no part in it, and a gradient of 0."""
    found = next_token.losses(bundle, block, index, step, probe)
    if _rollouts(bundle).old_values is None:
        return found
    unused = 0.0 * bundle.parameters()["head.value.weight"].sum((1, 2))
    return found._replace(objective=found.objective + unused)


def _criticised(
    model: gpt.Model, states_NMD: Tensor, rollouts: Rollouts, rewards_NB: Tensor, weights_NM: Tensor, fresh_N: Tensor
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Advantages of tokens and their value losses, [N, M] each, and the signals of a critic."""
    values, old = gpt.values(model, states_NMD), rollouts.old_values
    assert old is not None, "the model has a value head"
    rollouts.old_values = old = torch.where(fresh_N.unsqueeze(1), values.detach(), old)
    context = values.shape[1] // rewards_NB.shape[1]
    advantages, returns = critic.estimates(rewards_NB, old, weights_NM > 0, rollouts.gae_lambda, context)
    missed = critic.errors(values, old, returns, rollouts.value_clip)
    signals = {
        "value_loss": weighted_mean(missed.detach(), weights_NM),
        "explained_variance": critic.explained_variance(old, returns, weights_NM),
    }
    return critic.whitened(advantages, weights_NM), missed, signals


def _draw(bundle: Bundle, prompts_NBP: Tensor, step: int) -> Tensor:
    """Draw new answers for the runs that are due; bool [N] says which. The others keep theirs."""
    rollouts = _rollouts(bundle)
    policies = [segment.setup.policy for segment in bundle.segments]
    age = [step - first for first in rollouts.first]
    due = [a % policy.updates == 0 for a, policy in zip(age, policies, strict=True)]
    due_N = sent(np.array(due), bundle.device)
    if not any(due):
        return due_N
    synced = [d and a % policy.sync == 0 for a, d, policy in zip(age, due, policies, strict=True)]
    synced_N = sent(np.array(synced), bundle.device)
    rollouts.sampler = torch.where(synced_N.unsqueeze(1), bundle.flat, _there(rollouts.sampler))
    n, b, p = prompts_NBP.shape
    count = bundle.setup.model.context + 1 - p
    of = zip(bundle.jobs, policies, strict=True)
    draws = sent(np.stack([_draws(job, policy, step, (b, count)) for job, policy in of]), bundle.device)
    params = bundle.plan.views(bundle.parametrization.apply(rollouts.sampler))
    model = bundle.model(params, step, bundle.running)
    written, logits = write(model, prompts_NBP, draws, temperature_N=rollouts.temperature)
    nll = bundle.token_losses(logits.reshape(n, b * count, -1), written.reshape(n, -1)).nll_NM.view(n, b, count)
    ended = (written == END).cumsum(2) > 0
    tokens = torch.cat((prompts_NBP, torch.where(ended, END, written)), 2)
    logp = torch.cat((nll.new_zeros(n, b, p - 1), -nll), 2).flatten(1)
    rollouts.answers = torch.where(due_N.view(-1, 1, 1), tokens, rollouts.answers)
    rollouts.sampler_logp = torch.where(due_N.unsqueeze(1), logp, rollouts.sampler_logp)
    return due_N


def _draws(job: Job, policy: PolicyConfig, step: int, shape: tuple[int, int]) -> np.ndarray:
    """Random numbers of the answers of a step, [B, W]."""
    draws = generator(job.seed, "answers", step).random(shape)
    return np.repeat(draws[:: policy.group], policy.group, 0) if policy.one_draw else draws


def _missed(bundle: Bundle, step: int, held_out: HeldOut) -> Tensor:
    inputs, _, weights, _ = held_out
    prompts = inputs[:, :, :GIVEN]
    shape = (inputs.shape[1], bundle.setup.model.context + 1 - GIVEN)
    draws = sent(np.stack([_draws_of_answers(job.seed, shape) for job in bundle.jobs]), bundle.device)
    written, _ = write(evaluated(bundle, step), prompts, draws)
    rewards = _rollouts(bundle).true_rewards(torch.cat((prompts, written), 2))
    counted = (sampled(bundle, step, weights) > 0).any(2).to(rewards.dtype)
    return 1 - weighted_mean(rewards, counted)


def _mean_of_answers(value_NM: Tensor, weight_NM: Tensor, context: int) -> Tensor:
    """Mean over answers of the mean over their tokens, [N]; an answer of which none counts is left out."""
    value, weight = (x.view(len(x), -1, context) for x in (value_NM, weight_NM))
    total = weight.sum(2)
    means = (value * weight).sum(2) / torch.where(total > 0, total, 1.0)
    return weighted_mean(means, (total > 0).to(means.dtype))


def _cooled(logits_NMV: Tensor, rollouts: Rollouts) -> Tensor:
    return logits_NMV / rollouts.temperature.view(-1, 1, 1)


def _rollouts(bundle: Bundle) -> Rollouts:
    assert bundle.rollouts is not None, "runs of this objective have them"
    return bundle.rollouts


def _there(weights: Tensor | None) -> Tensor:
    assert weights is not None, "rewards have begun"
    return weights


@lru_cache(maxsize=64)
def _draws_of_answers(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """The same at every evaluation, so that rewards differ by the weights alone."""
    return generator(seed, "answered", 0).random(shape)
