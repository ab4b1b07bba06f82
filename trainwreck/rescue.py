"""Rescue: policies act on training runs under way, and what they save is measured by training on.

    import gymnasium, trainwreck.rescue

    env = gymnasium.make("trainwreck/Rescue-v0", plan="sample", profile="common")

`Action`, `TABLE`, `Episode` and `play` serve without Gymnasium, which the extra `rescue` installs. See docs/rescue.md.
"""

from importlib.util import find_spec
from typing import Any

from trainwreck.scenarios.rescue.actions import PRICES, TABLE, Action, Kind, Part
from trainwreck.scenarios.rescue.board import Oracle, play, play_all, table
from trainwreck.scenarios.rescue.episode import Episode, Observation, advance
from trainwreck.scenarios.rescue.outcomes import Case, Outcome, cases
from trainwreck.scenarios.rescue.policies import BUILT_IN, Policy, treatment

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
    "advance",
    "cases",
    "play",
    "play_all",
    "register",
    "table",
    "treatment",
]


def register() -> None:
    """Make `trainwreck/Rescue-v0` known to Gymnasium. InputError where Gymnasium is not installed."""
    from trainwreck.evaluation.extras import require

    require("gymnasium", "rescue")
    from trainwreck.scenarios.rescue.environment import register as registered

    registered()


def __getattr__(name: str) -> Any:
    if name in ("RescueEnv", "RescueVectorEnv"):
        from trainwreck.scenarios.rescue import environment

        return getattr(environment, name)
    raise AttributeError(f"module 'trainwreck.rescue' has no attribute {name!r}")


if find_spec("gymnasium") is not None:
    register()
