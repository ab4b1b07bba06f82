"""The engine that a user names, with the settings that go with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.scenarios.datasets.engines.engine import Settings
from trainwreck.scenarios.datasets.engines.local import Local
from trainwreck.scenarios.datasets.engines.ray import Ray
from trainwreck.scenarios.datasets.engines.slurm import Slurm

ENGINES = ("local", "ray", "slurm")


def engine(name: str, out: Path, workers: int | None, memory: int | None, asked: Mapping[str, Any]) -> Settings:
    """Settings of the engine of this name.

    workers, memory (bytes): by the engine's own rule where None. asked: settings of one engine alone, as
    `ray_address` or `slurm_partition`; None where the user says nothing. InputError for an unknown name, and for
    a setting of another engine.
    """
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    given = {setting: value for setting, value in asked.items() if value is not None}
    for setting in given:
        owner = setting.partition("_")[0]
        if owner != name:
            option = setting.replace("_", "-")
            raise InputError(f"{option}: {given[setting]!r} is not allowed with the engine {name}; allowed: {owner}")
    own: dict[str, Any] = {setting.partition("_")[2]: value for setting, value in given.items()}
    if name == "ray":
        return Ray(workers=workers, memory=memory, **own)
    if name == "slurm":
        return Slurm(out, memory=memory, **own | ({"workers": workers} if workers else {}))
    return Local(workers, memory)
