"""Rescue: policies act on training runs under way, and what they save is measured by training on.

    import gymnasium

    import trainwreck.rescue

    env = gymnasium.make("trainwreck/Rescue-v0", plan="sample", profile="common")

The environment is known to Gymnasium once this module is imported. `Action`, `TABLE`, `Episode` and `play` serve
without Gymnasium, which the extra `rescue` installs. See docs/rescue.md. A name is imported when it is first used.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwreck.scenarios.rescue.actions import PRICES, TABLE, Action, Kind, Part
    from trainwreck.scenarios.rescue.board import Oracle, play, play_all, table
    from trainwreck.scenarios.rescue.environment import RescueEnv, RescueVectorEnv
    from trainwreck.scenarios.rescue.episode import Episode, advance
    from trainwreck.scenarios.rescue.learned.policy import with_weights
    from trainwreck.scenarios.rescue.observation import Observation
    from trainwreck.scenarios.rescue.outcomes import Case, Outcome, cases
    from trainwreck.scenarios.rescue.policies import BUILT_IN, Policy, treatment
    from trainwreck.scenarios.rescue.remote.opening import open_policy

__all__ = [
    "BUILT_IN",
    "PRICES",
    "TABLE",
    "Action",
    "Case",
    "Episode",
    "Kind",
    "Observation",
    "Oracle",
    "Outcome",
    "Part",
    "Policy",
    "RescueEnv",
    "RescueVectorEnv",
    "advance",
    "cases",
    "open_policy",
    "play",
    "play_all",
    "register",
    "table",
    "treatment",
    "with_weights",
]
ID = "trainwreck/Rescue-v0"
_ROOM = "trainwreck.scenarios.rescue"
_HOMES = {
    "actions": ("PRICES", "TABLE", "Action", "Kind", "Part"),
    "board": ("Oracle", "play", "play_all", "table"),
    "environment": ("RescueEnv", "RescueVectorEnv"),
    "episode": ("Episode", "advance"),
    "learned.policy": ("with_weights",),
    "observation": ("Observation",),
    "outcomes": ("Case", "Outcome", "cases"),
    "policies": ("BUILT_IN", "Policy", "treatment"),
    "remote.opening": ("open_policy",),
}


def register() -> None:
    """Make the environment known to Gymnasium. Importing this module does it where Gymnasium is installed."""
    from gymnasium.envs.registration import register as enter
    from gymnasium.envs.registration import registry

    if ID not in registry:
        enter(ID, f"{_ROOM}.environment:RescueEnv", vector_entry_point=f"{_ROOM}.environment:RescueVectorEnv")


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{_ROOM}.{home}"), name)
    raise AttributeError(f"module 'trainwreck.rescue' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if find_spec("gymnasium") is not None:
    register()
