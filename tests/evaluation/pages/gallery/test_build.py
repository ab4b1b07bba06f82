"""The page: everything in it, nothing from elsewhere, and no markup from names."""

import json
import math
from html.parser import HTMLParser

import numpy as np
import pytest

from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.dataset.schema import BY_NAME, SIGNALS, Axis
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import write_json
from trainwreck.evaluation.pages.gallery import build, write_gallery
from trainwreck.evaluation.pages.gallery.choose import exhibits
from trainwreck.evaluation.pages.gallery.exhibit_facts import Catalogue
from trainwreck.evaluation.pages.gallery.rules_shown import firings

EVIL = '"><script>alert(1)</script>'
VOID = {"meta", "input", "wbr"}


class Page(HTMLParser):
    """Every tag with its attributes, and text by the innermost tag; complains of tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open[-1] in ("option", "dt", "dd") and self.open[-1] != tag:
            self.open.pop()
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.text.append((self.open[-1], data))


@pytest.fixture(scope="module")
def text(sample_page):
    return sample_page.read_text(encoding="utf-8")


def test_every_scenario_has_a_card(text, shipped):
    tags = Page(text).tags
    cards = [attrs for tag, attrs in tags if attrs.get("class") == "card"]
    scenarios = set(shipped.runs["scenario"]) - {""}
    assert {card["data-id"] for card in cards} == scenarios


def test_nothing_is_loaded_from_elsewhere(text):
    for tag, attrs in Page(text).tags:
        assert "src" not in attrs
        assert tag not in ("link", "img", "iframe", "object", "base")
        if "href" in attrs:
            assert attrs["href"].startswith("#")
    policy = next(attrs for tag, attrs in Page(text).tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"].startswith("default-src 'none';")


def test_every_scenario_has_its_setup_and_the_lines_of_its_fault(text, facts_in, catalogue):
    for name, facts in facts_in(text)["scenarios"].items():
        assert facts["injected"] == catalogue.injected[name]
        assert any(line.startswith("+ ") for line in facts["injected"]["lines"]), name


def test_what_is_packed_is_the_telemetry(text, runs_in, facts_in, shipped):
    packed, facts = runs_in(text), facts_in(text)
    assert set(packed) == {row["run_id"] for runs in exhibits([shipped]).values() for one in runs for row in one.rows}
    compared = 0
    for run_id in list(packed)[::5]:
        trace = shipped.trace(run_id)
        for signal in SIGNALS:
            if signal.name not in packed[run_id] or signal.name in ("rank_batch_hash", "rank_weight_hash"):
                continue
            back, values = packed[run_id][signal.name], trace[signal.name]
            kept = values[None] if signal.axis is Axis.SCALAR else values.T
            assert back["every"] == 1
            finite = np.isfinite(kept)
            known = ~back["gap"]
            assert (np.abs(back["numbers"] - kept)[finite & known] <= (2.0**-5.9 * np.abs(kept))[finite & known]).all()
            assert np.isnan(back["numbers"][~finite & known & np.isnan(kept)]).all()
            compared += int(finite.sum())
        assert (~packed[run_id]["validation_loss"]["gap"][0] == trace.evaluated).all()
    assert compared > 50_000
    assert set(facts["signals"]) == set(BY_NAME)


def test_the_facts_are_the_labels(text, facts_in, shipped):
    facts = facts_in(text)
    for name, scenario in facts["scenarios"].items():
        for run in scenario["runs"]:
            row = shipped.run(run["run"])
            assert (row["scenario"], row["seed"], row["kind"]) == (name, run["seed"], run["kind"])
            for clock, column in (("s", "onset_step"), ("v", "visible_step"), ("p", "no_return_step")):
                assert (run[clock] is None) == math.isnan(row[column])
                assert run[clock] is None or run[clock] == row[column]
            assert all(json.loads(row["visible_steps"])[signal] == step for signal, step in run["visible"])
            assert {one["detector"] for one in run["alarms"]} == {"loss_over_minimum", "zclip"}
    assert any(run["p"] is not None for one in facts["scenarios"].values() for run in one["runs"])


def test_the_playbooks_rules_are_those_that_made_it_alarm(text, facts_in, shipped):
    from trainwreck.evaluation.detectors.playbook.playbook import RULES, Playbook
    from trainwreck.evaluation.replay.replay import replay

    facts = facts_in(text)
    (run,) = facts["scenarios"]["mask_zeroed"]["runs"]
    fired = {int(place): step for place, step in run["rules"].items()}
    assert fired == firings(shipped.trace(run["run"]))
    alarms = replay(Playbook, shipped.trace(run["run"]))
    assert min(fired.values()) == alarms.first_alarm
    assert RULES[min(fired, key=lambda place: (fired[place], place))].cause == alarms.causes[0]
    assert "mask_zeroed" in {RULES[place].cause for place in fired}


def test_look_alikes_stand_with_what_they_imitate(text, facts_in):
    facts = facts_in(text)["scenarios"]
    assert "corrupt_tokens" in facts["benign_single_spike"]["imitates"]
    assert "benign_single_spike" in facts["corrupt_tokens"]["imitated_by"]
    assert facts["corrupt_tokens"]["imitates"] == []


def test_what_is_not_proven_is_listed_with_the_reason(text, catalogue):
    words = [data for _, data in Page(text).text]
    for row in catalogue.unproven:
        assert row["id"] in words
        assert row["tried"] in words


def test_the_page_says_what_it_was_made_from(text, shipped):
    from trainwreck.evaluation.dataset.dataset import telemetry_digest
    from trainwreck.evaluation.files import sha256

    words = [data for _, data in Page(text).text]
    assert sha256(shipped.path / "manifest.json") in words
    assert telemetry_digest(shipped) in words
    assert "trainwreck gallery sample" in words
    assert shipped.manifest["plan"] in words


@pytest.fixture
def evil(write_small_data_set, tmp_path):
    """A data set whose names and texts are markup, with a catalogue that repeats them."""
    data = write_small_data_set(tmp_path / "evil", plan=EVIL, scenarios=("high_lr", "a'b<i>"))
    page = {"title": EVIL, "family": EVIL, "telling": "loss", "sections": {"Failure": EVIL, "Cure": "`<b>`"}}
    write_json(data.path / "catalogue.json", dict.fromkeys(("high_lr", "a'b<i>", "benign_single_spike"), page))
    manifest = json.loads((data.path / "manifest.json").read_text())
    del manifest["files"]["catalogue.json"]
    write_json(data.path / "manifest.json", manifest)
    return data


def test_names_are_text_and_no_markup(evil, tmp_path):
    unproven = [{"id": EVIL, "family": EVIL, "fault": EVIL, "tried": EVIL}]
    write_gallery(
        [evil.path], tmp_path / "page.html", Catalogue(unproven=unproven), detectors=["nonfinite_loss"], command=EVIL
    )
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [data for tag, data in page.text if tag == "script" and "alert" in data] == []
    assert sum(EVIL in data for _, data in page.text) >= 7
    assert not [tag for tag, _ in page.tags if tag == "i"]


def test_a_page_that_would_be_too_large_is_thinned(evil, tmp_path, monkeypatch, runs_in):
    out = tmp_path / "page.html"
    full = write_gallery([evil.path], out, Catalogue(), detectors=["nonfinite_loss"])
    assert full.thinned == 1
    monkeypatch.setattr(build, "LARGEST", full.bytes - 1)
    made = write_gallery([evil.path], out, Catalogue(), detectors=["nonfinite_loss"])
    assert (made.thinned, made.bytes) == (2, out.stat().st_size)
    text = out.read_text(encoding="utf-8")
    back = next(iter(runs_in(text).values()))
    assert (back["loss"]["steps"], back["layer_grad_norm"]["steps"]) == (40, 20)
    assert "one value of each 2 steps" in text


def test_a_page_that_stays_too_large_is_refused(evil, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "LARGEST", 1000)
    with pytest.raises(InputError, match="bytes are not allowed; allowed: 1,000, so fewer scenarios"):
        write_gallery([evil.path], tmp_path / "page.html", Catalogue(), detectors=["nonfinite_loss"])
    assert not (tmp_path / "page.html").exists()


def test_bad_input_is_named(evil, tmp_path, write_small_data_set, catalogue):
    with pytest.raises(InputError, match="given twice"):
        write_gallery([evil.path, evil.path / "."], tmp_path / "p.html", catalogue)
    with pytest.raises(InputError, match="is not a folder"):
        write_gallery([tmp_path / "none"], tmp_path / "p.html", catalogue)
    with pytest.raises(InputError, match=r"out: .* is a folder"):
        write_gallery([sample()], tmp_path, catalogue)
    write_json(evil.path / "catalogue.json", {})
    with pytest.raises(InputError, match="no page of"):
        write_gallery([evil.path], tmp_path / "p.html", catalogue, detectors=["nonfinite_loss"])
    assert not (tmp_path / "p.html").exists()
