"""Scenarios of files and of installed packages: found by name, in other processes too, and refused in one line."""

import json
import pickle
import sys
from textwrap import dedent

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.datasets.generate import generate
from trainwreck.scenarios.datasets.plans import resolve
from trainwreck.scenarios.datasets.reproduce import reproduce
from trainwreck.scenarios.proof.record import enter
from trainwreck.scenarios.proof.verify import verify
from trainwreck.scenarios.spec import outside
from trainwreck.scenarios.spec.pages import page, summary
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, family_of

TINY = (
    "steps=24", "model.layers=2", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2",
    "evaluation.rows=4",
)  # fmt: skip
PAGE = "\n".join(
    f"{name}: Words." for name in ("Failure", "Mechanism", "Injection", "Signature", "Cure", "Realism", "References")
)
SOURCE = dedent('''
    """The causal mask is gone.

    {page}
    """

    import dataclasses

    import torch

    from trainwreck.scenarios.spec.faults import FaultKind, TableEdit, Undo
    from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


    @dataclasses.dataclass(kw_only=True)
    class Share(Knobs):
        share: float = 1.0


    class Mine(Scenario):
        """Mask gone."""

        id = "{id}"
        family = Family.ATTENTION
        kinds = (FaultKind.TENSOR,)
        sources = ("a note",)
        telling = "attention_mass_future"
        cure_after = 4
        knobs = Share()

        def fault(self, knobs, setup):
            return [TableEdit(see_everything)]

        def signature(self, run, healthy, onset):
            return bool(run["attention_mass_future"][onset:].min() > 0.01)

        def cure(self, knobs, setup):
            return [Undo()]


    def see_everything(tables, setup):
        return dataclasses.replace(tables, allowed_NTS=torch.ones_like(tables.allowed_NTS))
''')


def source(id="mine", page=PAGE):
    return SOURCE.replace("{page}", page).replace("{id}", id).lstrip()


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """What a test loads is known in it alone."""
    monkeypatch.setattr(outside, "_loaded", {})
    monkeypatch.setattr(outside, "_files", {})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(source())
    return path


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs a package of modules with entry points: package({"mine": text}, "mine = plugged.mine:Mine")."""

    def install(modules, *points, name="plugged"):
        facts = tmp_path / f"{name}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text("[trainwreck.scenarios]\n" + "\n".join(points) + "\n")
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        for stem, text in modules.items():
            (tmp_path / name / f"{stem}.py").write_text(text)
            monkeypatch.delitem(sys.modules, f"{name}.{stem}", raising=False)
        monkeypatch.delitem(sys.modules, name, raising=False)

    monkeypatch.syspath_prepend(tmp_path)
    return install


def test_a_file_is_a_scenario_by_its_name_and_from_then_on_by_its_id(file):
    entry = scenario(f"{file}:Mine")
    assert entry.id == "mine"
    assert scenario("mine") is scenario(f"{file}:Mine") is entry
    assert entry.page()["Failure"] == "Words."
    assert "mine" not in scenarios()  # no plan has it by itself
    assert page("mine")["proven"] == []


def test_a_run_of_it_names_the_file_and_one_of_the_catalogue_none(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    spec, *_ = family_of("mine.py:Mine", [0], overrides=TINY)
    stored = json.loads(json.dumps(spec.to_json()))
    assert stored["scenario"] == "mine"
    assert stored["file"] == f"{file}:Mine"
    assert RunSpec.from_json(stored) == spec
    own, *_ = family_of("mask_missing", [0])
    assert "file" not in own.to_json()


def test_another_process_gets_the_fields_and_reads_the_file_itself(file, monkeypatch):
    spec, *_ = family_of(f"{file}:Mine", [0], overrides=("fault.share=0.5", *TINY))
    assert spec.knobs.share == 0.5
    packed = pickle.dumps(spec)
    run_id = spec.run_id
    monkeypatch.setattr(outside, "_loaded", {})
    monkeypatch.setattr(outside, "_files", {})
    monkeypatch.delitem(sys.modules, "_trainwreck_scenario_mine")
    again = pickle.loads(packed)
    assert again.run_id == run_id
    assert again.job().changes


def test_a_data_set_of_it_is_made_by_workers_labelled_and_made_again(file, tmp_path):
    name, specs = resolve([f"scenario={file}:Mine", "fault.share=0.5", *TINY])
    dataset = generate(specs, tmp_path / "made", workers=2, name=name)
    faulty = dataset.runs[dataset.runs["scenario"] == "mine"].iloc[0]
    assert faulty["kind"] in ("failing", "latent", "cured")
    assert set(dataset.runs["cause"]) == {"", "mine"}
    assert json.loads((tmp_path / "made" / "catalogue.json").read_text())["mine"]["proven"] == []
    assert reproduce(tmp_path / "made", faulty["run_id"]).identical
    _, again = resolve([str(tmp_path / "made" / "plan.json")])
    assert [spec.run_id for spec in again] == [spec.run_id for spec in specs]


def test_it_is_judged_as_any_other_and_not_put_on_record(file, tmp_path):
    id = scenario(f"{file}:Mine").id
    proofs = verify([id], tmp_path / "runs", seeds=1, overrides=TINY)
    assert proofs[0].scenario == "mine"
    assert proofs[0].bitwise
    assert proofs[0].signature_faulty == 1.0
    with pytest.raises(InputError, match="record: 'mine' is not in the catalogue"):
        enter(proofs, tmp_path)


def test_a_decorator_that_was_copied_along_does_no_harm(file):
    text = source().replace("class Mine", "@register\nclass Mine")
    file.write_text(
        text.replace("import torch\n", "import torch\nfrom trainwreck.scenarios.spec.registry import register\n")
    )
    assert scenario(f"{file}:Mine").id == "mine"
    assert "mine" not in scenarios()


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        (None, "mine.py:Mine", r"scenario mine\.py: no such file"),
        ("x = ", "mine.py:Mine", r"scenario mine\.py: does not import \(SyntaxError"),
        (source(), "mine.py:Yours", r"scenario mine\.py: has no class 'Yours'"),
        (source(), "mine.py:Share", r"scenario mine\.py: Share is not a scenario"),
        (source(), "mine.py:Scenario", r"scenario mine\.py: Scenario is not a scenario"),
        (source(), "mine.py:see_everything", r"see_everything is not a scenario"),
        (source("yours"), "mine.py:Mine", r"scenario mine\.py: Mine\.id: 'yours' is not the name of its file"),
        (source(page="Failure: Words."), "mine.py:Mine", r"mine\.py: Mine\.docstring: section 'Mechanism' is missing"),
        (source().replace("def fault", "def harm"), "mine.py:Mine", r"scenario mine\.py: Mine\.fault: not defined"),
        (
            source().replace("def cure", "def heal").replace("FaultKind.TENSOR", "FaultKind.STATE"),
            "mine.py:Mine",
            r"scenario mine\.py: Mine\.cure: not defined",
        ),
        (source(), "mine.py", r"'mine\.py' is not allowed; allowed: an id or file\.py:Class"),
        (source(), "mine.py:", "allowed: an id or file"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_told_in_one_line(tmp_path, monkeypatch, text, name, why):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(InputError, match=why) as found:
        scenario(name)
    assert "\n" not in str(found.value)


def test_an_id_that_is_taken_is_refused(file, tmp_path):
    taken = tmp_path / "high_lr.py"
    taken.write_text(source("high_lr"))
    with pytest.raises(InputError, match="the id 'high_lr' is taken by the catalogue"):
        scenario(f"{taken}:Mine")
    scenario(f"{file}:Mine")
    other = tmp_path / "other" / "mine.py"
    other.parent.mkdir()
    other.write_text(source())
    with pytest.raises(InputError, match=f"the id 'mine' is taken by {file}:Mine"):
        scenario(f"{other}:Mine")


def test_a_pair_with_one_of_a_file_is_refused(file):
    scenario(f"{file}:Mine")
    with pytest.raises(InputError, match="mine is of a file"):
        family_of("corrupt_tokens+mine", [0])


def test_an_installed_one_is_found_by_id_and_listed_without_a_proof(package):
    package({"mine": source()}, "mine = plugged.mine:Mine")
    assert scenario("mine").id == "mine"
    assert family_of("mine", [0], roles=(Role.FAULTY,))[0].to_json()["scenario"] == "mine"
    *_, last = summary()
    assert (last["id"], last["proven"]) == ("mine", [])
    assert "mine" not in scenarios()


def test_a_broken_plug_in_harms_only_who_asks_for_it(package):
    package({"mine": "raise SystemExit(3)"}, "mine = plugged.mine:Mine", "other = plugged.mine:Other")
    assert {row["id"] for row in summary()} == set(scenarios())
    with pytest.raises(InputError, match=r"plug-in plugged:mine: does not load \(SystemExit: 3\)"):
        scenario("mine")
    with pytest.raises(InputError, match="did you mean 'mine'"):
        scenario("mne")


def test_an_id_of_two_packages_is_refused_and_one_of_the_catalogue_stays_its_own(package):
    package({"mine": source()}, "mine = plugged.mine:Mine", "high_lr = plugged.mine:Mine")
    package({"mine": source()}, "mine = second.mine:Mine", name="second")
    with pytest.raises(InputError, match=r"'mine' is in several packages \(plugged, second\)"):
        scenario("mine")
    assert type(scenario("high_lr")).__module__.startswith("trainwreck.")
