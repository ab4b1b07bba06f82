"""The game: a branch in the page is the run that was acted on, and what comes from a data set is text in it."""

import dataclasses
import json
import re
import zlib
from base64 import b64decode
from types import SimpleNamespace

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.quiz.curves import curves
from trainwreck.scenarios.rescue.actions import Action, Kind
from trainwreck.scenarios.rescue.episode import Episode, advance
from trainwreck.scenarios.rescue.game.branches import CHOICES, SHARES, drawn, points_of
from trainwreck.scenarios.rescue.game.page import WORDS, page_data, write_page
from trainwreck.scenarios.rescue.outcomes import cases, outcome

EVIL = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>\"&"
BLOCK = 20


def opened(texts):
    return [json.loads(zlib.decompress(b64decode(text))) for text in texts]


def acted_on(case, point, text):
    """The run as an episode by itself, acted on once."""
    one = Episode(case.spec, "common", BLOCK)
    while not one.ended:
        if one.step == point and not one.actions:
            one.act(Action.parse(text))
        if not one.ended:
            advance([one])
    return one


def shown(run, point, action):
    """The course that the page shows for a choice, as `curves` has a whole run."""
    option = run["options"][str(point)][action]
    own = run["own"][option["own"]]
    kept = sum(step < option["begins"] for step in run["untouched"]["steps"])
    signals = {name: values[:kept] + own["signals"][name] for name, values in run["untouched"]["signals"].items()}
    return {"steps": run["untouched"]["steps"][:kept] + own["steps"], "signals": signals}


@pytest.mark.parametrize(("place", "point", "action"), [(0, 80, "roll_back_and_skip=50"), (1, 140, "restore=updates")])
def test_a_branch_of_the_page_is_the_run_that_was_acted_on(game, shipped, place, point, action):
    data = page_data(shipped, game, "common", BLOCK)
    case = game[place].case
    alone = acted_on(case, point, action)
    assert shown(opened(data["runs"])[place], point, action) == curves(alone.trace(), "common")
    mine, by_hand = game[place].branches[point, action].outcome, outcome(case, alone, action)
    assert repr(mine) == repr(by_hand)  # NaN is NaN
    shown_score = opened(data["truths"])[place]["scores"][str(point)][action]
    assert shown_score["net"] == pytest.approx(by_hand.net, rel=1e-4)
    assert shown_score["spent"] == pytest.approx(by_hand.spent)


def test_what_is_told_of_a_run(game, shipped):
    data = page_data(shipped, game, "common", BLOCK)
    failing, healthy = opened(data["truths"])
    assert failing["causes"] == ["gradients_not_cleared"]
    assert failing["untouched"]["net"] == pytest.approx(0.0, abs=1e-3)  # against that of the data set
    assert failing["oracle"]["within"]
    assert failing["oracle"]["at"] == game[0].case.in_sight
    assert failing["scores"]["80"]["roll_back_and_skip=50"]["spent"] == pytest.approx(60 / 200)  # to a border of blocks
    assert failing["pages"][0]["sections"]
    assert (healthy["kind"], healthy["causes"], healthy["oracle"], healthy["pages"]) == ("healthy", [], None, [])
    assert healthy["scores"]["80"]["stop"]["harmed"]
    assert [one["action"] for one in data["choices"]] == ["stop", "roll_back_and_skip=50", "restore=updates"]
    run = opened(data["runs"])[0]
    assert run["options"]["80"]["stop"] == {"own": None, "begins": 80, "note": ""}
    assert all(answer.startswith("playbook: ") for answer in run["asked"].values())
    assert "gradients_not_cleared" not in json.dumps(data["runs"][0])


def test_courses_that_are_alike_are_in_the_page_once(game, shipped):
    healthy = opened(page_data(shipped, game, "common", BLOCK)["runs"])[1]
    assert len(healthy["own"]) == 2 * len(game[1].points)
    assert game[1].branches[80, "restore=updates"].outcome.spent == pytest.approx(0.1)


def test_names_from_a_data_set_are_text(game, shipped, tmp_path):
    pages = {name: page | {"title": EVIL, "family": EVIL} for name, page in shipped.pages.items()}
    hostile = SimpleNamespace(runs=shipped.runs, pages=pages, trace=shipped.trace)
    found = [dataclasses.replace(one, case=dataclasses.replace(one.case, causes=(EVIL,))) for one in game]
    write_page(tmp_path / "game.html", hostile, found, "common", BLOCK)
    page = (tmp_path / "game.html").read_text(encoding="utf-8")
    assert EVIL not in page
    packed = json.loads(re.search(r'<script type="application/json" id="game">(.*?)</script>', page, re.S)[1])
    assert opened(packed["truths"])[0]["pages"][0]["title"] == EVIL
    assert page.count("<script") == 3
    assert len(page) < 3e6


def test_every_choice_has_its_words_and_a_key_of_its_own():
    assert set(WORDS) == set(CHOICES)
    assert len({key for key, _ in WORDS.values()} | {"C", "D", "E", "N"}) == len(WORDS) + 4
    assert all(str(Action.parse(choice)) == choice for choice in CHOICES)


def test_points_are_the_same_shares_of_every_run(shipped):
    case = cases(shipped, ["test"], "common")[0]
    assert points_of(case, 10) == (80, 110, 140) == tuple(round(200 * share) for share in SHARES)
    assert points_of(case, 100) == (100,)
    with pytest.raises(InputError, match="block: 200 is not allowed with --play; allowed: up to 100"):
        points_of(case, 200)


def test_failing_runs_that_are_drawn_can_be_saved_at_a_decision_point(shipped):
    found = drawn(cases(shipped, ["test"], "common"), 10)
    assert [case.kind for case in found].count("failing") == 2
    assert len(found) == 6
    assert len({case.spec.scenario for case in found}) >= 5
    for case in found:
        assert not case.failing or any(case.in_sight <= at <= case.no_return for at in points_of(case, 10))
    turned = drawn(list(reversed(cases(shipped, ["test"], "common"))), 10)
    assert [case.spec.run_id for case in turned] == [case.spec.run_id for case in found]
    with pytest.raises(InputError, match="play: no failing run can still be saved"):
        drawn(cases(shipped, ["calibration"], "common"), 10)


def test_a_fork_leaves_the_run_alone(game):
    root = Episode(game[0].case.spec, "common", BLOCK)
    advance([root])
    before = (root.step, list(root.checkpoints), len(root.parts), root.spent)
    other = root.fork()
    other.act(Action(Kind.ROLL_BACK, 10.0))
    advance([other])
    assert (root.step, list(root.checkpoints), len(root.parts), root.spent) == before
    assert root.actions == []
