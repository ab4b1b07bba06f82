"""A manifest need not name its plan or where it was made; `report` of one ended in a traceback of its template."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.pages.report import build


@pytest.mark.parametrize("environment", [None, {}, {"trainwreck": "0.1.0"}])
def test_what_the_manifest_lacks_is_left_out(environment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = load(sample())
    manifest = {name: value for name, value in data.manifest.items() if name not in ("plan", "environment")}
    manifest |= {} if environment is None else {"environment": environment}
    poor = DataSet(data.path, json.loads(json.dumps(manifest)), data.runs)
    monkeypatch.setattr(build, "load", lambda folder: poor)
    monkeypatch.setattr(
        build,
        "at_hand",
        lambda dataset: {"cards": [{"detector": "a", "profile": "full", "about": {}, "notes": []}], "rows": []},
    )
    monkeypatch.setattr(build, "examples", lambda dataset: dataset.runs[:0])
    monkeypatch.setattr(build, "_board", lambda rows, table: {"table": table, "heads": [], "rows": []})
    monkeypatch.setattr(build, "TABLES", ())
    page = build.write_report(data.path, tmp_path / "report.html").read_text("utf-8")
    assert "data set \u201ccustom\u201d" in page
    assert ("Made by trainwreck 0.1.0." in page) == bool(environment)
