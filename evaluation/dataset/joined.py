"""Parts of one plan, made apart from each other, as one data set: each is read where it lies."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.documents import Pages
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError

OWN = {"files", "plan_hash", "environment", "environments", "release"}  # of a manifest: what parts may differ in


class Joined(DataSet):
    """The runs of several data sets, in their order. Use `joined`."""

    def __init__(self, parts: Sequence[DataSet]) -> None:
        self.parts = tuple(parts)
        self.homes = {run_id: part for part in parts for run_id in part.runs.index}
        first = parts[0]
        shared = {name: value for name, value in first.manifest.items() if name not in ("files", "plan_hash")}
        places: list[Any] = []
        for part in parts:
            for place in part.manifest.get("environments", [part.manifest.get("environment")]):
                places += [place] if place not in places else []
        if len(places) > 1:
            shared["environments"] = places
        super().__init__(first.path, shared, pd.concat([part.runs for part in parts]))

    def rows(self) -> list[dict[str, Any]]:
        """The runs tables, one after the other."""
        return [row for part in self.parts for row in part.rows()]

    def trace(self, run_id: str) -> Trace:
        """Telemetry of a run. InputError as of its own data set."""
        self.run(run_id)
        return self.homes[run_id].trace(run_id)

    @cached_property
    def pages(self) -> Pages:
        """The page of each scenario in any of them."""
        pages = {id: page for part in self.parts for id, page in part.pages.items()}
        return Pages(self.parts[0].pages.file, pages)


def joined(parts: Sequence[DataSet]) -> DataSet:
    """One data set of them; a single one is handed back as it is.

    InputError where a run, or a healthy setup, is in two of them: labels and tolerances rest on all healthy runs of a
    setup. So it is where they are of different plans, backends or formats.
    """
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    for place, part in enumerate(parts):
        for name in sorted({*first.manifest, *part.manifest} - OWN):
            one, other = first.manifest.get(name), part.manifest.get(name)
            if one != other:
                raise InputError(
                    f"{part.path}: {name}: {other!r} is not allowed beside {first.path}; allowed: {one!r}, as parts of "
                    "one plan have"
                )
        for earlier in parts[:place]:
            for what, column in (("run", "run_id"), ("healthy setup", "base")):
                if shared := sorted(set(part.runs[column]) & set(earlier.runs[column])):
                    raise InputError(f"{part.path}: {what} {shared[0]} is in {earlier.path} too; allowed: in one part")
    return Joined(parts)
