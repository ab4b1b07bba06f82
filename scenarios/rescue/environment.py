"""The rescue of a run as a Gymnasium environment: an observation is a block of the log, an action a row of `TABLE`.

    observation  rows   [block, K] float32, the signals of the profile; 0 where nothing finite was logged
                 state  [block, K] int8: 0 nothing logged, 1 a finite number, 2 one that is not finite
                 clock  [3] float32: next step over planned steps, 1 after a rollback, spent runs
    action       a number of `trainwreck.rescue.TABLE`
    reward       net nats saved, at the end; 0 before

The info of `step` has the answer to a question and the reason where an action was not possible, that of the last step
the outcome. Gymnasium: Towers et al. 2024, "Gymnasium: A Standard Interface for Reinforcement Learning Environments".
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from trainwreck.evaluation.constants import COMMON_SIGNALS
from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.trace import SCALARS
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.rescue.actions import TABLE
from trainwreck.scenarios.rescue.episode import BLOCK, QUESTIONS, Episode, advance
from trainwreck.scenarios.rescue.observation import Observation
from trainwreck.scenarios.rescue.outcomes import Case, cases, outcome

Observed = dict[str, np.ndarray]


class RescueEnv(gymnasium.Env[Any, Any]):
    """One run at a time, drawn from a labelled data set by the seed of `reset`.

    plan: folder of the data set, or "sample". profile: `common` or `full`, of whose scalars K are. splits: whose runs.
    """

    metadata = {"render_modes": ["ansi"]}

    def __init__(
        self,
        plan: str | Path = "sample",
        profile: str = "common",
        block: int = BLOCK,
        splits: Sequence[str] = ("train",),
        render_mode: str | None = None,
    ) -> None:
        self.cases = cases(load(plan), splits, profile, block)
        if not self.cases:
            raise InputError(f"splits: {', '.join(splits)} is not allowed; allowed: splits with runs to act on")
        self.profile, self.block, self.render_mode = profile, block, render_mode
        self.signals = _signals(profile)
        self.action_space = spaces.Discrete(len(TABLE))
        self.observation_space = _space(block, len(self.signals))
        self.case: Case | None = None
        self.episode: Episode | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, dict[str, Any]]:
        """Begin an episode. options: {"run_id": ...} for a run of one's own choice. Trains the first block."""
        super().reset(seed=seed)
        wanted = (options or {}).get("run_id")
        if wanted is None:
            self.case = self.cases[int(self.np_random.integers(len(self.cases)))]
        else:
            found = [case for case in self.cases if case.spec.run_id == wanted]
            if not found:
                raise InputError(f"run_id: {str(wanted)[:60]!r} is not allowed; allowed: a run of the plan's splits")
            self.case = found[0]
        self.episode = Episode(self.case.spec, self.profile, self.block)
        advance([self.episode])
        return self._observed(), {}

    def step(self, action: int) -> tuple[Observed, float, bool, bool, dict[str, Any]]:
        """Act, and train a block unless the action was a question."""
        if self.episode is None or self.case is None:
            raise gymnasium.error.ResetNeeded("reset comes first")
        chosen = TABLE[int(action)]
        self.episode.act(chosen)
        if not chosen.asks or self.episode.asked > QUESTIONS:
            advance([self.episode])
        info = _info(self.episode)
        reward, ended = 0.0, bool(self.episode.ended)
        if ended:
            found = outcome(self.case, self.episode, "")
            reward, info = found.net, info | {"outcome": found.to_json()}
        return self._observed(), reward, ended, False, info

    def render(self) -> str | None:
        """The last rows, as text."""
        if self.render_mode != "ansi" or self.episode is None:
            return None
        rows = self.episode.observation().rows[-5:]
        return "\n".join(f"step {row['step']}: " + ", ".join(f"{n} {row[n]}" for n in self.signals[:4]) for row in rows)

    def _observed(self) -> Observed:
        assert self.episode is not None
        return encoded(self.episode.observation(), self.signals, self.block)


class RescueVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many runs side by side, trained as bundles; an episode that ends is followed by another at the next step."""

    def __init__(
        self,
        num_envs: int = 16,
        plan: str | Path = "sample",
        profile: str = "common",
        block: int = BLOCK,
        splits: Sequence[str] = ("train",),
    ) -> None:
        first = RescueEnv(plan, profile, block, splits)
        self.num_envs, self.cases, self.signals = num_envs, first.cases, first.signals
        self.profile, self.block = profile, block
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
        self.single_observation_space, self.single_action_space = first.observation_space, first.action_space
        self.observation_space = gymnasium.vector.utils.batch_space(first.observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(first.action_space, num_envs)
        self.playing: list[tuple[Case, Episode]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, dict[str, Any]]:
        """Begin an episode in each place."""
        super().reset(seed=seed)
        self.playing = [self._drawn() for _ in range(self.num_envs)]
        advance([episode for _, episode in self.playing])
        return self._observed(), {}

    def step(self, actions: np.ndarray) -> tuple[Observed, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act in each place, then train a block of all that did not ask."""
        training, rewards, ended = [], np.zeros(self.num_envs), np.zeros(self.num_envs, bool)
        infos: dict[str, Any] = {}
        for place, (_, episode) in enumerate(self.playing):
            if episode.ended:
                self.playing[place] = self._drawn()
                training.append(self.playing[place][1])
                continue
            chosen = TABLE[int(actions[place])]
            episode.act(chosen)
            if not chosen.asks or episode.asked > QUESTIONS:
                training.append(episode)
        advance(training)
        for place, (case, episode) in enumerate(self.playing):
            info = _info(episode)
            if episode.ended:
                found = outcome(case, episode, "")
                rewards[place], ended[place] = found.net, True
                info = info | {"outcome": found.to_json()}
            infos = self._add_info(infos, info, place)
        return self._observed(), rewards, ended, np.zeros(self.num_envs, bool), infos

    def _drawn(self) -> tuple[Case, Episode]:
        case = self.cases[int(self.np_random.integers(len(self.cases)))]
        return case, Episode(case.spec, self.profile, self.block)

    def _observed(self) -> Observed:
        every = [encoded(one.observation(), self.signals, self.block) for _, one in self.playing]
        return {name: np.stack([one[name] for one in every]) for name in every[0]}


def encoded(seen: Observation, signals: Sequence[str], block: int) -> Observed:
    """An observation as arrays: the last rows of the block, the newest at the end."""
    rows = np.zeros((block, len(signals)), np.float32)
    state = np.zeros((block, len(signals)), np.int8)
    last = seen.rows[-block:]
    for at, row in enumerate(last, start=block - len(last)):
        for k, name in enumerate(signals):
            value = row[name]
            if value is not None:
                number = np.float32(value)
                state[at, k] = 1 if np.isfinite(number) else 2
                rows[at, k] = number if np.isfinite(number) else 0.0
    clock = np.array([seen.step / seen.planned, float(seen.rolled_back), seen.spent], np.float32)
    return {"rows": rows, "state": state, "clock": clock}


def _signals(profile: str) -> tuple[str, ...]:
    known = {"common": COMMON_SIGNALS, "full": SCALARS}
    if profile not in known:
        raise InputError(f"profile: {profile!r} is not allowed; allowed: {', '.join(known)}")
    return tuple(known[profile])


def _space(block: int, signals: int) -> spaces.Dict:
    shape = (block, signals)
    return spaces.Dict(
        {
            "rows": spaces.Box(-np.inf, np.inf, shape, np.float32),
            "state": spaces.Box(0, 2, shape, np.int8),
            "clock": spaces.Box(0, np.inf, (3,), np.float32),
        }
    )


def _info(episode: Episode) -> dict[str, Any]:
    seen = episode.observation()
    note = episode.actions[-1].note if episode.actions else ""
    return {key: value for key, value in (("answer", seen.answer), ("note", note), ("ended", episode.ended)) if value}
