"""`bench wild`: outcomes counted by hand, and factors of the setups of which one matters and the others do not."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.files import read_json
from trainwreck.scenarios.bench.claims import wild
from trainwreck.scenarios.bench.table import markdown
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.datasets.generate import declared

ROOT = Path(__file__).resolve().parents[3]
SETUPS = 60


def context(draw):
    setup = replaced(
        Setup(),
        model__layers=int(draw.integers(1, 9)),
        model__width=int(draw.choice([32, 64, 128])),
        optimizer__lr=float(10 ** draw.uniform(-4, -1.5)),
        optimizer__clip=[1.0, None][int(draw.integers(2))],
        data__rows=int(draw.choice([4, 8, 16])),
    )
    return json.dumps(declared(setup))


def rows(harmful):
    """Runs of three scenarios on each setup, and its twin; harmful: of a scenario and the layers, whether it harms."""
    draw, found = np.random.default_rng(0), []
    for base in range(SETUPS):
        text = context(draw)
        layers = json.loads(text)["model"]["layers"]
        twin = f"t{base}"
        found.append((twin, "", "healthy", twin, text, 2.0, 0.0, "recovered"))
        for id in ("mask_missing", "high_lr", "corrupt_tokens", "benign_late_drop"):
            harmed = harmful(id, layers, draw)
            kind = "look-alike" if id.startswith("benign") else "failing" if harmed else "not shown"
            ended = "non_finite" if harmed and id == "high_lr" else "damaged"
            found.append((f"{id}{base}", id, kind, twin, text, 3.0, 0.5, ended))
    columns = ["run_id", "scenario", "kind", "twin_id", "context", "final_loss", "final_gap", "outcome"]
    runs = pd.DataFrame(found, columns=columns).set_index("run_id")
    return runs.assign(base=runs["twin_id"].str[1:], planned_steps=300)


def counted(runs):
    return wild.table(runs, ["runs"], ["a processor"])


@pytest.fixture(scope="module")
def deep():
    """One scenario harms deep models alone, another every other run whatever the setup, the third always."""
    return rows(lambda name, layers, draw: {"mask_missing": layers > 4, "high_lr": draw.random() < 0.5}.get(name, True))


def test_the_factor_that_matters_stands_and_no_other(deep):
    found = wild.effects(wild.tried(deep))
    standing = counted(deep).limit
    assert {row[1] for row in standing.rows} == {"layers"}
    assert {row[0] for row in standing.rows} <= {"all", "attention and position"}
    mine = next(e for e in found if (e.family, e.factor) == ("attention and position", "layers"))
    assert mine.setups == SETUPS
    assert mine.less < 0.5
    assert mine.more == 1.0
    assert f"{len(standing.rows)} of {len(found)} effects stand" in standing.text


@pytest.mark.parametrize("covered", [True, False])
def test_counted_are_the_data_sets_that_are_recorded(deep, covered, tmp_path, monkeypatch):
    rest, healthy = deep["scenario"] == "high_lr", deep["kind"] == "healthy"
    sets = {
        name: SimpleNamespace(runs=runs, manifest={"environment": {"processor": processor}})
        for name, runs, processor in (
            ("data", deep[~rest], "a processor"),
            ("coverage", deep[rest | healthy], "another"),
        )
    }
    for name in list(sets)[: 1 + covered]:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(wild, "RECORD", tmp_path)
    monkeypatch.setattr(wild, "load_labels", lambda path: sets[path.name])
    found = wild.which_setups(lambda done, total, note: None)
    assert found.rows == counted(deep if covered else deep[~rest]).rows
    assert ("on a processor and another." in found.how) is covered
    assert (f"`{tmp_path.as_posix()}/coverage`" in found.how) is covered
    assert ("`high_lr`" in found.how) is not covered  # among those without a run


def test_the_recorded_table_is_of_the_recorded_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    found = wild.which_setups(lambda done, total, note: None)
    folder = ROOT / "results" / found.name
    assert read_json(folder / "result.json")["rows"] == json.loads(json.dumps(found.to_dict()["rows"]))
    page = (folder / "README.md").read_text("utf-8")
    assert markdown(found.columns, found.rows) in page
    assert page.startswith(f"# {found.title}\n")
    assert f"\n{found.how}\n" in page


def test_where_no_setup_matters_none_stands_and_the_nearest_are_shown():
    found = counted(rows(lambda name, layers, draw: draw.random() < 0.5)).limit
    assert found.text.startswith("0 of ")
    assert len(found.rows) == wild.NEAREST


def test_which_scenarios_a_setup_has_is_no_effect(deep):
    """A scenario that always harms is on deep setups alone, one that never does on the others."""
    faulty = wild.tried(deep)
    deeper = faulty["layers"] > 4
    kept = faulty[(faulty["scenario"] == "corrupt_tokens") & deeper | (faulty["scenario"] == "high_lr") & ~deeper]
    assert abs(kept.loc[deeper, "harmed"].mean() - kept.loc[~deeper, "harmed"].mean()) > 0.3
    assert all(effect.p > 0.05 for effect in wild.effects(kept) if effect.factor == "layers")


def test_outcomes_are_counted_by_hand(deep):
    table = counted(deep)
    found = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert found["corrupt_tokens"]["runs"] == found["corrupt_tokens"]["quiet"] == SETUPS
    assert found["corrupt_tokens"]["harmed"] == "100% [94%, 100%]"
    assert found["high_lr"]["non-finite"] + found["high_lr"]["not shown"] == SETUPS
    assert found["all"]["runs"] == 3 * SETUPS
    assert "benign_late_drop" not in found
    assert f"on {SETUPS} setups" in table.how
    assert "a processor" in table.how
