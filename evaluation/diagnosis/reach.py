"""Which causes `diagnose` finds in labelled runs, and which it does not: what an answer of nothing leaves open.

    trainwreck generate standard --out runs/standard
    python -m trainwreck.evaluation.diagnosis.reach runs/standard sample    # measures it, and writes reach.json

The file has, by plan and profile, how many failing runs of each cause were found wrong, at the onset or later, of how
many, and how many healthy and look-alike runs were called wrong.
"""

import json
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.schema import RunKind
from trainwreck.evaluation.diagnosis.candidates import evidence
from trainwreck.evaluation.diagnosis.findings import findings
from trainwreck.evaluation.diagnosis.observed import Observed
from trainwreck.evaluation.files import write_json
from trainwreck.evaluation.scoring import equivalence_sets
from trainwreck.evaluation.scoring.outcomes import is_excused
from trainwreck.evaluation.scoring.run_labels import scored

RECORD = "reach.json"
MEASURED = ("full", "common", "minimal")
KINDS = (RunKind.FAILING.value, RunKind.HEALTHY.value, RunKind.LOOK_ALIKE.value)
NEXT = {"standard": "minimal", "filtered": "minimal", "logged": "minimal"}  # poorer, and measured


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
    counts: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for measured in _recorded().values():
        counts.update({cause: runs for cause, (_, runs) in measured["found"][near].items()})
        found.update({cause: hits for cause, (hits, _) in measured["found"][near].items()})
    return Reach(
        near,
        len(counts),
        tuple(cause for cause in sorted(counts) if not found[cause]),
        tuple(cause for cause in sorted(counts) if 0 < found[cause] < counts[cause]),
        equivalence_sets.undetectable(near),
    )


def measure(data: DataSet) -> dict[str, dict[str, dict[str, list[int]]]]:
    """Counts of the runs of a data set, without those that may be learnt from, by profile.

    found: by cause, failing runs that were found at the onset or later, and all. wrong: by kind, healthy and look-alike
    runs that were called wrong, and all.
    """
    counts: dict[str, dict[str, dict[str, list[int]]]] = {
        what: {profile: {} for profile in MEASURED} for what in ("found", "wrong")
    }
    for run_id, row in data.runs[scored(data.runs) & data.runs["kind"].isin(KINDS)].iterrows():
        failing = row["kind"] == RunKind.FAILING.value
        for profile in MEASURED:
            run = Observed(data.trace(str(run_id)), profile)
            steps = [one.since for one in findings(run) if one.decides]
            steps += [one.step for one in evidence(run) if one.decides and not is_excused(row["family"], one.causes)]
            by = counts["found" if failing else "wrong"][profile]
            count = by.setdefault(row["cause"] if failing else row["kind"], [0, 0])
            count[0] += any(step >= (row["onset_step"] if failing else 0) for step in steps)
            count[1] += 1
    return {what: {p: dict(sorted(by.items())) for p, by in one.items()} for what, one in counts.items()}


@cache
def _recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files("trainwreck.evaluation.diagnosis") / RECORD).read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    opened = [load(name) for name in sys.argv[1:]]
    write_json(Path(__file__).with_name(RECORD), {data.manifest["plan"]: measure(data) for data in opened})
