"""What the page says of a scenario and of each run on show, besides its curves."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from trainwreck.evaluation.dataset.runs_table import objective_of
from trainwreck.evaluation.dataset.schema import EVALUATIONS, SECTIONS, SIGNALS, RunKind
from trainwreck.evaluation.pages.figures import gap_unit, unit
from trainwreck.evaluation.pages.gallery.choose import Exhibit

LOOK_ALIKE = RunKind.LOOK_ALIKE.value
MOST_VISIBLE = 8  # signals in which a run shows first, that are named


@dataclass(frozen=True)
class Catalogue:
    """What a data set does not say of its scenarios; `scenarios.views.symptoms.catalogue_facts` gives its fields.

    symptoms: scenario to names of shapes. imitates: look-alike to failures, the likest first. shapes: name to a line
    and a picture in characters. unproven: rows with id, family, fault and what was tried. injected: scenario to its
    base, settings and lines, as `scenarios.views.page.injected` has them.
    """

    symptoms: Mapping[str, Sequence[str]] = field(default_factory=dict)
    imitates: Mapping[str, Sequence[str]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    unproven: Sequence[Mapping[str, str]] = ()
    injected: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def scenario_facts(
    name: str, page: Mapping[str, Any], runs: list[dict[str, Any]], catalogue: Catalogue
) -> dict[str, Any]:
    """A scenario with the runs on show. page: its entry in the data set's catalogue.json."""
    return {
        "id": name,
        "title": page["title"],
        "family": page["family"],
        "kind": LOOK_ALIKE if runs[0]["kind"] == LOOK_ALIKE else "failing",
        "telling": page["telling"],
        "made_of": page.get("made_of", []),
        "sources": page.get("sources", []),
        "text": [[section, page["sections"][section]] for section in SECTIONS if page["sections"].get(section)],
        "symptoms": list(catalogue.symptoms.get(name, ())),
        "imitates": list(catalogue.imitates.get(name, ())),
        "imitated_by": sorted(other for other, taken_for in catalogue.imitates.items() if name in taken_for),
        "injected": catalogue.injected.get(name),
        "runs": runs,
    }


def run_facts(
    exhibit: Exhibit, page: Mapping[str, Any], alarms: list[dict[str, Any]], rules: Mapping[int, int]
) -> dict[str, Any]:
    """One run on show. alarms: `Marks.of`. rules: `firings`."""
    row = exhibit.faulty
    visible: dict[str, int] = json.loads(row["visible_steps"] or "{}")
    first = sorted(visible, key=lambda name: (visible[name], name))[:MOST_VISIBLE]
    return {
        "run": row["run_id"],
        "twin": exhibit.twin["run_id"] if exhibit.twin is not None else None,
        "cured": exhibit.cured["run_id"] if exhibit.cured is not None else None,
        "data_set": exhibit.place,
        "severity": row["severity"],
        "knobs": page.get("knobs_by_severity", {}).get(row["severity"], {}),
        "kind": row["kind"],
        "seed": int(row["seed"]),
        "size": row["size"],
        "outcome": row["outcome"],
        "last": int(row["last_step"]),
        "s": as_step(row["onset_step"]),
        "v": as_step(row["visible_step"]),
        "p": as_step(row["no_return_step"]),
        "cure": as_step(exhibit.cured["cure_step"]) if exhibit.cured is not None else None,
        "gap": _number(row["final_gap"]),
        "gap_unit": gap_unit(objective_of(row["context"])),
        "cured_gap": _number(exhibit.cured["final_gap"]) if exhibit.cured is not None else None,
        "tolerance": _number(row["tolerance"]),
        "visible": [[name, visible[name]] for name in first],
        "alarms": alarms,
        "rules": {str(place): step for place, step in rules.items()},
    }


def signals() -> dict[str, dict[str, Any]]:
    """Every signal as the page needs it."""
    return {
        signal.name: {
            "axis": signal.axis.value,
            "unit": unit(signal.name),
            "meaning": signal.meaning,
            "positive": signal.positive,
            "role": signal.role.value,
            "evaluated": signal.name in EVALUATIONS,
        }
        for signal in SIGNALS
    }


def as_step(value: Any) -> int | None:
    """A step of the runs table, where missing is NaN."""
    return None if pd.isna(value) else int(value)


def _number(value: Any) -> float | None:
    return None if pd.isna(value) or abs(value) == float("inf") else float(value)
