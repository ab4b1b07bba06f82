"""The environment by Gymnasium's own checks, alone and side by side."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import trainwreck.rescue
from trainwreck.evaluation.errors import InputError
from trainwreck.rescue import ID
from trainwreck.scenarios.rescue.actions import TABLE, Action
from trainwreck.scenarios.rescue.episode import QUESTIONS

CONTINUE = TABLE.index(Action.parse("continue"))
STOP = TABLE.index(Action.parse("stop"))
ASK = TABLE.index(Action.parse("ask_detector=playbook"))
EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "examples" / "ppo.py"
UNBOUNDED = "ignore:.*A Box observation space m"  # signals have no bounds


@pytest.fixture(scope="module")
def env():
    with gymnasium.make(ID, plan="sample", block=50) as made:
        yield made


def test_gymnasium_knows_the_environment_once_the_module_is_imported():
    """In a process of its own, and in both orders: nothing else may have made it known."""
    lines = ["import gymnasium", "import trainwreck.rescue"]
    for order in (lines, lines[::-1]):
        code = "; ".join([*order, "gymnasium.spec('trainwreck/Rescue-v0')"])
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings(UNBOUNDED)
def test_gymnasium_has_nothing_against_it(env):
    check_env(env.unwrapped, skip_render_check=True)


def test_an_episode_ends_with_the_net_nats_saved(env):
    env.reset(seed=0)
    rewards, ended, info = [], False, {}
    while not ended:
        observed, reward, ended, cut, info = env.step(CONTINUE)
        rewards.append(reward)
        assert not cut
        assert env.observation_space.contains(observed)
    assert len(rewards) == 3  # of 200 steps the first 50 are trained by reset
    assert rewards[:-1] == [0, 0]
    outcome = info["outcome"]
    assert rewards[-1] == pytest.approx(outcome["saved"] - outcome["spent"] * outcome["worth"])
    assert outcome["trained"] == 200


def test_a_question_is_answered_and_trains_nothing(env):
    env.reset(seed=0)
    _, reward, ended, _, info = env.step(ASK)
    assert (reward, ended) == (0, False)
    assert info["answer"].startswith("playbook: ")
    assert env.unwrapped.episode.step == 50


def test_questions_without_end_train_the_run(env):
    env.reset(seed=0)
    for _ in range(QUESTIONS + 1):
        env.step(ASK)
    assert env.unwrapped.episode.step == 100


def test_a_run_can_be_asked_for_by_name(env):
    wanted = env.unwrapped.cases[3].spec.run_id
    env.reset(options={"run_id": wanted})
    assert env.unwrapped.case.spec.run_id == wanted
    with pytest.raises(InputError, match="run_id: 'nobody' is not allowed"):
        env.reset(options={"run_id": "nobody"})


def test_what_is_not_finite_is_said_and_not_shown(env):
    nan = next(case for case in env.unwrapped.cases if case.spec.scenario == "nan_weight_spread")
    env.reset(options={"run_id": nan.spec.run_id})
    ended, states = False, []
    while not ended:
        observed, _, ended, _, _ = env.step(CONTINUE)
        states.append(observed["state"])
        assert np.isfinite(observed["rows"]).all()
    assert (np.stack(states) == 2).any()


def test_episodes_side_by_side_are_those_alone(env):
    many = gymnasium.make_vec(ID, 3, vectorization_mode="vector_entry_point", block=50).unwrapped
    assert many.observation_space.contains(many.reset(seed=5)[0])
    cases = [case for case, _ in many.playing]
    rewards, playing = np.zeros(3), list(many.playing)
    while not all(episode.ended for _, episode in playing):
        _, found, ended, _, _ = many.step(np.full(3, CONTINUE))
        for place, (_, episode) in enumerate(playing):
            if many.playing[place][1] is episode:
                rewards[place] += found[place]
                assert bool(episode.ended) == ended[place]
    for case, reward in zip(cases, rewards, strict=True):
        env.reset(options={"run_id": case.spec.run_id})
        ended = False
        while not ended:
            _, alone, ended, _, _ = env.step(CONTINUE)
        assert alone == reward
    done = [place for place, (_, episode) in enumerate(many.playing) if episode.ended]
    observed, rewards, ended, _, _ = many.step(np.full(3, STOP))  # begins another episode there, whatever the action
    assert done
    assert not ended[done].any()
    assert not rewards[done].any()
    assert [many.playing[place][1].step for place in done] == [50] * len(done)
    assert many.observation_space.contains(observed)


def test_what_is_not_allowed_is_said():
    with pytest.raises(InputError, match="profile: 'minimal' is not allowed; allowed: common, full"):
        gymnasium.make(ID, profile="minimal")
    with pytest.raises(InputError, match="splits: private is not allowed"):
        gymnasium.make(ID, splits=("private",))


def test_an_agent_of_stable_baselines_learns_and_plays(capsys):
    runpy.run_path(str(EXAMPLE))["main"]("sample", 32, runs=1)
    (line,) = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\S+: [+-]\d+\.\d{3} nats, .+", line)


def test_the_module_has_what_it_names():
    assert all(hasattr(trainwreck.rescue, name) for name in trainwreck.rescue.__all__)
