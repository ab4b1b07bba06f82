"""What runs that are trained by rewards have beside their weights: the answers drawn last, and what they are worth.

Shapes: N runs, B rows, T positions, R = T + 1 tokens of a row, M = B T tokens, G topics, V tokens of tasks.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainwreck.kernels.random import sent
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.data.reward import RewardModel, learned
from trainwreck.scenarios.data.sources.selection import source, source_key
from trainwreck.scenarios.data.sources.tasks import COST, END, GIVEN, OWN, TOPIC, TOPICS, Tasks
from trainwreck.scenarios.spec.faults import State
from trainwreck.scenarios.spec.job import Job, Segment

KEPT = ("answers", "old_logp", "sampler_logp")  # of a run's state, as they are called there
VALUES = "old_values"  # of those with a value head


@dataclass
class Rollouts:
    """Rewards and settings of each run, and the answers that are trained on, with their log-probabilities as drawn.

    answers: rows with their prompts, int64 [N, B, R]. old_logp, sampler_logp: by the policy when drawn, and by the
    sampler, [N, M]. old_values: of a value head then, [N, M]; None without one. sampler: the weights that answers are
    drawn with, [N, P]; None before rewards. worth: reward of a topic's tokens, [N, G, V]; constant: added to them, [N,
    G]. right: which tokens are a topic's words, bool [N, G, V]. first: the step at which rewards began.
    """

    answers: Tensor
    old_logp: Tensor
    sampler_logp: Tensor
    sampler: Tensor | None
    worth: Tensor
    constant: Tensor
    right: Tensor
    kl: Tensor
    clip: Tensor
    clip_high: Tensor
    entropy: Tensor
    temperature: Tensor
    mixed: Tensor
    importance: Tensor
    first: list[int]
    old_values: Tensor | None
    value_weight: Tensor
    gae_lambda: Tensor
    value_clip: Tensor

    @classmethod
    def made(cls, jobs: list[Job], segments: list[Segment], states: list[State], like: Tensor) -> "Rollouts":
        """Those of runs as their states left them. like: their flat weights, whose device and dtype they get."""
        setup, begun = segments[0].setup, segments[0].program.rewarded > 0
        rows, context = setup.data.rows, setup.model.context
        tasks = [_tasks(segment) for segment in segments]
        policies = [segment.setup.policy for segment in segments]
        models = [
            learned(task, job.seed, policy.comparisons, policy.length_bias, policy.offset)
            if begun
            else RewardModel(np.zeros((TOPICS, END + 1)), np.zeros(TOPICS))
            for task, job, policy in zip(tasks, jobs, policies, strict=True)
        ]
        nothing = {
            "answers": torch.zeros(rows, context + 1, dtype=torch.int64),
            "old_logp": torch.zeros(rows * context, dtype=like.dtype),
            "sampler_logp": torch.zeros(rows * context, dtype=like.dtype),
        }
        if setup.model.value_head:
            nothing[VALUES] = torch.zeros(rows * context, dtype=like.dtype)
        kept = {n: torch.stack([s.get(n, one).to(like.device) for s in states]) for n, one in nothing.items()}
        sampler = torch.stack([s.get("sampler", s["parameters"]).to(like.device) for s in states])

        def column(values: list[float]) -> Tensor:
            return torch.tensor(values, dtype=like.dtype, device=like.device)

        return cls(
            answers=kept["answers"],
            old_logp=kept["old_logp"],
            sampler_logp=kept["sampler_logp"],
            old_values=kept.get(VALUES),
            sampler=sampler if begun else None,
            worth=sent(np.stack([m.weight for m in models]), like.device).to(like.dtype),
            constant=sent(np.stack([m.constant for m in models]), like.device).to(like.dtype),
            right=sent(np.stack([task.right for task in tasks]), like.device),
            kl=column([p.kl for p in policies]),
            clip=column([p.clip for p in policies]),
            clip_high=column([p.clip_high for p in policies]),
            entropy=column([p.entropy for p in policies]),
            temperature=column([p.temperature for p in policies]),
            mixed=torch.tensor([p.mixed for p in policies], device=like.device),
            importance=torch.tensor([p.importance for p in policies], device=like.device),
            first=[_begun(job, s) for job, s in zip(jobs, segments, strict=True)],
            value_weight=column([p.value_weight for p in policies]),
            gae_lambda=column([p.gae_lambda for p in policies]),
            value_clip=column([p.value_clip for p in policies]),
        )

    def state(self) -> dict[str, Tensor]:
        """What of it is part of a run's state, by name; nothing before rewards."""
        if self.sampler is None:
            return {}
        values = {} if self.old_values is None else {VALUES: self.old_values}
        return {name: getattr(self, name) for name in KEPT} | values | {"sampler": self.sampler}

    def rewards(self, tokens_NBR: Tensor) -> Tensor:
        """Of rows by the reward model, [N, B]."""
        topic = _of_topic(self.worth, tokens_NBR)
        constant = _of_topic(self.constant.unsqueeze(2), tokens_NBR).squeeze(2)
        return (topic * counts(tokens_NBR).to(topic.dtype)).sum(2) + constant

    def true_rewards(self, tokens_NBR: Tensor) -> Tensor:
        """`Tasks.true_reward` on the device, [N, B]."""
        named = counts(tokens_NBR)
        distinct = ((named > 0) & _of_topic(self.right, tokens_NBR)).sum(2)
        length = ((tokens_NBR[..., GIVEN:] == END).cumsum(2) == 0).sum(2)
        return ((distinct - COST * (length - distinct)) / OWN).clamp(0.0, 1.0).to(self.worth.dtype)


def rollouts(jobs: list[Job], segments: list[Segment], states: list[State], like: Tensor) -> Rollouts | None:
    """`Rollouts.made`; None for runs of another objective."""
    if segments[0].program.objective is not ObjectiveKind.POLICY:
        return None
    return Rollouts.made(jobs, segments, states, like)


def counts(tokens_NBR: Tensor) -> Tensor:
    """`tasks.counts` on the device, int64 [N, B, V]."""
    answer = tokens_NBR[..., GIVEN:]
    end = answer == END
    within = end.cumsum(2) - end.to(torch.int64) == 0
    found = torch.zeros(*answer.shape[:2], END + 2, dtype=torch.int64, device=answer.device)
    # A token that no task has goes to a column of its own, which is left out.
    found.scatter_add_(2, answer.clamp(max=END + 1), within.to(torch.int64))
    return found[..., : END + 1]


def _of_topic(table_NGV: Tensor, tokens_NBR: Tensor) -> Tensor:
    """The part of a table that each row's topic has, [N, B, V]."""
    topic = (tokens_NBR[..., 0] - TOPIC).clamp(0, TOPICS - 1)  # of a damaged row it may be none
    return table_NGV.gather(1, topic.unsqueeze(2).expand(-1, -1, table_NGV.shape[2]))


def _tasks(segment: Segment) -> Tasks:
    found = source(source_key(segment.setup.data))
    assert isinstance(found, Tasks), "settings allow no other source with this objective"
    return found


def _begun(job: Job, segment: Segment) -> int:
    if not segment.setup.policy.begun:
        return 0
    return min(s.start for s in job.segments if s.setup.policy.begun)
