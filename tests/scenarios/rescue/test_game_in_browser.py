"""The game in a browser: played by keys alone, and the score that it shows is the one that was trained."""

import pytest

from trainwreck.scenarios.rescue.game.page import write_page

pytestmark = pytest.mark.browser
BLOCK = 20


@pytest.fixture(scope="module")
def file(shipped, game, tmp_path_factory):
    path = tmp_path_factory.mktemp("game") / "game.html"
    write_page(path, shipped, game, "common", BLOCK)
    return path


@pytest.fixture
def begun(open_page, file):
    page = open_page(file)
    page.wait_for_selector("body[data-ready]")
    page.click("[data-control=begin]")
    page.wait_for_selector("[data-part=run]:not([hidden])")
    return page


def told(page, key):
    """The end of a run in which the first decision is answered by a key."""
    page.keyboard.press("e")
    page.wait_for_selector("[data-part=choice]:not([hidden])")
    page.keyboard.press(key)
    page.keyboard.press("e")
    page.wait_for_selector("[data-part=told]:not([hidden])")
    return {
        row.get_attribute("data-row"): float(row.query_selector("[data-net]").inner_text())
        for row in page.query_selector_all("[data-part=telling] [data-row]")
    }


def test_a_run_is_shown_up_to_a_border_and_no_further(begun):
    begun.keyboard.press("ArrowRight")
    assert begun.inner_text("[data-part=step]") == "step 40"
    assert begun.evaluate("panels.every((p) => p.chart.series.every((s) => s.steps.every((at) => at < 40)))")
    begun.keyboard.press("e")
    assert "before step 80" in begun.inner_text("[data-part=where]")
    assert begun.evaluate("panels.every((p) => p.chart.series.every((s) => s.steps.every((at) => at < 80)))")
    begun.keyboard.press("d")
    assert begun.inner_text("[data-part=answer]").startswith("playbook: ")
    begun.keyboard.press("c")
    begun.keyboard.press("e")
    assert "before step 140" in begun.inner_text("[data-part=where]")


def test_the_game_is_played_by_keys_and_the_scores_are_those_that_were_trained(begun, game):
    failing, healthy = game
    net = failing.branches[80, "roll_back_and_skip=50"].outcome.net
    rows = told(begun, "b")
    assert rows["you"] == pytest.approx(net, abs=0.006)
    assert rows["untouched"] == 0.0
    assert rows["oracle"] == pytest.approx(failing.oracle.outcome.net, abs=0.006)
    assert "gradients_not_cleared" in begun.inner_text("[data-part=telling]")
    steps = begun.evaluate("panels[0].chart.series.find((s) => s.id === 'run').steps")
    assert steps == list(range(200))
    begun.keyboard.press("n")
    begun.wait_for_selector("[data-part=told]", state="hidden")
    begun.reload()  # goes on where it was
    begun.wait_for_selector("body[data-ready]")
    assert begun.inner_text("[data-part=progress]") == "run 2 of 2"
    stopped = told(begun, "s")
    assert stopped["you"] == pytest.approx(healthy.branches[80, "stop"].outcome.net, abs=0.006)
    begun.keyboard.press("n")
    begun.wait_for_selector("[data-standing]")
    total = net + healthy.branches[80, "stop"].outcome.net
    assert float(begun.inner_text("[data-sum]")) == pytest.approx(total, abs=0.006)
    assert "Harmed 1 of 1" in begun.inner_text("[data-part=standing]")


def test_it_looks_right_before_and_while_it_is_played(looks_right, file):
    looks_right(file, ready="document.body.dataset.ready === 'yes'")
    looks_right(
        file,
        ready="(() => { if (document.body.dataset.ready && !state.begun) does.begin();"
        " if (run && state.seen < 80) does.skip(); return run !== null && state.seen >= 80; })()",
    )
