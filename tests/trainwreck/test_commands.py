"""Every command does its work on a small data set, and says so in JSON."""

import dataclasses
import json
from importlib.resources import files
from itertools import product

import pytest

from trainwreck.evaluation.constants import BOARD_PROFILES
from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.detectors.registry import builtin_detectors
from trainwreck.evaluation.files import sha256
from trainwreck.evaluation.replay.oracles import ORACLES
from trainwreck.scenarios.bench import Table
from trainwreck.scenarios.proof.verify import Proof
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.spec.scenario import Family


def parsed(result):
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_list(call):
    rows = parsed(call("list", "--json"))
    keys = {"id", "family", "kind", "severities", "sizes", "sources", "proven"}
    assert all(keys <= set(row) for row in rows)
    assert {"failing", "look-alike"} == {row["kind"] for row in rows}
    text = call("list")
    assert text.code == 0
    assert all(row["id"] in text.out for row in rows)


def test_list_of_a_family(call):
    rows = parsed(call("list", "--family", "look-alikes", "--json"))
    assert rows
    assert {row["family"] for row in rows} == {"look-alikes"}


def test_show(call):
    page = parsed(call("show", "high_lr", "--json"))
    assert page["id"] == "high_lr"
    assert page["knobs"] == ["factor", "ramp_steps"]
    text = call("show", "high_lr")
    assert text.code == 0
    assert all(section in text.out for section in page["sections"])


def test_show_has_the_setup_and_the_lines_of_the_fault(call):
    page = parsed(call("show", "lr_too_low", "--json"))
    assert {"setting": "model.width", "default": 64, "here": 48} in page["settings"]
    assert page["lines"][:2] == ["- c.lr = 0.01", "+ c.lr = 0.0001"]
    text = call("show", "lr_too_low").out
    assert "default of size micro" in text
    assert set(page["lines"]) <= set(text.splitlines())
    own = call("show", "benign_entropy_floor").out
    assert "its own twin" in own
    assert "\n+ " not in own


def test_run_draws_a_picture(call, here, tiny):
    facts = parsed(call("run", "mask_missing", *tiny, "--seed", "3", "--json"))
    assert (here / "mask_missing.png").read_bytes().startswith(b"\x89PNG")
    assert [run["role"] for run in facts["runs"]] == ["faulty", "twin", "cured"]
    assert {run["steps"] for run in facts["runs"]} == {24}
    assert 0 < facts["onset_step"] < facts["cure_step"] < 24
    assert facts["seed"] == 3
    assert sorted(path.name for path in here.iterdir()) == ["mask_missing.png"]


def test_run_of_a_look_alike_as_text(call, here, tiny):
    result = call("run", "benign_clean_resume", *tiny, "--plot", "deep/er.png")
    assert result.code == 0
    assert "signature: None" in result.out
    assert "picture: deep/er.png" in result.out
    assert (here / "deep" / "er.png").is_file()


def test_verify_of_what_is_not_proven(call, here, tiny):
    words = ("verify", "mask_missing", *tiny, "--seeds", "2", "--workers", "1", "--out", "proofs")
    result = call(*words, "--json")
    (row,) = json.loads(result.out)
    assert result.code == 1
    assert row["proven"] is False
    assert row["bitwise"] is True
    assert row["seeds"] == 2
    text = call(*words)  # judged again, not trained again
    assert text.code == 1
    assert "| severity | holds | seeds |" in text.out  # two seeds prove nothing, and the table doesn't say so
    assert "**no**" in text.out


@pytest.mark.parametrize(
    ("words", "seeds", "verdict", "code"),
    [
        (["--first-seed", "20", "--seeds", "3"], 3, "holds", 0),
        (["--first-seed", "20"], 8, "holds", 0),
        (["--seeds", "7"], 7, "holds", 0),
        ([], 8, "proven", 1),
        (["--first-seed", "0"], 8, "proven", 1),
    ],
)
def test_seeds_that_are_no_proof_are_judged_by_whether_it_holds(call, here, monkeypatch, words, seeds, verdict, code):
    row = json.loads((files("trainwreck.scenarios.spec") / "proofs.json").read_text(encoding="utf-8"))[0]
    names = {field.name for field in dataclasses.fields(Proof)}
    held = {key: value for key, value in row.items() if key in names}
    held |= {"overrides": (), "seeds": seeds, "holds": True, "proven": False}
    monkeypatch.setattr("trainwreck.scenarios.proof.verify.verify", lambda names, *a, **k: [Proof(**held)])
    result = call("verify", row["scenario"], *words)
    assert (result.code, f"| severity | {verdict} | seeds |" in result.out) == (code, True)


def test_a_quick_look_is_one_slice_of_one_seed_and_shares_healthy_runs(call, here, tiny):
    shape = [word for word in tiny if not word.startswith("steps")]
    words = ("verify", "mask_missing", "mask_off_by_one", *shape, "steps=22", "--workers", "1", "--out", "proofs")
    result = call(*words, "--quick", "--json")
    assert {row["scenario"]: (row["seeds"], row["proven"], row["holds"]) for row in json.loads(result.out)} == {
        "mask_missing": (1, False, False),
        "mask_off_by_one": (1, False, False),
    }
    assert result.code == 1
    (folder,) = (here / "proofs").iterdir()
    twins = load(folder).runs.query("kind == 'healthy'")
    assert len(twins) == 2  # one seed, and a healthy run of another seed to compare with
    text = call(*words, "--quick").out
    assert "| severity | holds | seeds |" in text  # nothing is proven on one seed, and the table doesn't say so
    assert call(*words, "--quick", "--record").code == 2


@pytest.fixture
def verified(monkeypatch) -> list[str]:
    """Ids of the scenarios that `verify` was called for; it trains none."""
    names: list[str] = []
    monkeypatch.setattr("trainwreck.scenarios.proof.verify.verify", lambda ids, *a, **k: names.extend(ids) or [])
    return names


def test_verify_of_a_family_is_its_scenarios(call, here, verified):
    assert call("verify", "--family", "numerics").code == 0
    assert verified == [name for name, entry in scenarios().items() if entry.family is Family.NUMERICS]


def test_verify_of_every_part_is_each_scenario_once(call, here, verified):
    for number in range(1, 8):
        before = len(verified)
        assert call("verify", "--quick", "--part", f"{number}/7").code == 0
        assert len(verified) - before in (len(scenarios()) // 7, len(scenarios()) // 7 + 1)
    assert verified == list(scenarios())


def test_generate_again_trains_nothing(call, copied, sweep, monkeypatch):
    before = {path: (path.stat().st_mtime_ns, sha256(path)) for path in copied.rglob("*") if path.is_file()}

    def refuse(*details, **where):
        raise AssertionError("trained again")

    monkeypatch.setattr("trainwreck.scenarios.datasets.generate.train", refuse)
    facts = parsed(call("generate", *sweep, "--out", copied, "--workers", "1", "--json"))
    assert facts["runs"] == sum(facts["kinds"].values()) == len(load(copied))
    assert {path: (path.stat().st_mtime_ns, sha256(path)) for path in copied.rglob("*") if path.is_file()} == before


def test_label_measures_the_same_again(call, copied):
    before = (copied / "runs.parquet").read_bytes()
    rows = parsed(call("label", copied, "--json"))
    assert [row["run_id"] for row in rows] == load(copied).runs["run_id"].tolist()
    assert (copied / "runs.parquet").read_bytes() == before
    assert "mask_missing" in call("label", copied).out


def test_score(call, data_set):
    cards = parsed(call("score", data_set, "--detector", "zclip", "--detector", "nonfinite_loss", "--json"))
    assert [card["detector"] for card in cards] == ["zclip", "nonfinite_loss"]
    assert {alarm["run_id"] for alarm in cards[0]["alarms"]} == set(load(data_set).runs["run_id"])
    text = call("score", data_set, "--detector", "zclip", "--profile", "minimal", "--track", "informed")
    assert text.code == 0
    assert text.out.startswith("zclip on ")
    assert "minimal profile, informed track" in text.out


def test_the_profile_that_draws_how_each_run_is_logged(call, data_set):
    text = call("score", data_set, "--detector", "zclip", "--profile", "logged")
    assert text.code == 0, text.err
    assert "logged profile, blind track" in text.out
    rows = parsed(call("compare", data_set, "zclip", "nonfinite_loss", "--profile", "logged", "--json"))
    assert rows
    for words in (("quiz", "--profile", "logged"), ("equivalence", data_set, "--profile", "logged")):
        call(*words).refused("profile: 'logged' is not allowed; allowed: full, common, standard, minimal, filtered")


def test_score_of_a_detector_in_a_file(call, data_set, here):
    (here / "mine.py").write_text(
        "class Mine:\n    def reset(self, context): pass\n    def update(self, row): return row['step'] >= 5\n",
        encoding="utf-8",
    )
    (card,) = parsed(call("score", data_set, "--detector", "mine.py:Mine", "--json"))
    assert {alarm["first_alarm"] for alarm in card["alarms"]} == {5}


def test_leaderboard(call, copied):
    rows = parsed(call("leaderboard", copied, "--json"))
    everyone = {*builtin_detectors(), *ORACLES}
    assert {(row["profile"], row["detector"]) for row in rows} == set(product(BOARD_PROFILES, everyone))
    text = call("leaderboard", copied, "--profile", "minimal")
    assert text.code == 0, text.err
    assert all(row["detector"] in text.out for row in rows)
    assert "not on the board: base_alone, first_rows (no train split" in text.out
    assert json.loads((copied / "scores.json").read_text(encoding="utf-8"))["rows"][0]["profile"] == "minimal"


def test_report_is_one_file_without_links_to_others(call, harmed, here):
    facts = parsed(call("report", harmed, "--out", "report.html", "--json"))
    page = (here / "report.html").read_text(encoding="utf-8")
    assert facts["report"] == "report.html"
    assert "nan_weight_spread" in page
    assert "benign_clean_resume" in page
    assert page.count("data:image/png;base64,") >= 2
    assert 'src="http' not in page
    assert "<link" not in page


def test_report_with_a_detector_that_says_nothing_of_itself(call, copied, here):
    (here / "mine.py").write_text(
        "class Mine:\n    def reset(self, context): pass\n    def update(self, row): return False\n", encoding="utf-8"
    )
    assert call("leaderboard", copied, "--detector", "mine.py:Mine").code == 0
    result = call("report", copied, "--out", here / "page.html")
    assert result.code == 0, result.err
    assert "mine.py:Mine" in (here / "page.html").read_text(encoding="utf-8")


def test_reproduce(call, data_set):
    run_id = load(data_set).runs["run_id"].iloc[0]
    found = parsed(call("reproduce", data_set, run_id, "--json"))
    assert found["identical"] is True
    assert "24 rows, bitwise identical" in call("reproduce", data_set, run_id).out


def test_doctor(call):
    facts = parsed(call("doctor", "--json"))
    assert {"trainwreck", "python", "packages", "processor", "cores", "scenarios", "cpp"} <= set(facts)
    assert "packages" in call("doctor").out


def test_bench(call, monkeypatch):
    table = Table("name", "Title", "How.", "command", ("what", "value"), (("a", 1.0),))
    monkeypatch.setattr("trainwreck.scenarios.bench.train.against_plain_loop", lambda tick: table)
    assert parsed(call("bench", "train", "--json")) == table.to_dict()
    assert call("bench", "train").out == table.text() + "\n"


def test_demo_plans_trains_scores_and_reports(call, here, sweep, monkeypatch):
    from trainwreck.scenarios.datasets import plans

    _, specs = plans.resolve(sweep)
    monkeypatch.setitem(plans.PLANS, "demo", lambda: specs)
    result = call("demo", "--workers", "1")
    assert result.code == 0, result.err
    assert "data set: demo" in result.out
    assert "zclip" in result.out
    assert (here / "demo" / "report.html").is_file()
    facts = parsed(call("demo", "--workers", "1", "--json"))
    assert facts["report"] == "demo/report.html"
    assert len(facts["leaderboard"]) == len(BOARD_PROFILES) * (len(builtin_detectors()) + len(ORACLES))
