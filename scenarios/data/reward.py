"""A reward model: what each token of an answer adds, learned from comparisons of two answers to a prompt.

    reward(answer) = sum over its tokens of w[topic, token] + constant[topic]

Answers are those of the text, and which is better follows from the true reward: chances of Bradley and Terry (1952), as
a reward model of language models is trained (Ouyang et al. 2022). w is the maximum of the likelihood with a normal
prior (RIDGE), by Newton's method. Where it was trained, own words seldom repeat, and each is worth something; that a
word repeated is worth nothing is no part of the model. So it ranks answers of the text well, and wrong far from them.
A comparison is of two answers to one prompt, so that no constant of a prompt is ever learned.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trainwreck.kernels.random import generator
from trainwreck.scenarios.data.sources.tasks import END, TOPIC, TOPICS, Tasks, counts, lengths

SHARPNESS = 20.0  # log odds of a comparison for a difference of 1 in true reward
RIDGE = 1.0
NEWTON = 12  # iterations
CONTEXT = 16  # of the rows that are compared


@dataclass(frozen=True)
class RewardModel:
    """weight: of a topic's and a token's count, [TOPICS, END + 1]. constant: of a topic, [TOPICS].

    Rewards of the compared answers have mean 0 and standard deviation 1, but for a drawn offset.
    """

    weight: np.ndarray
    constant: np.ndarray

    def reward(self, tokens: np.ndarray) -> np.ndarray:
        """Of rows [..., T + 1]."""
        topic = tokens[..., 0] - TOPIC
        found: np.ndarray = (self.weight[topic] * counts(tokens)).sum(-1) + self.constant[topic]
        return found


@lru_cache(maxsize=64)
def learned(tasks: Tasks, seed: int, comparisons: int, length_bias: float, offset: float = 0.0) -> RewardModel:
    """The reward model of a run's seed.

    length_bias: what a token more adds to the log odds of being called better. offset: standard deviation of a
    constant of each topic, drawn from the seed.
    """
    rows = tasks.sample(seed, "comparisons", range(1), 2 * comparisons, CONTEXT, group=2).tokens[0]
    odds = SHARPNESS * tasks.true_reward(rows) + length_bias * lengths(rows)
    draws = generator(seed, "comparisons/labels").random(comparisons)
    first = draws < 1 / (1 + np.exp(odds[1::2] - odds[::2]))
    found = counts(rows).astype(float)
    weight = np.zeros((TOPICS, END + 1))
    for topic in range(TOPICS):
        of = rows[::2, 0] == TOPIC + topic
        weight[topic] = _fitted(np.where(first, 1.0, -1.0)[of, None] * (found[::2] - found[1::2])[of])
    rewards = (weight[rows[:, 0] - TOPIC] * found).sum(-1)
    scale = rewards.std() or 1.0
    offsets = offset * generator(seed, "reward/offsets").standard_normal(TOPICS)
    return RewardModel(weight / scale, offsets - rewards.mean() / scale)


def _fitted(better: np.ndarray) -> np.ndarray:
    """Weights [F] of logistic regression on how far better answers are over worse ones, [C, F]."""
    w = np.zeros(better.shape[1])
    for _ in range(NEWTON):
        wrong = 1 / (1 + np.exp(better @ w))
        slope = better.T @ wrong - RIDGE * w
        curvature = (better * (wrong * (1 - wrong))[:, None]).T @ better + RIDGE * np.eye(len(w))
        w = w + np.linalg.solve(curvature, slope)
    return w
