"""What a guess is compared with, and the four causes of a beginner's quiz."""

from trainwreck.evaluation.pages.quiz.curves import curves
from trainwreck.evaluation.pages.quiz.guesses import CHOICES, examples, four
from trainwreck.evaluation.scoring.equivalence_sets import shipped as sets


def test_an_example_is_a_run_of_its_cause_that_is_not_asked_about(shipped, quiz):
    causes = sorted(set(shipped.runs["cause"].dropna()) & set(quiz.families))
    found = examples(shipped, quiz, [*causes, "high_lr"])
    assert "high_lr" not in found, "the sample has no run of it"
    assert set(found) == set(causes)
    losses = {tuple(curves(shipped.trace(name), "full")["signals"]["loss"]) for name in quiz.runs["run_id"]}
    for cause, one in found.items():
        assert tuple(one["signals"]["loss"]) not in losses
        assert len(one["signals"]) == 2
        assert all(len(values) == len(one["steps"]) for values in one["signals"].values())
        onsets = shipped.runs.loc[shipped.runs["cause"] == cause, "onset_step"]
        assert one["onset"] in set(onsets)


def test_four_causes_hold_the_true_one_and_none_that_is_not_told_from_it(shipped, quiz):
    for run_id, row in quiz.runs.iterrows():
        names = four(quiz, shipped, run_id)
        assert len(set(names)) == len(names) == CHOICES
        assert names == sorted(names) == four(quiz, shipped, run_id)
        assert set(names) <= set(quiz.families)
        if row["kind"] == "failing":
            assert row["cause"] in names
            assert set(names).isdisjoint(sets("full").get(row["cause"], ()))
    assert len({tuple(four(quiz, shipped, run_id)) for run_id in quiz.runs.index}) > 6, "of each run its own"


def test_the_place_of_the_true_cause_tells_nothing(shipped, quiz):
    failing = quiz.runs[quiz.runs["kind"] == "failing"]
    places = {four(quiz, shipped, run_id).index(row["cause"]) for run_id, row in failing.iterrows()}
    assert len(places) > 1
