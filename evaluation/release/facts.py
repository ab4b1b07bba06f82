"""What card and metadata say of a data set: counted from its runs, and in words."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from trainwreck.evaluation.constants import CALIBRATION_RUNS, HEADLINE_PREVALENCE, SCORING_VERSION
from trainwreck.evaluation.dataset.runs_table import UNPROVEN
from trainwreck.evaluation.dataset.schema import FAILURES, JOINT, RunKind
from trainwreck.evaluation.labels.kinds import counted
from trainwreck.evaluation.labels.visible import FALSE_POSITIVES, FEWEST

LICENCE = "CC-BY-4.0"
LICENCE_URL = "https://creativecommons.org/licenses/by/4.0/"
LICENCE_TERMS = "https://creativecommons.org/licenses/by/4.0/legalcode.en"
CREATORS = "The Trainwreck authors"
TAGS = ("transformers", "training-dynamics", "instability", "anomaly-detection", "time-series", "synthetic")


@dataclass(frozen=True)
class Facts:
    """rows: the released runs. manifest: of the data set they come from. published, url: as the releaser gave them.

    signals: those that are released; none where all are.
    """

    rows: list[dict[str, Any]]
    manifest: dict[str, Any]
    private: bool = False
    published: str | None = None
    url: str | None = None
    signals: tuple[str, ...] = ()

    @property
    def plan(self) -> str:
        """Name of the plan."""
        return str(self.manifest.get("plan", "custom"))

    @property
    def name(self) -> str:
        """Letters, digits and hyphens."""
        words = f"trainwreck-{self.plan}" + ("-private" if self.private else "")
        return re.sub(r"[^A-Za-z0-9]+", "-", words).strip("-")

    @property
    def version(self) -> str:
        """Of the package that trained the runs."""
        return str(self.environment.get("trainwreck", "0.0.0"))

    @property
    def environment(self) -> dict[str, Any]:
        """Versions and hardware of the training."""
        return dict(self.manifest.get("environment", {}))

    @property
    def splits(self) -> list[str]:
        """Splits, in the order of their names."""
        return sorted({row["split"] for row in self.rows})

    @property
    def kinds(self) -> list[str]:
        """Kinds of run, in the order of the vocabulary."""
        present = {row["kind"] for row in self.rows}
        return [kind.value for kind in RunKind if kind.value in present]

    @property
    def steps(self) -> int:
        """Telemetry rows."""
        return sum(row["last_step"] + 1 for row in self.rows)

    @property
    def failing(self) -> list[dict[str, Any]]:
        """Runs that are to be found."""
        return [row for row in self.rows if row["kind"] in FAILURES]

    def count(self, **wanted: str) -> int:
        """Runs whose columns have these values."""
        return sum(all(row[name] == value for name, value in wanted.items()) for row in self.rows)

    def families(self) -> list[tuple[str, int, list[str]]]:
        """Family, runs, and the scenarios in it; healthy runs belong to none."""
        runs: Counter[str] = Counter()
        scenarios: dict[str, set[str]] = {}
        for row in self.rows:
            if row["family"]:
                runs[row["family"]] += 1
                scenarios.setdefault(row["family"], set()).add(row["scenario"])
        return [(family, runs[family], sorted(scenarios[family])) for family in sorted(runs)]

    def summary(self) -> str:
        """What it is, in two sentences."""
        scenarios = len({row["scenario"] for row in self.rows} - {""})
        held = {
            "healthy twins": any(row["twin_id"] for row in self.failing),
            "cured runs": "cured" in self.kinds,
            "look-alikes": "look-alike" in self.kinds,
            "runs to calibrate on": "calibration" in self.splits,
        }
        *others, last = [words for words, present in held.items() if present] or ["no other runs"]
        beside = f"{', '.join(others)} and {last}" if others else last
        return (
            f"Telemetry of {len(self.rows)} training runs of small transformers: {len(self.failing)} that fail, broken "
            f"on purpose in a documented way, with {beside} ({scenarios} scenario{'s' if scenarios != 1 else ''}). "
            f"{self.steps:,} steps with {self._signals()}; cause and onset of each failure come from the injection."
        )

    def _signals(self) -> str:
        if not self.signals:
            return "every signal that a practitioner logs"
        *others, last = (name.replace("_", " ") for name in self.signals)
        return f"{', '.join(others)} and {last} of each, which most logs have"

    def roles(self) -> str:
        """What each split is for."""
        rule = "The split of a run is a column, decided by the plan before any run was trained."
        uses = {
            "train": "models learn from `train`",
            "calibration": "thresholds are frozen on `calibration`",
            "test": "scores are taken on `test`",
            "private": "scores are taken on `private`",
        }
        present = [words for split, words in uses.items() if split in self.splits]
        return f"{rule} {', '.join(present).capitalize()}." if present else rule

    def collection(self) -> str:
        """How the data came about."""
        return (
            "Generated: each run is a transformer language model that the package trainwreck trained from a plan "
            "(plan.json). A failing run has a documented fault from its onset step on; its twin is the same seed "
            "without the fault, and bitwise the same before the onset; a cured run has the documented cure as well. "
            "All randomness is a function of seed, stream and step. Nothing was collected from people or services."
        )

    def annotation(self) -> list[str]:
        """How labels came about."""
        return [
            "Cause and onset step are those of the injection, known before the run; no curve was inspected.",
            "The visible step is measured: the first at which a signal leaves the twin by more than healthy runs of "
            f"the same base ({FEWEST} or more) leave each other, at a rate of false positives of at most "
            f"{FALSE_POSITIVES:.0%} a run. Bases with fewer healthy runs have none.",
            "Harm is a loss off the twin's, at the end or for a time, on the side that the scenario declares: below it "
            "for a leak, above it for all others.",
            "A run that the fault did not harm is kept: as latent where its signature holds, as not shown where it "
            "does not. Neither counts as a failure, nor as a healthy run.",
            f"{counted(self.rows)}.",
            self._proofs(),
        ]

    def _proofs(self) -> str:
        flagged = [row for row in self.rows if row.get(UNPROVEN)]
        if not flagged:
            return "Each scenario was proven on 8 seeds before it was allowed into a data set."
        names = ", ".join(sorted({row["scenario"] for row in flagged}))
        return (
            f"Each scenario of the catalogue was proven on 8 seeds. Not proven with the settings of {len(flagged)} of "
            f"the runs: {names} (column `{UNPROVEN}`)."
        )

    def limits(self) -> list[str]:
        """What the data is not."""
        sizes = ", ".join(sorted({row["size"] for row in self.rows}))
        unmeasured = sum(row["no_return_step"] is None for row in self.failing)
        calibration = self.count(split="calibration")
        found = [
            f"Models are small (sizes: {sizes}) and runs are short: they show a mechanism and its signature, not the "
            "magnitudes of a large model.",
            "Tokens a second and step time come from a modelled clock, not from a measured one.",
        ]
        on_text = sum(json.loads(row["context"] or "{}").get("data", {}).get("source") == "text" for row in self.rows)
        if on_text < len(self.rows):
            which = f"{len(self.rows) - on_text} of the runs learn" if on_text else "the runs learn"
            found.append(
                f"The language that {which} is synthetic; its entropy is known exactly, its texts mean nothing."
            )
        if unmeasured:
            found.append(
                f"The point of no return was not measured for {unmeasured} of {len(self.failing)} failing runs; there "
                "it counts as the end of the run."
            )
        for budget, needed in CALIBRATION_RUNS.items():
            if calibration < needed:
                found.append(
                    f"A budget of {budget:.0%} of healthy runs stopped needs {needed} calibration runs; here are "
                    f"{calibration}."
                )
        if any(JOINT in row["scenario"] for row in self.rows):
            found.append("Compound runs carry two faults; a cause that hides the other is still labelled.")
        return found

    def biases(self) -> list[str]:
        """How the data differs from what a practitioner meets."""
        share = len(self.failing) / len(self.rows)
        return [
            f"{share:.0%} of the runs fail, far more than in practice; W* is that of a practice in which "
            f"{HEADLINE_PREVALENCE:.0%} fail.",
            "The scenarios are the failures that are documented and that could be reproduced in a small model, not a "
            "sample of what goes wrong in practice.",
            "One fault a run, or two in compound runs, each at a known step: real failures overlap and drift.",
        ]

    def uses(self) -> list[str]:
        """What the data is for, and what not."""
        return [
            "Testing and comparing detectors of training failures: accuracy, time to detection, diagnosis.",
            "Teaching to read training curves.",
            "Not for claims about how often failures happen, nor about the size of their effect in large models.",
        ]

    def citation(self) -> str:
        """BibTeX."""
        year = f", year = {{{self.published[:4]}}}" if self.published else ""
        return (
            f"@misc{{{self.name}, title = {{Trainwreck: a synthetic failure benchmark for transformer training, data "
            f"set {self.plan}}}, author = {{{{{CREATORS}}}}}, version = {{{self.version}}}{year}}}"
        )

    def scoring(self) -> str:
        """The specification of the scores."""
        return f"scoring version {SCORING_VERSION}"
