"""Which causes `diagnose` finds in labelled runs, and which it does not: what an answer of nothing leaves open.

    python -m trainwreck.evaluation.diagnosis.reach DIR ...    # measures it on failing runs, and writes reach.json

The file has, by profile and cause, how many failing runs were found wrong, at the onset or later, of how many.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.schema import RunKind
from trainwreck.evaluation.diagnosis.candidates import evidence
from trainwreck.evaluation.diagnosis.findings import findings
from trainwreck.evaluation.diagnosis.observed import Observed
from trainwreck.evaluation.files import write_json
from trainwreck.evaluation.scoring import equivalence_sets
from trainwreck.evaluation.scoring.run_labels import scored

RECORD = "reach.json"
MEASURED = ("full", "common", "minimal")
NEXT = {"standard": "minimal", "filtered": "minimal"}  # the poorer one, of those that were measured


@dataclass(frozen=True)
class Reach:
    """profile: that the figures are of. tried: causes. never, sometimes: causes of which none, or not every, run was
    found. undetectable: causes that the profile does not tell from healthy runs even beside other runs of the setup."""

    profile: str
    tried: int
    never: tuple[str, ...]
    sometimes: tuple[str, ...]
    undetectable: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {"profile": self.profile, "causes_tried": self.tried, "never_found": list(self.never),
                "not_always_found": list(self.sometimes), "undetectable": list(self.undetectable)}  # fmt: skip


def reach(profile: str) -> Reach:
    """What was measured for a profile, or for the poorer one that is nearest."""
    near = profile if profile in MEASURED else NEXT[profile]
    counts = _recorded()["profiles"][near]
    return Reach(
        near,
        len(counts),
        tuple(cause for cause, (found, _) in counts.items() if not found),
        tuple(cause for cause, (found, runs) in counts.items() if 0 < found < runs),
        equivalence_sets.undetectable(near),
    )


def measure(folders: Sequence[Path]) -> dict[str, Any]:
    """Counts of failing runs, found and all, by profile and cause; without those that may be learnt from."""
    counts: dict[str, dict[str, list[int]]] = {profile: {} for profile in MEASURED}
    for folder in folders:
        data = load(folder)
        for run_id, row in data.runs[scored(data.runs) & (data.runs["kind"] == RunKind.FAILING.value)].iterrows():
            for profile in MEASURED:
                run = Observed(data.trace(str(run_id)), profile)
                steps = [one.since for one in findings(run) if one.decides]
                steps += [one.step for one in evidence(run) if one.decides]
                count = counts[profile].setdefault(row["cause"], [0, 0])
                count[0] += any(step >= row["onset_step"] for step in steps)
                count[1] += 1
    return {"profiles": {name: dict(sorted(by.items())) for name, by in counts.items()}}


@cache
def _recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files("trainwreck.evaluation.diagnosis") / RECORD).read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    write_json(Path(__file__).with_name(RECORD), measure([Path(name) for name in sys.argv[1:]]))
