"""What a quiz is made by. The same recipe on the same data set is the same quiz on every machine."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.replay.profiles import PROFILES

VERSION = 1  # of how runs are drawn: another version draws other runs by the same seed
FEWEST = 4  # of these a quiz has failing, healthy and look-alike runs


@dataclass(frozen=True)
class Part:
    """Share `number` of `of` shares that all runs of a data set are dealt into."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def read(cls, text: str) -> "Part":
        """From "2/6"; InputError for anything else."""
        found = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", text)
        if found is None or int(found[1]) > int(found[2]):
            raise InputError(f"part: {text!r} is not allowed; allowed: K/M with K from 1 to M, such as 2/6")
        return cls(int(found[1]), int(found[2]))


@dataclass(frozen=True)
class Recipe:
    """Which runs of which telemetry are asked about, and what is shown of them.

    telemetry: `dataset.telemetry_digest`. runs: how many; with `part` a share of all runs is dealt instead, and
    neither `runs` nor `families` counts. families: of the failing runs; empty for all.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ("version", "telemetry", "seed", "runs", "profile", "families", "part")

    telemetry: str
    seed: int
    runs: int
    profile: str
    families: tuple[str, ...] = ()
    part: Part | None = None

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise unknown("profile", self.profile, PROFILES)
        if self.seed < 0:
            raise InputError(f"seed: {self.seed} is not allowed; allowed: 0 and more")
        if self.part is None and self.runs < FEWEST:
            raise InputError(f"runs: {self.runs} is not allowed; allowed: {FEWEST} and more")
        if self.part is not None and self.families:
            raise InputError("family: not allowed beside a part, which deals every run; allowed: one of them")

    @property
    def id(self) -> str:
        """16 hexadecimal digits that name the quiz."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """As exports and keys have it."""
        return {
            "version": VERSION,
            "telemetry": self.telemetry,
            "seed": self.seed,
            "runs": None if self.part else self.runs,
            "profile": self.profile,
            "families": list(self.families),
            "part": str(self.part) if self.part else None,
        }

    @classmethod
    def read(cls, content: object, where: str) -> "Recipe":
        """The inverse of `to_json`. InputError that begins with `where` and names the field."""
        if not isinstance(content, Mapping) or set(content) != set(cls.FIELDS):
            raise InputError(f"{where}: quiz: {_brief(content)} is not allowed; allowed: {', '.join(cls.FIELDS)}")
        if content["version"] != VERSION:
            raise InputError(f"{where}: quiz.version: {content['version']!r} is not allowed; allowed: {VERSION}")
        runs, part, families = content["runs"], content["part"], content["families"]
        checks = {
            "telemetry": isinstance(content["telemetry"], str) and content["telemetry"] != "",
            "seed": _is_count(content["seed"]),
            "profile": isinstance(content["profile"], str),
            "families": isinstance(families, list) and all(isinstance(name, str) for name in families),
            "part": part is None or isinstance(part, str),
            "runs": _is_count(runs) if part is None else runs is None,
        }
        for name, right in checks.items():
            if not right:
                raise InputError(f"{where}: quiz.{name}: {_brief(content[name])} is not allowed")
        try:
            dealt = Part.read(part) if part is not None else None
            return cls(content["telemetry"], content["seed"], runs or 0, content["profile"], tuple(families), dealt)
        except InputError as error:
            raise InputError(f"{where}: quiz.{error}") from None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _brief(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
