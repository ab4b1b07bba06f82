"""The plan is written under the lock: of two `generate` at once in one folder, the one that is refused leaves nothing.

It was written before, so that in most starts the runs of one plan lay under the plan.json of the other.
"""

from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json
from trainwreck.scenarios.datasets import generate as module
from trainwreck.scenarios.datasets.generate import generate
from trainwreck.scenarios.spec.run_spec import family_of


def test_the_refused_one_writes_no_plan(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with FileLock(out / ".lock"), pytest.raises(InputError, match="is being written by another process"):
        generate(family_of("mask_missing", [0]), out)
    assert not (out / "plan.json").exists()


def test_a_plan_that_came_in_between_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one took the lock, wrote its plan and died, after this one had looked."""
    out = tmp_path / "out"
    claimed = module._is_claimed
    looks: list[bool] = []

    def look(specs: Any, folder: Path, backend: Any) -> bool:
        found = claimed(specs, folder, backend)
        if not looks:
            module._claim(family_of("mask_missing", [1]), folder, "other", backend)
        looks.append(found)
        return found

    monkeypatch.setattr(module, "_is_claimed", look)
    with pytest.raises(InputError, match="holds another plan"):
        generate(family_of("mask_missing", [0]), out)
    assert read_json(out / "plan.json")["name"] == "other"
