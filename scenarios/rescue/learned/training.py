"""`trainwreck rescue DIR --learn`: from episodes on the train split of a data set to a policy.

At the moments that `Situation` finds in a training run, every action is tried: the run is forked and trained on to its
end. So the reward of each action is known in each situation, which makes this cost-sensitive classification, the
contextual bandit with full information; nothing has to be weighted for how an action was drawn. Trees (scikit-learn's
extremely randomised ones, Geurts et al. 2006) estimate the reward of each action from what was seen. `continue` has 0.

    reward    net nats saved, price included; less `HARM` of the run's worth where a run that does not fail is harmed

Moments of a failing run before its failure is visible are left out: the run is as a healthy one there, and an action
would be rewarded for luck.

Beside the policy stands what it is worth where it was not trained: with all runs of a scenario held out in turn,
healthy ones by seed, and with all runs of a seed. Nothing but the train split is ever read, and of its labels only what
rewards are made of and the visible step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainwreck.evaluation.constants import COSTS
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import RunKind
from trainwreck.evaluation.detectors.registry import load_detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import sha256
from trainwreck.scenarios.rescue.courses import Explored, Forks, KeptCourses, Progress, explore
from trainwreck.scenarios.rescue.episode import Episode
from trainwreck.scenarios.rescue.learned.model import Model, Trees
from trainwreck.scenarios.rescue.learned.situation import Situation
from trainwreck.scenarios.rescue.outcomes import Case, Outcome, cases
from trainwreck.scenarios.rescue.policies import treatment
from trainwreck.scenarios.rescue.watcher import ALARM

TRAIN, HEALTHY = "train", RunKind.HEALTHY.value
ACTIONS = (
    "stop", "rate=0.1", "roll_back=20", "roll_back=50", "restore=data", "restore=mask", "restore=positions",
    "restore=model", "restore=updates", "restore=settings",
)  # fmt: skip
HARM = COSTS["kill"]  # runs, for one that does not fail and is harmed
MARGINS = (0.0, 0.05, 0.1, 0.2, 0.4)  # nats
FEWEST = 2  # scenarios, and seeds
FOREST: dict[str, Any] = {"n_estimators": 100, "min_samples_leaf": 2, "max_features": 0.5, "random_state": 0}


@dataclass(frozen=True)
class Moments:
    """Moments of training runs at which something is to be decided, by run, then step.

    seen: [N, F]. reward: [N, A]. run: [N], position in `runs`. harms: [N, A], whether the action harms.
    """

    runs: Sequence[Case]
    seen: np.ndarray
    reward: np.ndarray
    harms: np.ndarray
    run: np.ndarray


def kept_episodes(path: Path, profile: str, block: int) -> KeptCourses:
    """The file of `--out`. Raises InputError for one of other episodes."""
    return KeptCourses(path, {"profile": profile, "block": block, "actions": list(ACTIONS)})


def learn(
    data: DataSet, profile: str, block: int, kept: KeptCourses | None = None, progress: Progress | None = None
) -> Model:
    """Train on the train split, by training on. InputError for a data set without one, or with too little in it.

    The same data set gives the same policy on one machine. kept: where episodes are kept, and what is there.
    """
    found = train_cases(data, profile, block)
    calls = treatments()
    return fit(moments(explore(found, profile, block, forks(calls), kept, progress)), calls, about(data, found))


def train_cases(data: DataSet, profile: str, block: int) -> list[Case]:
    """The runs of the train split. InputError where they do not do."""
    found = cases(data, [TRAIN], profile, block)
    failing = [case for case in found if case.failing]
    for what, count in (
        ("scenarios", len({case.spec.scenario for case in failing})),
        ("seeds", len({case.spec.seed for case in failing})),
    ):
        if count < FEWEST:
            raise InputError(
                f"{data.path}: failing runs of {count} {what} in the split {TRAIN!r} are too few; allowed: {FEWEST} "
                f"{what} or more"
            )
    return found


def treatments() -> dict[str, list[str]]:
    """What each cause that `playbook` may name calls for, of the actions that are tried."""
    named = load_detector(ALARM)().causes
    called = {cause: [str(action) for action in treatment(cause) if str(action) in ACTIONS] for cause in named}
    return {cause: actions for cause, actions in sorted(called.items()) if actions}


def forks(calls: dict[str, list[str]]) -> Forks:
    """Every action, at each moment that `Situation` finds, of a failing run once its failure is visible."""
    situations: dict[str, Situation] = {}
    seen: dict[str, list[float]] = {}

    def decides(case: Case, root: Episode) -> bool:
        run = case.spec.run_id
        if root.step == 0:
            situations[run] = Situation(calls)
        row = situations[run].see(root.observation())
        if row is None or (case.failing and (case.visible is None or root.step <= case.visible)):
            return False
        seen[run] = row.tolist()
        return True

    return Forks(ACTIONS, decides, look=lambda root: seen[root.spec.run_id])


def moments(explored: Sequence[Explored]) -> Moments:
    """What was seen and what each action came to. InputError where nothing was ever to be decided."""
    seen, reward, harms, run = [], [], [], []
    for number, one in enumerate(explored):
        for step, row in one.seen.items():
            ended = [one.courses[step, action].outcome for action in ACTIONS]
            seen.append(row)
            reward.append([rewarded(outcome) for outcome in ended])
            harms.append([outcome.harmed for outcome in ended])
            run.append(number)
    if not seen:
        raise InputError(f"split: {TRAIN} is not allowed; allowed: one with a run in which something changes")
    return Moments([one.case for one in explored], *(np.array(part) for part in (seen, reward, harms, run)))


def rewarded(outcome: Outcome) -> float:
    """What an episode is worth to the policy, nats."""
    return outcome.net - (HARM * outcome.worth if outcome.harmed else 0.0)


def fit(found: Moments, calls: dict[str, list[str]], facts: dict[str, Any]) -> Model:
    """The policy of moments. Its margin is the one that earns most with scenarios held out."""
    by_scenario = held_out(found, lambda case: case.spec.seed if case.kind == HEALTHY else case.spec.scenario)
    by_seed = held_out(found, lambda case: case.spec.seed)
    margin = max(MARGINS, key=lambda margin: (round(judged(found, by_scenario, margin)["earned"], 6), margin))
    facts = facts | {
        "moments": len(found.seen),
        "hindsight": _rounded(judged(found, found.reward, 0.0)),
        "held_out": {
            "scenario": _rounded(judged(found, by_scenario, margin)),
            "seed": _rounded(judged(found, by_seed, margin)),
        },
    }
    return Model(_fitted(found.seen, found.reward), ACTIONS, margin, calls, facts)


def held_out(found: Moments, group: Callable[[Case], Any]) -> np.ndarray:
    """The reward that is promised for each action by trees that saw no run of the same group. [N, A]"""
    names = [group(case) for case in found.runs]
    of = np.array([sorted(set(names), key=str).index(name) for name in names])[found.run]
    promised = np.zeros_like(found.reward)
    for number in np.unique(of):
        trees = _fitted(found.seen[of != number], found.reward[of != number])
        for i in np.flatnonzero(of == number):
            promised[i] = trees(found.seen[i])
    return promised


def judged(found: Moments, promised: np.ndarray, margin: float) -> dict[str, float]:
    """What acting by these promises earns, one act a run, at the first moment that promises more than the margin.

    earned: sum of rewards over failing runs and others, nats. acted: failing runs that were acted on. harmed: runs
    that do not fail and were harmed.
    """
    earned, acted, harmed = 0.0, 0, 0
    done: set[int] = set()
    for i in range(len(found.run)):
        run, best = int(found.run[i]), int(promised[i].argmax())
        if run in done or promised[i, best] <= margin:
            continue
        done.add(run)
        earned += float(found.reward[i, best])
        acted += found.runs[run].failing
        harmed += bool(found.harms[i, best])
    return {"earned": earned, "acted": acted, "harmed": harmed}


def about(data: DataSet, found: Sequence[Case]) -> dict[str, Any]:
    """What the file of a policy says of where it comes from."""
    import sklearn

    kinds = [case.kind for case in found]
    return {
        "data_set": sha256(data.path / "manifest.json"),
        "plan": data.manifest.get("plan", ""),
        "runs": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "seeds": sorted({case.spec.seed for case in found}),
        "scenarios": sorted({case.spec.scenario for case in found if case.kind != HEALTHY}),
        "command": "trainwreck rescue DIR --learn",
        "packages": {"numpy": np.__version__, "scikit-learn": sklearn.__version__},
    }


def _rounded(facts: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in facts.items()}


def _fitted(seen: np.ndarray, reward: np.ndarray) -> Trees:
    from sklearn.ensemble import ExtraTreesRegressor

    trees = [one.tree_ for one in ExtraTreesRegressor(**FOREST).fit(seen.astype(np.float32), reward).estimators_]
    starts = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
    leaf = np.concatenate([tree.children_left for tree in trees]) < 0
    own = np.arange(len(leaf))
    shift = np.repeat(starts, [tree.node_count for tree in trees])

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(tree, name) for tree in trees])

    return Trees(
        roots=starts.astype(np.int32),
        feature=np.where(leaf, 0, joined("feature")).astype(np.int32),
        threshold=np.where(leaf, 0.0, joined("threshold")),
        left=np.where(leaf, own, joined("children_left") + shift).astype(np.int32),
        right=np.where(leaf, own, joined("children_right") + shift).astype(np.int32),
        value=np.where(leaf[:, None], joined("value")[:, :, 0], 0.0).astype(np.float32),
    )
