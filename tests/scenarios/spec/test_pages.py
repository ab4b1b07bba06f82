"""The catalogue as data, and what it says is proven."""

import json

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.spec import proofs
from trainwreck.scenarios.spec.pages import page, summary
from trainwreck.scenarios.spec.proofs import unproven
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import Role, RunSpec
from trainwreck.scenarios.spec.scenario import Family, Severity


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Writes a record of proofs in place of the shipped one."""
    path = tmp_path / "proofs.json"
    monkeypatch.setattr(proofs, "path", lambda: path)

    def write(rows):
        path.write_text(json.dumps(rows), encoding="utf-8")
        proofs.recorded.cache_clear()

    write([])
    yield write
    proofs.recorded.cache_clear()


def row(severity, **changed):
    spec = RunSpec("high_lr", Role.FAULTY, 0, Size.MICRO, severity)
    facts = {"scenario": "high_lr", "size": "micro", "severity": severity.value, "overrides": [], "proven": True}
    return facts | {"identity": spec.identity} | changed


def proven():
    return next(line["proven"] for line in summary() if line["id"] == "high_lr")


def test_the_summary_has_a_line_a_scenario():
    lines = summary()
    assert [line["id"] for line in lines] == list(scenarios())
    for line in lines:
        entry = scenario(line["id"])
        assert line["kind"] == ("look-alike" if entry.look_alike else "failing")
        assert line["severities"] == [level.value for level in entry.severities]
        assert line["sizes"] == [size.value for size in entry.sizes]
        assert line["title"]
        assert line["sources"]
        assert set(line["proven"]) <= set(line["sizes"])


@pytest.mark.parametrize("name", scenarios())
def test_a_page_is_json_and_holds_the_line(name):
    content = page(name)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert next(line for line in summary() if line["id"] == name).items() <= content.items()
    assert list(content["knobs_by_severity"]) == (content["severities"] or [""])
    assert all(sorted(knobs) == content["knobs"] for knobs in content["knobs_by_severity"].values())
    assert content["sections"] == scenario(name).page()


def test_an_unknown_page_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'high_lr'"):
        page("hihg_lr")


def test_nothing_is_proven_without_a_record(record):
    assert all(line["proven"] == [] for line in summary())


def test_proven_where_every_severity_is(record):
    record([row(level) for level in Severity])
    assert proven() == ["micro"]


@pytest.mark.parametrize(
    "rows",
    [
        [row(Severity.CLEAR), row(Severity.SEVERE)],
        [row(Severity.SUBTLE, proven=False), row(Severity.CLEAR), row(Severity.SEVERE)],
        [row(Severity.SUBTLE, identity="changed since"), row(Severity.CLEAR), row(Severity.SEVERE)],
        [row(Severity.SUBTLE, overrides=["steps=9"]), row(Severity.CLEAR), row(Severity.SEVERE)],
        [row(Severity.SUBTLE, scenario="no_warmup"), row(Severity.CLEAR), row(Severity.SEVERE)],
        [row(level, size="small") for level in Severity],
    ],
    ids=["one severity missing", "one failed", "changed since", "with overrides", "of another", "another size"],
)
def test_not_proven(rows, record):
    record(rows)
    assert proven() == []


def test_what_is_unproven_is_no_scenario_and_says_what_was_tried():
    for line in unproven():
        assert line["id"] not in scenarios()
        assert line["family"] in {family.value for family in Family}
        assert line["fault"]
        assert line["tried"]
