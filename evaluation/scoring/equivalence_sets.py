"""The equivalence sets as they ship with the package. `trainwreck equivalence --record` writes them.

Scores use them: naming a cause of the true cause's set is right within the set, at that profile.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from trainwreck.evaluation.files import sha256

RECORD = "equivalence_sets.json"

Sets = Mapping[str, frozenset[str]]
"""Cause to the other causes of its set; a cause without an entry is in no set."""


def path() -> Path:
    """Where the sets lie: beside this file."""
    return Path(str(files("trainwreck.evaluation.scoring") / RECORD))


def shipped(profile: str) -> Sets:
    """The sets of a profile; empty where it has not been measured."""
    return measured().get(profile, {})


def undetectable(profile: str) -> tuple[str, ...]:
    """Causes whose failing runs the profile does not tell from healthy ones; empty where it has not been measured."""
    facts = json.loads(path().read_text(encoding="utf-8"))["profiles"].get(profile, {})
    return tuple(facts.get("undetectable", ()))


def fingerprint() -> str:
    """Which sets these are: scores within a set hold for them alone."""
    return sha256(path())


def as_sets(lists: list[list[str]]) -> dict[str, frozenset[str]]:
    """Lists of causes that can't be told apart, as a mapping."""
    return {cause: frozenset(one) - {cause} for one in lists for cause in one}


@cache
def measured() -> dict[str, dict[str, frozenset[str]]]:
    """The sets of every profile that has been measured."""
    content: dict[str, Any] = json.loads(path().read_text(encoding="utf-8"))
    return {profile: as_sets(facts["sets"]) for profile, facts in content["profiles"].items()}
