"""The same runs by the same seed, in the stated shares, and none that nobody could answer."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from trainwreck.evaluation.dataset.schema import FAILURES
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.quiz.draw import draw, shares
from trainwreck.evaluation.pages.quiz.recipe import Part, Recipe

# Written down when it was first drawn: a change of it is a change of `recipe.VERSION`.
DRAWN = ["f1", "l3", "f9", "f5", "h2", "f2", "l0", "h0"]


def made_up():
    """Ten failing runs of five scenarios, four look-alikes and four healthy runs, on six twin sets."""
    rows = [("f", "failing", f"s{i // 2}", f"family {i % 3}", i % 6) for i in range(10)]
    rows += [("l", "look-alike", f"benign {i}", "look-alikes", i) for i in range(4)]
    rows += [("h", "healthy", "", "", i) for i in range(4)]
    table = pd.DataFrame(rows, columns=["run_id", "kind", "scenario", "family", "seed"])
    table["run_id"] += table.groupby("kind").cumcount().astype(str)
    steps = {"base": "b", "split": "test", "visible_profiles": '{"full": 20}', "no_return_step": 40.0}
    return table.assign(**steps).set_index("run_id", drop=False)


def test_the_draw_of_a_seed_is_for_ever():
    assert draw(made_up(), Recipe("t", seed=7, runs=8, profile="full")) == DRAWN


def test_a_seed_is_one_set_whatever_the_order_of_the_table(shipped, recipe):
    found = draw(shipped.runs, recipe)
    assert len(found) == len(set(found)) == 12
    assert draw(shipped.runs.sample(frac=1.0, random_state=3), recipe) == found
    others = {tuple(draw(shipped.runs, replace(recipe, seed=seed))) for seed in range(8)}
    assert len(others) == 8


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("profile", ["full", "standard", "filtered"])
def test_shares_are_kept_and_every_failure_can_be_found(seed, profile, shipped, recipe):
    runs = shipped.runs.loc[draw(shipped.runs, replace(recipe, seed=seed, profile=profile, runs=8))]
    failing = runs[runs["kind"].isin(FAILURES)]
    assert [len(failing), (runs["kind"] == "look-alike").sum(), (runs["kind"] == "healthy").sum()] == [4, 2, 2]
    assert (runs["split"] == "test").all()
    assert failing["scenario"].is_unique  # eight scenarios, so none twice
    for visible, no_return in zip(failing["visible_profiles"], failing["no_return_step"], strict=True):
        assert json.loads(visible)[profile] < no_return


def test_a_run_that_is_lost_at_its_onset_is_never_asked_about(shipped, recipe):
    lost = "r7f9f9cc02fa5"
    assert shipped.run(lost)["no_return_step"] == shipped.run(lost)["visible_step"]
    assert all(lost not in draw(shipped.runs, replace(recipe, seed=seed)) for seed in range(20))


def test_families_keep_look_alikes_and_healthy_runs(shipped, recipe):
    runs = shipped.runs.loc[draw(shipped.runs, replace(recipe, runs=6, families=("numerics", "optimisation")))]
    assert set(runs.loc[runs["kind"] == "failing", "family"]) == {"numerics", "optimisation"}
    assert runs["kind"].value_counts().to_dict() == {"failing": 3, "healthy": 2, "look-alike": 1}


def test_parts_deal_every_run_that_is_scored_once(shipped, recipe):
    parts = [draw(shipped.runs, replace(recipe, part=Part(k, 5))) for k in range(1, 6)]
    scored = shipped.runs["run_id"][shipped.runs["split"] != "train"]
    assert sorted(run_id for part in parts for run_id in part) == sorted(scored)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_healthy_runs_stand_in_for_look_alikes(shipped, recipe):
    without = shipped.runs[shipped.runs["kind"] != "look-alike"]
    assert without.loc[draw(without, replace(recipe, runs=8)), "kind"].value_counts().to_dict() == {
        "failing": 4, "healthy": 4,
    }  # fmt: skip


def test_never_and_always_are_each_right_on_half_of_the_runs():
    for runs in range(4, 60):
        wanted = shares(runs)
        assert sum(wanted.values()) == runs
        assert wanted["failing"] - runs / 2 in (0, 0.5)
        assert min(wanted.values()) >= 1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"runs": 3}, "runs: 3 is not allowed; allowed: 4 and more"),
        ({"runs": 99}, "runs: 99 is not allowed; allowed: up to 25; there are 15 failing, 6 look-alike, 6 healthy"),
        ({"seed": -1}, "seed: -1 is not allowed; allowed: 0 and more"),
        ({"profile": "ful"}, "profile: 'ful' is not allowed; did you mean 'full'?"),
        ({"families": ("numeric",)}, "family: 'numeric' is not allowed; did you mean 'numerics'?"),
        ({"families": ("numerics",), "part": Part(1, 2)}, "family: not allowed beside a part"),
        ({"part": Part(1, 69)}, "part: 1/69 is not allowed; allowed: up to 68 parts"),
    ],
)
def test_what_can_not_be_drawn_is_refused(change, complaint, shipped, recipe):
    with pytest.raises(InputError) as error:
        draw(shipped.runs, replace(recipe, **change))
    assert str(error.value).startswith(complaint)


@pytest.mark.parametrize("text", ["", "0/3", "4/3", "1", "1/2/3", "a/b", "1/0", "-1/3"])
def test_a_part_is_k_of_m(text):
    with pytest.raises(InputError, match=r"^part: .* allowed: K/M"):
        Part.read(text)


def test_private_runs_are_not_dealt(shipped, recipe):
    runs = shipped.runs.assign(split="private")
    with pytest.raises(InputError, match="part: not allowed for a data set with private runs"):
        draw(runs, replace(recipe, part=Part(1, 2)))
    with pytest.raises(InputError, match="there are 0 failing, 0 look-alike, 0 healthy"):
        draw(runs, recipe)


def test_a_recipe_is_its_json(recipe):
    for one in (recipe, replace(recipe, part=Part(2, 6), runs=0), replace(recipe, families=("data",))):
        assert Recipe.read(json.loads(json.dumps(one.to_json())), "a.json") == one
    assert replace(recipe, seed=8).id != recipe.id != replace(recipe, profile="minimal").id


def test_a_run_whose_fault_is_not_shown_is_in_no_quiz():
    runs = made_up()
    runs.loc[["f1", "f2"], "kind"] = "not shown"
    assert not {"f1", "f2"} & set(draw(runs, Recipe("t", seed=7, runs=8, profile="full")))
    dealt = [draw(runs, Recipe("t", seed=7, runs=0, profile="full", part=Part(k, 2))) for k in (1, 2)]
    assert sorted(run_id for part in dealt for run_id in part) == sorted({*runs.index} - {"f1", "f2"})
