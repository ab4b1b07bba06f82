"""Cards to print: a page of A4 each, with one figure and five lines."""

import re

import pytest

from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.gallery import write_cards
from trainwreck.evaluation.pages.gallery.cards import EIGHT, lines
from trainwreck.scenarios.datasets.small_plans import DEMO
from trainwreck.scenarios.spec.registry import scenarios


@pytest.fixture(scope="module")
def printed(catalogue, tmp_path_factory):
    """The cards of the sample, which has two of the eight."""
    return write_cards([sample()], tmp_path_factory.mktemp("cards") / "cards.html", catalogue)


def test_the_eight_are_failures_of_the_catalogue_and_in_the_demo():
    assert len(set(EIGHT)) == 8
    assert set(EIGHT) <= set(DEMO)
    assert all(not scenarios()[name].look_alike for name in EIGHT)


def test_a_card_has_a_figure_and_five_lines(printed):
    assert printed.scenarios == ("corrupt_tokens", "mask_missing")
    assert set(printed.missing) == set(EIGHT) - set(printed.scenarios)
    text = printed.path.read_text(encoding="utf-8")
    cards = re.findall(r'<article id="(.*?)">(.*?)</article>', text, re.S)
    assert [name for name, _ in cards] == list(printed.scenarios)
    for _, card in cards:
        assert card.count("<img ") == 1
        assert card.count("<dt>") == card.count("<dd>") == 5
    assert not re.search(r"https?://|@import|url\(", text)
    assert "benign_single_spike, benign_spike_recovers; healthy" in cards[0][1]


def test_the_lines_are_those_of_the_page():
    sections = {"Failure": "It fails, e.g. so. Then it ends. Third.", "Mechanism": "By a. B.", "Cure": "Mend\nit."}
    sections["Signature"] = "Checked: it jumps; it stays.\nAlso seen: much."
    assert lines({"sections": sections}, []) == [
        ("What fails", "It fails, e.g. so. Then it ends"),
        ("Why", "By a. B"),
        ("Look for", "it jumps; it stays"),
        ("Cure", "Mend it"),
        ("Not to be taken for", "no look-alike of it is in the catalogue"),
    ]


def test_without_any_of_the_eight_there_is_no_page(write_data_set, make_run, make_trace, catalogue, tmp_path):
    rows = [
        make_run("f", scenario="mask_zeroed", kind="failing", last_step=29, twin_id="t"),
        make_run("t", last_step=29),
    ]
    data = write_data_set(tmp_path / "data", rows, [make_trace("f", steps=30), make_trace("t", steps=30)])
    with pytest.raises(InputError, match=r"^cards: no run of high_lr, .*; allowed: all$"):
        write_cards([data.path], tmp_path / "cards.html", catalogue)
    assert not (tmp_path / "cards.html").exists()


@pytest.mark.browser
def test_cards_look_right_at_every_width_and_on_paper(printed, looks_right):
    looks_right(printed.path)


@pytest.mark.browser
def test_every_card_is_one_page_of_paper(printed, open_page):
    page = open_page(printed.path)
    paper = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) == len(printed.scenarios)
    assert page.evaluate("[...document.images].every((one) => one.complete && one.naturalWidth > 1000)")
