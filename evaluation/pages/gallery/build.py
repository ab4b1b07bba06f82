"""From data sets to the gallery: one HTML file with everything in it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from trainwreck.evaluation.constants import HEADLINE_BUDGET, LOG_FAULTS
from trainwreck.evaluation.dataset.dataset import DataSet, load, telemetry_digest
from trainwreck.evaluation.dataset.documents import Pages
from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import sha256, write_text
from trainwreck.evaluation.pages import asset, script
from trainwreck.evaluation.pages.assets import CHART, HEAT, INFLATE, THEME
from trainwreck.evaluation.pages.gallery.choose import Exhibit, exhibits
from trainwreck.evaluation.pages.gallery.columns import columns
from trainwreck.evaluation.pages.gallery.exhibit_facts import Catalogue, run_facts, scenario_facts, signals
from trainwreck.evaluation.pages.gallery.marks import DETECTORS, Marks, replayed, stored
from trainwreck.evaluation.pages.gallery.pack import codes, pack
from trainwreck.evaluation.pages.gallery.rules_shown import firings, listed
from trainwreck.evaluation.pages.templates import beside, deflated, template
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.unlabelled import refuse_imported

LARGEST = 5_000_000  # bytes of the page
THINNING = (1, 2, 4, 8)  # steps to one colour of a heat map: the first that fits


@dataclass(frozen=True)
class Gallery:
    """What was written. thinned: steps to one colour of a heat map."""

    path: Path
    scenarios: int
    runs: int
    bytes: int
    thinned: int


def write_gallery(
    folders: Sequence[Path],
    out: Path,
    catalogue: Catalogue,
    *,
    detectors: Sequence[str] = DETECTORS,
    alarms: Sequence[Path] = (),
    command: str = "",
    workers: int = 1,
    tick: Tick | None = None,
) -> Gallery:
    """Write the page of some data sets; see `choose.exhibits` for which runs it shows.

    detectors: to replay; with `alarms`, which are read instead, not used. command: what made it, for the page.
    InputError for a folder that is no data set, is given twice or is imported, where no scenario is there, and where
    the page would be larger than LARGEST.
    """
    if out.is_dir():
        raise InputError(f"out: {str(out)!r} is a folder; allowed: a file to write, such as {out / 'gallery.html'}")
    datasets = opened(folders)
    shown = exhibits(datasets)
    if not shown:
        raise InputError(
            f"gallery: no run of a scenario in {', '.join(map(str, folders))}; allowed: data sets of failing runs"
        )
    every = [exhibit for runs in shown.values() for exhibit in runs]
    marks = stored(datasets, every, alarms) if alarms else replayed(datasets, every, detectors, tick, workers)
    pages = pages_of(datasets, shown)
    facts = {
        name: scenario_facts(
            name,
            pages[runs[0].place][name],
            [
                run_facts(one, pages[one.place][name], marks.of(one.faulty["run_id"]), firings(_trace(one, one.faulty)))
                for one in runs
            ],
            catalogue,
        )
        for name, runs in shown.items()
    }
    size = 0
    for thinning in THINNING:
        packed = packed_runs(every, thinning)
        text = _page(datasets, shown, facts, packed, marks, catalogue, command, thinning)
        size = len(text.encode("utf-8", "replace"))
        if size <= LARGEST:
            write_text(out, text)
            return Gallery(out, len(shown), len(packed), size, thinning)
    raise InputError(f"gallery: {size:,} bytes are not allowed; allowed: {LARGEST:,}, so fewer scenarios or severities")


def packed_runs(shown: Sequence[Exhibit], thinning: int) -> dict[str, tuple[str, str]]:
    """Run id to the id of the twin that it is packed against, empty for none, and its bytes in base64."""
    packed: dict[str, tuple[str, str]] = {}
    twins: dict[str, Mapping[str, np.ndarray]] = {}
    for exhibit in shown:
        twin = ""
        for row in exhibit.rows:
            name = row["run_id"]
            if name not in packed:
                found = columns(_trace(exhibit, row), thinning)
                packed[name] = (twin, pack(found, twins.get(twin, {})))
                if exhibit.twin is not None and name == exhibit.twin["run_id"]:
                    twins[name] = {column.name: codes(column) for column in found}
            if exhibit.twin is not None:
                twin = exhibit.twin["run_id"]
    return packed


def opened(folders: Sequence[Path]) -> list[DataSet]:
    """The data sets of some folders. InputError for a folder that is none, is given twice or is imported."""
    places = [folder.resolve() for folder in folders]
    twice = [folder for folder, place in zip(folders, places, strict=True) if places.count(place) > 1]
    if twice:
        raise InputError(f"gallery: {str(twice[0])!r} is given twice; allowed: each data set once")
    datasets = [load(folder) for folder in folders]
    for dataset in datasets:
        refuse_imported(dataset, "shown in a gallery")
    return datasets


def pages_of(datasets: Sequence[DataSet], shown: Mapping[str, Sequence[Exhibit]]) -> list[Pages]:
    """What catalogue.json of each data set says. InputError where a scenario on show has no page in it."""
    for name, runs in shown.items():
        for one in runs:
            one.dataset.pages[name]
    return [dataset.pages for dataset in datasets]


def _trace(exhibit: Exhibit, row: pd.Series) -> Trace:
    return exhibit.dataset.trace(row["run_id"])


def _page(
    datasets: Sequence[DataSet],
    shown: Mapping[str, Sequence[Exhibit]],
    facts: Mapping[str, dict[str, Any]],
    packed: Mapping[str, tuple[str, str]],
    marks: Marks,
    catalogue: Catalogue,
    command: str,
    thinning: int,
) -> str:
    everything = {
        "scenarios": facts,
        "rules": listed(),
        "log_faults": list(LOG_FAULTS),
        "shapes": catalogue.shapes,
        "signals": signals(),
        "budget": HEADLINE_BUDGET,
        "calibration": marks.calibration,
        "thinned": thinning,
    }
    used = sorted({exhibit.place for runs in shown.values() for exhibit in runs})
    return template("trainwreck.evaluation.pages.gallery", "page.html.jinja").render(
        families=_families(facts),
        symptoms=[name for name in catalogue.shapes if any(name in one["symptoms"] for one in facts.values())],
        visible=_visible(facts),
        scenarios=len(shown),
        unproven=catalogue.unproven,
        packed=packed,
        facts=deflated(json.dumps(everything, allow_nan=False).encode()),
        made=[_made(datasets[place]) for place in used],
        version=version("trainwreck"),
        command=command,
        detectors=list(marks.alarms),
        calibration=marks.calibration,
        budget=HEADLINE_BUDGET,
        thinning=thinning,
        style=Markup(asset("palette.css")) + beside("trainwreck.evaluation.pages.gallery", "gallery.css"),
        scripts=Markup(script(*SHARED)) + beside("trainwreck.evaluation.pages.gallery", *SCRIPTS),
    )


SHARED = (*THEME, *CHART, *HEAT, *INFLATE)
SCRIPTS = ("unpack.js", "text.js", "exhibit.js", "gallery.js")


def _families(facts: Mapping[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in sorted(facts.values(), key=lambda one: (one["kind"] == "look-alike", one["family"], one["id"])):
        found.setdefault(one["family"], []).append(one | {"first": sorted(_shows_in(one))})
    return found


def _shows_in(one: Mapping[str, Any]) -> set[str]:
    return {name for run in one["runs"] for name, step in run["visible"] if step == run["v"]}


def _visible(facts: Mapping[str, dict[str, Any]]) -> list[str]:
    known = {name for one in facts.values() for name in _shows_in(one)}
    return [signal.name for signal in SIGNALS if signal.name in known]


def _made(dataset: DataSet) -> dict[str, Any]:
    """What a reader needs to know which data this was."""
    environment = dataset.manifest.get("environment", {})
    return {
        "plan": dataset.manifest.get("plan", "custom"),
        "folder": dataset.path.resolve().name,
        "runs": len(dataset),
        "manifest": sha256(dataset.path / "manifest.json"),
        "telemetry": telemetry_digest(dataset),
        "version": environment.get("trainwreck", "unknown"),
        "revision": environment.get("revision") or "unknown",
    }
