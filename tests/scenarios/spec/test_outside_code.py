"""What the code of a scenario from outside does wrong is told with file and line, and nothing enters a data set."""

import json
from pathlib import Path

import pytest

from trainwreck.evaluation.dataset.dataset import UNPROVEN
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.labels.labelling import relabel
from trainwreck.scenarios.datasets.generate import generate
from trainwreck.scenarios.datasets.plans import resolve
from trainwreck.scenarios.datasets.signatures import with_signatures
from trainwreck.scenarios.proof import verify
from trainwreck.scenarios.spec import outside, run_spec
from trainwreck.scenarios.spec.pages import page
from trainwreck.scenarios.spec.proofs import enter_here, local_path
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.views.session import run

TINY = (
    "steps=24", "model.layers=2", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2",
    "evaluation.rows=4",
)  # fmt: skip
SOURCE = '''"""The causal mask is gone.

Failure: Words.
Mechanism: Words.
Injection: Words.
Signature: Words.
Cure: Words.
Realism: Words.
References: Words.
"""

import dataclasses

import torch

from trainwreck.scenarios.spec.faults import FaultKind, TableEdit, Undo
from trainwreck.scenarios.spec.scenario import Family, Scenario


class Mine(Scenario):
    """Mask gone."""

    id = "mine"
    family = Family.ATTENTION
    kinds = (FaultKind.TENSOR,)
    sources = ("a note",)
    telling = "attention_mass_future"
    cure_after = 4

    def fault(self, knobs, setup):
        return [TableEdit(see_everything)]

    def signature(self, run, healthy, onset):
        return bool(run["attention_mass_future"][onset:].min() > 0.01)

    def cure(self, knobs, setup):
        return [Undo()]


def see_everything(tables, setup):
    return dataclasses.replace(tables, allowed_NTS=torch.ones_like(tables.allowed_NTS))
'''


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """What a test loads and proves is known in it alone."""
    monkeypatch.setattr(outside, "_loaded", {})
    monkeypatch.setattr(outside, "_files", {})
    run_spec._composed.cache_clear()  # of another test's mine.py
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


@pytest.fixture
def write(tmp_path):
    """Writes mine.py, with one text in place of another; its name as a scenario, and the line of the change."""

    def written(old="", new=""):
        assert old in SOURCE
        (tmp_path / "mine.py").write_text(SOURCE.replace(old, new, 1))
        return f"{tmp_path / 'mine.py'}:Mine", SOURCE[: SOURCE.index(old)].count("\n") + 1

    return written


def said(found, file, line):
    """The one line of an error, which names file and line."""
    text = str(found.value)
    assert "\n" not in text
    assert f"{file.rpartition(':')[0]}, line {line}: " in text
    return text


def test_an_import_that_fails_names_the_line(write, tmp_path, monkeypatch):
    file, line = write("import torch\n", "import torch\n1 / 0\n")
    with pytest.raises(InputError, match=rf"does not import \(ZeroDivisionError: division by zero; line {line + 1}\)"):
        scenario(file)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=rf"^scenario mine\.py: .*; line {line + 1}\)"):
        scenario("mine.py:Mine")


@pytest.mark.parametrize(
    ("new", "says"),
    [
        ("return None", "signature returns None; allowed: True, False"),
        ("return {'it rises': 'yes'}", "signature returns 'yes' for 'it rises'"),
        ("return run['loss'] > 3", "signature returns array"),
    ],
)
def test_a_predicate_that_says_nothing_is_refused(write, new, says):
    file, line = write('return bool(run["attention_mass_future"][onset:].min() > 0.01)', new)
    with pytest.raises(InputError) as found:
        run(file, *TINY)
    assert says in said(found, file, line - 1)


@pytest.mark.parametrize(
    ("new", "says"),
    [
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("return run.loss", "AttributeError: 'Trace' object has no attribute 'loss'"),
        ("return run['attention_mass_futur'] > 0", "signal: 'attention_mass_futur' is not allowed; did you mean"),
    ],
)
def test_a_predicate_that_raises_makes_no_data_set(write, tmp_path, new, says):
    file, line = write('return bool(run["attention_mass_future"][onset:].min() > 0.01)', new)
    name, specs = resolve([f"scenario={file}", *TINY])
    with pytest.raises(InputError) as found:
        generate(specs, tmp_path / "made", name=name)
    assert says in said(found, file, line)
    assert not (tmp_path / "made" / "manifest.json").exists()
    with pytest.raises(InputError) as found:
        verify.verify(["mine"], tmp_path / "runs", seeds=1, overrides=TINY)
    assert says in said(found, file, line)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("def cure(self, knobs, setup):", "def cure(self, knobs, setup, onset):", "Mine.cure() missing 1 required"),
        (
            "def fault(self, knobs, setup):",
            "def fault(self, setup):",
            "Mine.fault() takes 2 positional arguments but 3",
        ),
        ("def see_everything(tables, setup):", "def see_everything(tables):", "see_everything() takes 1 positional"),
        ("TableEdit(see_everything)", "TableEdit(lambda tables: tables)", "<lambda>() takes 1 positional argument"),
    ],
)
def test_a_function_that_takes_other_arguments_is_one_line(write, tmp_path, old, new, says):
    file, line = write(old, new)
    with pytest.raises(InputError) as found:
        run(file, *TINY)
    assert says in said(found, file, line)


@pytest.mark.parametrize(
    ("old", "new", "says", "above"),
    [
        ("return [Undo()]", "return []", "cure changes nothing: it returns []", 1),
        ("return [Undo()]", "return None", "cure changes nothing: it returns None", 1),
        ("return [Undo()]", "return ['undo']", "cure changes nothing: it returns str", 1),
        ("return [Undo()]", "return [Undo]", "cure changes nothing: it returns type", 1),
        ("return [TableEdit(see_everything)]", "return []", "fault changes nothing: it returns []", 1),
        ("return [TableEdit(see_everything)]", "return [TableEdit(see)]", "NameError: name 'see' is not defined", 0),
    ],
)
def test_a_cure_that_is_none_is_refused_before_anything_is_trained(write, tmp_path, old, new, says, above):
    file, line = write(old, new)
    for call in (lambda: resolve([f"scenario={file}", *TINY]), lambda: run(file, *TINY)):
        with pytest.raises(InputError) as found:
            call()
        assert says in said(found, file, line - above)


@pytest.mark.parametrize(
    ("old", "new", "what", "above"),
    [
        ("return [Undo()]", "return [TableEdit(see_everything)]", "cure", 1),
        ("torch.ones_like(tables.allowed_NTS)", "tables.allowed_NTS", "fault", 11),
    ],
)
def test_what_leaves_every_number_as_it_is_makes_no_data_set(write, tmp_path, old, new, what, above):
    file, line = write(old, new)
    _, specs = resolve([f"scenario={file}", *TINY])
    with pytest.raises(InputError) as found:
        generate(specs, tmp_path / "made")
    assert f"{what} changes nothing: run r" in said(found, file, line - above)
    assert not (tmp_path / "made" / "manifest.json").exists()


def test_an_edit_that_raises_in_training_makes_no_data_set(write, tmp_path):
    file, line = write("return dataclasses.replace(tables, ", "return dataclasses.replace(table, ")
    _, specs = resolve([f"scenario={file}", *TINY])
    for call in (lambda: generate(specs, tmp_path / "made"), lambda: run(file, *TINY)):
        with pytest.raises(InputError) as found:
            call()
        assert "NameError: name 'table' is not defined" in said(found, file, line)
    assert not (tmp_path / "made" / "manifest.json").exists()


def test_a_plan_of_it_from_a_file_is_checked_as_well(write, tmp_path):
    file, _ = write()
    name, specs = resolve([f"scenario={file}", *TINY])
    plan = {"format": "trainwreck-plan", "name": name, "runs": [spec.to_json() for spec in specs]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    outside._loaded.clear()
    outside._files.clear()
    write("return [Undo()]", "return []")
    with pytest.raises(InputError, match="cure changes nothing"):
        resolve([str(tmp_path / "plan.json")])


def test_its_labels_are_flagged_until_it_is_proven_here(write, tmp_path):
    file, _ = write()
    name, specs = resolve([f"scenario={file}", *TINY])
    data = generate(specs, tmp_path / "made", name=name)
    faulty = data.runs["scenario"] == "mine"
    assert data.runs[UNPROVEN].tolist() == faulty.tolist()
    (spec,) = [one for one in family_of(file, [0], overrides=TINY) if one.role.value == "faulty"]
    passed = {"scenario": "mine", "identity": spec.identity, "source": outside.source_of("mine")}
    enter_here([passed | {"source": "of another file"}])
    relabel(tmp_path / "made", with_signatures)
    assert _flags(tmp_path / "made").tolist() == faulty.tolist()
    enter_here([passed])
    assert len(json.loads(local_path().read_text())) == 1
    assert page("mine")["proven"] == []  # which is at the settings of its size
    (own,) = family_of(file, [0], roles=(Role.FAULTY,))
    enter_here([passed | {"identity": own.identity}])
    assert page("mine")["proven"] == ["micro"]
    relabel(tmp_path / "made", with_signatures)
    assert not _flags(tmp_path / "made").any()


def _flags(folder: Path):
    from trainwreck.evaluation.dataset.dataset import load

    return load(folder).runs[UNPROVEN]


def test_a_proof_is_kept_on_this_machine_and_one_of_the_catalogue_is_not(write, tmp_path, monkeypatch):
    file, _ = write()
    scenario(file)
    monkeypatch.setattr(verify, "FEWEST_SEEDS", 1)
    (proof,) = verify.verify(["mine"], tmp_path / "runs", seeds=1, overrides=TINY)
    found = json.loads(local_path().read_text()) if local_path().exists() else []
    assert [(row["scenario"], row["identity"]) for row in found] == [("mine", proof.identity)] * proof.proven


def test_a_data_set_of_the_catalogue_has_no_such_column(tmp_path):
    name, specs = resolve(["scenario=mask_missing", *TINY])
    assert UNPROVEN not in generate(specs, tmp_path / "made", name=name).runs
