"""PPO of Stable-Baselines3 learns to act on training runs: `python ppo.py DIR STEPS`.

It is trained on the train split of the data set for STEPS steps of the environment, and plays runs of the test split.
Prints the net nats saved of each. `pip install "trainwreck[rescue]" stable-baselines3` installs what it needs.
"""

import sys

import gymnasium
from stable_baselines3 import PPO

import trainwreck.rescue  # noqa: F401 - makes the environment known


def main(plan: str, steps: int, runs: int = 4) -> None:
    """Train, then play. plan: a data set, or sample; runs: of the test split that are played."""
    training = gymnasium.make("trainwreck/Rescue-v0", plan=plan, splits=("train",))
    # gamma: the reward comes at the end of an episode.
    agent = PPO("MultiInputPolicy", training, n_steps=32, batch_size=32, ent_coef=0.01, gamma=1.0, seed=0)
    agent.learn(steps)
    env = gymnasium.make("trainwreck/Rescue-v0", plan=plan, splits=("test",))
    for case in env.unwrapped.cases[:runs]:
        seen, _ = env.reset(options={"run_id": case.spec.run_id})
        ended, reward, info = False, 0.0, {}
        while not ended:
            action, _ = agent.predict(seen, deterministic=True)
            seen, reward, ended, _, info = env.step(int(action))
        did = ", ".join(action for _, action, _ in info["outcome"]["actions"])
        print(f"{case.spec.run_id}: {reward:+.3f} nats, {did or 'nothing done'}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
