"""The catalogue: found by walking, checked on entry, and every entry keeps its form."""

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
import types
from pathlib import Path

import numpy as np
import pytest

from trainwreck.evaluation.dataset.schema import BY_NAME
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios import catalogue
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import check
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec import registry
from trainwreck.scenarios.spec.faults import Change, FaultKind
from trainwreck.scenarios.spec.registry import CatalogueError, register, scenario, scenarios
from trainwreck.scenarios.spec.run_spec import Role, RunSpec
from trainwreck.scenarios.spec.scenario import ALSO_SEEN, SECTIONS, Clauses, Family, Knobs, Scenario, Severity

EVERY = pytest.mark.parametrize("name", scenarios())
FOLDER = Path(catalogue.__file__).parent
PAGE = "A title.\n\n" + "\n".join(f"{section}: Words." for section in SECTIONS)


def text_of(entry):
    return inspect.cleandoc(sys.modules[type(entry).__module__].__doc__)


def needed(entry):
    """A look-alike has no signature and nothing to cure, unless its log is wrong."""
    return [s for s in SECTIONS if entry.has_signature or s not in ("Signature", "Cure")]


def test_every_file_is_an_entry():
    files = {path.stem for path in FOLDER.glob("*/*.py") if path.stem != "__init__"}
    assert set(scenarios()) == files


@EVERY
def test_the_id_is_the_file_and_the_folder_is_the_family(name):
    entry = scenario(name)
    *_, folder, file = type(entry).__module__.split(".")
    assert file == entry.id == name
    mates = {other.family for other in scenarios().values() if type(other).__module__.split(".")[-2] == folder}
    assert mates == {entry.family}
    assert folder.replace("_", "-") in (entry.family.value, re.split(r" and |, ", entry.family.value)[0])
    assert entry.look_alike == (entry.family in (Family.LOOK_ALIKE, Family.LOGGING))


@EVERY
def test_the_page_has_its_sections_in_order(name):
    entry = scenario(name)
    lines = [line.partition(":")[0] for line in text_of(entry).splitlines() if ":" in line]
    order = ["Signature" if word == ALSO_SEEN else word for word in lines if word in (*SECTIONS, ALSO_SEEN)]
    assert order == [section for section in SECTIONS if section in order]  # each once
    page = entry.page()
    assert list(page) == [section for section in SECTIONS if section in page]
    assert set(needed(entry)) <= set(page)
    assert all(page.values())
    assert entry.title().endswith(".")


@EVERY
def test_every_failure_says_what_is_checked_clause_by_clause(name):
    """Each return of a signature is a dict with the same literal keys, which the page lists instead of words."""
    entry = scenario(name)
    if not entry.has_signature:
        return
    assert "Signature" not in entry.text()
    clauses = list(entry.checked())
    assert clauses
    tree = ast.parse(textwrap.dedent(inspect.getsource(type(entry).signature))).body[0]
    inner = {node for part in ast.walk(tree) if part is not tree and isinstance(part, (ast.FunctionDef, ast.Lambda))
             for node in ast.walk(part)}  # fmt: skip
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and node not in inner]
    assert all(isinstance(value, ast.Dict) for value in returned)
    assert all([key.value for key in value.keys] == clauses for value in returned)
    assert all(clause == clause.strip().rstrip(".;") and not clause[:1].isupper() for clause in clauses)


class Clear(Scenario):
    """As the catalogue's: clauses with literal keys."""

    def signature(self, run, healthy, onset) -> Clauses:
        if len(run) < 2:
            return {"the loss jumps": False, "and stays": False}
        level = 2 * healthy[0]
        return {"the loss jumps": run[onset] > level, "and stays": run[-1] > level}


def test_a_signature_is_its_clauses():
    assert Clear.checked() == {"the loss jumps": "run[onset] > level", "and stays": "run[-1] > level"}
    assert Clear().holds([0, 3, 3], [1, 1], 1)
    assert not Clear().holds([0, 3, 0], [1, 1], 1)
    assert not Clear().holds([0, 3, 3], [1, 1], 2)  # the twin ended before the onset
    assert Scenario.checked() == {}


def test_the_mean_of_a_signal_that_a_run_does_not_have_is_no_signature_and_no_warning():
    class Higher(Clear):
        def signature(self, run, healthy, onset) -> Clauses:
            return {"the loss is higher": np.nanmean(run[onset:]) > healthy[0]}

    assert Higher().holds([0, 3], [1, 1], 1)
    assert not Higher().holds([0, np.nan], [1, 1], 1)


def test_the_page_lists_the_clauses_and_what_is_seen_besides(make):
    page = PAGE.replace("Signature: Words.", "Also seen: Noise.")
    fresh = make(page=page, signature=Clear.signature)
    assert fresh.page()["Signature"] == "Checked: the loss jumps; and stays.\nAlso seen: Noise."
    assert list(fresh.page()) == list(SECTIONS)
    register(fresh)
    plain = make(
        page=PAGE, signature=lambda self, run, healthy, onset: run > healthy
    )  # true or false, and words of its own
    assert plain.page()["Signature"] == "Words."
    assert plain().holds([1], [0], 0)


@EVERY
def test_the_facts_are_complete(name):
    entry = scenario(name)
    assert entry.kinds
    assert all(isinstance(kind, FaultKind) for kind in entry.kinds)
    assert entry.version >= 1
    assert entry.tolerance > 0
    assert entry.telling in BY_NAME
    known = {value for key, value in vars(citations).items() if key.isupper()}
    assert entry.sources
    assert set(entry.sources) <= known
    assert set(entry.sizes) & {Size.MICRO, Size.DEEP}


@EVERY
def test_the_severities_are_three_different_ones_or_none(name):
    levels = scenario(name).severities
    assert list(levels) in ([], list(Severity))
    knobs = [dataclasses.astuple(k) for k in levels.values()]
    assert len(set(knobs)) == len(knobs)


@EVERY
def test_the_base_is_healthy_and_the_changes_are_of_the_kinds_declared(name):
    entry = scenario(name)
    for size in entry.sizes:
        setup = entry.base(healthy(size))
        check(setup)
        for knobs in entry.severities.values() or [entry.knobs]:
            changes = entry.fault(knobs, setup)
            assert all(isinstance(change, Change) for change in changes)
            assert {change.kind for change in changes} <= set(entry.kinds)
            assert bool(changes) != entry.own_twin
            if not entry.look_alike:
                assert entry.cure(knobs, setup)
                assert entry.cure_delay(knobs) >= 0


@EVERY
@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_the_onset_is_within_the_run_and_the_cure_not_before_it(name, seed):
    entry = scenario(name)
    for level in entry.severities or [None]:
        spec = RunSpec(name, Role.FAULTY if entry.look_alike else Role.CURED, seed, entry.sizes[0], level)
        assert 0 <= spec.onset < spec.setup.steps
        if entry.onset is None:
            assert spec.onset == 0
        else:
            low, high = (int(share * spec.setup.steps) for share in (entry.onset.earliest, entry.onset.latest))
            assert low <= spec.onset <= high
        if spec.role is Role.CURED:
            assert spec.onset <= spec.cure_step < spec.setup.steps


def test_onsets_differ_between_seeds():
    entry = scenario("mask_missing")
    assert len({entry.onset_step(seed, 400) for seed in range(20)}) > 10


def test_families_come_in_order():
    order = [list(Family).index(entry.family) for entry in scenarios().values()]
    assert order == sorted(order)


def test_an_unknown_id_names_the_nearest():
    with pytest.raises(InputError, match="scenario: 'mask_mising' is not allowed; did you mean 'mask_missing'"):
        scenario("mask_mising")


@pytest.fixture
def make(monkeypatch):
    """A scenario class that keeps every rule but for what is changed, in a module of its own."""
    monkeypatch.setattr(registry, "_found", dict(registry._found))

    def build(module="somewhere.fresh", page=PAGE, **changed):
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module, page))
        facts = {
            "__module__": module, "id": "fresh", "family": Family.DATA, "kinds": (FaultKind.DATA,),
            "sources": ("a document",), "telling": "loss", "fault": lambda self, knobs, setup: [],
            "signature": lambda self, run, healthy, onset: True, "cure": lambda self, knobs, setup: [],
        }  # fmt: skip
        return type("Fresh", (Scenario,), {k: v for k, v in (facts | changed).items() if v is not None})

    return build


def test_a_right_entry_is_taken(make):
    cls = register(make())
    assert isinstance(registry._found["fresh"], cls)
    register(make())  # again from the same file, as a reload does


def test_a_taken_id_is_a_conflict(make):
    with pytest.raises(CatalogueError, match=r"'high_lr' is taken by trainwreck\.scenarios\.catalogue"):
        register(make(module="elsewhere.high_lr", id="high_lr"))
    assert type(registry._found["high_lr"]).__module__ == type(scenario("high_lr")).__module__


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"id": "other"}, "id"),
        ({"id": None}, "id"),
        ({"family": "data"}, "family"),
        ({"family": None}, "family"),
        ({"kinds": ()}, "kinds"),
        ({"kinds": ("data",)}, "kinds"),
        ({"sources": None}, "sources"),
        ({"telling": None}, "telling"),
        ({"sizes": ()}, "sizes"),
        ({"sizes": ("micro",)}, "sizes"),
        ({"severities": {Severity.CLEAR: Knobs()}}, "severities"),
        ({"severities": dict.fromkeys(Severity, 3)}, "knobs"),
        ({"fault": None}, "fault"),
        ({"signature": None}, "signature"),
        ({"cure": None, "kinds": (FaultKind.STATE,)}, "cure"),
        *(({"page": PAGE.replace(f"{s}: Words.", "")}, f"docstring: section '{s}'") for s in SECTIONS),
        *(({"page": PAGE.replace(f"{s}: Words.", f"{s}:")}, f"docstring: section '{s}'") for s in SECTIONS),
    ],
)
def test_a_wrong_entry_is_named_by_file_and_field(make, changed, field):
    cls = make(**changed)
    with pytest.raises(CatalogueError, match=re.escape(f"somewhere.fresh: Fresh.{field}")):
        register(cls)
    assert "fresh" not in registry._found


def test_a_look_alike_needs_neither_signature_nor_cure(make):
    page = PAGE.replace("Signature: Words.", "").replace("Cure: Words.", "")
    register(make(page=page, look_alike=True, imitates=("high_lr",), signature=None, cure=None))
    assert "fresh" in registry._found


def test_importing_a_catalogue_file_again_changes_nothing():
    before = list(scenarios())
    importlib.reload(sys.modules[type(scenario("mask_missing")).__module__])
    assert list(scenarios()) == before
