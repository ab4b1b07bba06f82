"""What an episode came to, by hand; policies side by side; episodes that are kept and gone on with."""

import json
import math

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.schema import Harm
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.rescue.actions import Action, Kind, with_prices
from trainwreck.scenarios.rescue.board import Oracle, play, play_all, read_again, table
from trainwreck.scenarios.rescue.episode import OVER, QUESTIONS
from trainwreck.scenarios.rescue.outcomes import Case, Outcome, cases
from trainwreck.scenarios.rescue.policies import BUILT_IN, Never, treatment
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.loop import train

TINY = (
    "steps=60", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=4",
    "evaluation.every=10",
)  # fmt: skip


def case_of(spec, untouched, twin, visible=None, no_return=None, kind="failing", harm=Harm.ABOVE, block=10):
    border = None if visible is None else (visible // block + 1) * block
    return Case(spec, kind, ("mask_missing",), visible, border, no_return, 0.05, harm, untouched, twin)


@pytest.fixture(scope="module")
def runs():
    """A faulty run, its twin, and their final losses."""
    faulty, twin = family_of("mask_missing", [3], overrides=TINY, roles=(Role.FAULTY, Role.TWIN))
    results = train([faulty.job(), twin.job()])
    return faulty, twin, results[0].trace.final_loss(), results[1].trace.final_loss()


def test_distances_are_on_the_side_of_the_harm_and_end_at_the_ceiling(runs):
    spec = runs[0]
    above = case_of(spec, 4.0, 3.0)
    assert above.ceiling == pytest.approx(math.log(64))
    assert above.worth == pytest.approx(math.log(64) - 3.0)
    assert [above.away(loss) for loss in (3.5, 2.5)] == [0.5, 0.0]
    assert above.away(math.nan) == above.away(99.0) == pytest.approx(math.log(64) - 3.0)
    assert case_of(spec, 4.0, 3.0, harm=Harm.BELOW).away(2.5) == 0.5
    assert case_of(spec, 4.0, 3.0, harm=Harm.EITHER).away(2.5) == 0.5


@pytest.mark.parametrize(
    ("visible", "no_return", "untouched", "rescuable"),
    [(24, 30, 4.0, True), (24, 29, 4.0, False), (24, 59, 3.04, False), (None, 59, 4.0, False), (24, None, 4.0, False)],
)
def test_a_run_is_rescuable_where_a_cure_at_the_next_border_still_saves_it(
    runs, visible, no_return, untouched, rescuable
):
    assert case_of(runs[0], untouched, 3.0, visible, no_return).rescuable is rescuable


class LowerOnce(Never):
    """Lowers the rate at step 20, and rolls back once at 40."""

    name = "lower_once"

    def reset(self, seed):
        self.gone_back = False

    def act(self, seen):
        if seen.step == 20 and not seen.rolled_back:
            return "rate=0.5"
        if seen.step == 40 and not self.gone_back:
            self.gone_back = True
            return Action(Kind.ROLL_BACK, 10.0)
        return Action(Kind.CONTINUE)


def test_an_outcome_is_what_the_run_says(runs):
    faulty, _, untouched, twin = runs
    case = case_of(faulty, untouched, twin, 24, 59)
    left, lowered = play(Never, [case])[0], play(LowerOnce, [case])[0]
    assert (left.saved, left.spent, left.net, left.acted, left.trained) == (0.0, 0.0, 0.0, None, 60)
    assert lowered.acted == 20
    assert lowered.trained == 70
    assert lowered.spent == pytest.approx(10 / 60)
    assert lowered.saved == pytest.approx(case.recoverable - case.away(lowered.final))
    assert lowered.net == pytest.approx(lowered.saved - 10 / 60 * case.worth)
    assert [text for _, text, _ in lowered.actions] == ["rate=0.5", "roll_back=10"]
    assert Outcome.from_json(json.loads(json.dumps(lowered.to_json()))) == lowered


class Garbage(Never):
    """Answers what is no action."""

    name = "garbage"

    def act(self, seen):
        return {10: "explode", 20: 7, 30: "rate=99", 40: None}.get(seen.step, "continue")


def test_what_is_no_action_leaves_the_run_alone_and_is_told(runs):
    faulty, _, untouched, twin = runs
    case = case_of(faulty, untouched, twin, 24, 59)
    found = play(Garbage, [case])[0]
    assert found.final == untouched
    assert [step for step, _, note in found.actions if "not allowed" in note] == [10, 20, 30, 40]
    assert found.acted is None


def test_a_policy_that_only_asks_leaves_the_run_alone(runs):
    faulty, _, untouched, twin = runs

    class Asks(Never):
        name = "asks"

        def act(self, seen):
            return "ask_detector=nonfinite_loss"

    found = play(Asks, [case_of(faulty, untouched, twin, 24, 59)])[0]
    assert (found.final, found.trained) == (untouched, 60)


def test_stopping_a_healthy_run_is_harm(runs):
    _, twin, _, final = runs

    class Stop(Never):
        name = "stop"

        def act(self, seen):
            return "stop" if seen.step == 20 else "continue"

    case = case_of(twin, final, final, kind="healthy")
    assert play(Stop, [case])[0].harmed
    assert not play(Never, [case])[0].harmed


def test_a_run_that_is_stopped_before_it_begins_knows_nothing(runs):
    faulty, _, untouched, twin = runs

    class AtOnce(Never):
        def act(self, seen):
            return "stop"

    case = case_of(faulty, untouched, twin, 24, 59)
    (found,) = play(AtOnce, [case])
    assert (found.trained, found.ended, found.within) == (0, "stopped", False)
    assert math.isnan(found.final)
    assert found.saved == pytest.approx(case.recoverable - (case.ceiling - case.twin))


def test_the_oracle_is_the_proven_cure_and_leaves_healthy_runs_alone(runs):
    faulty, twin, untouched, final = runs
    visible = faulty.onset + 1
    case = case_of(faulty, untouched, final, visible, 59)
    found, well = play(Oracle, [case, case_of(twin, final, final, kind="healthy")])
    cured = train([faulty.branch(case.in_sight)])[0].trace.final_loss()
    assert found.final == cured
    assert found.acted == case.in_sight
    assert (well.final, well.acted) == (final, None)


def test_episodes_are_kept_and_gone_on_with(runs, tmp_path, monkeypatch):
    faulty, twin, untouched, final = runs
    two = [case_of(faulty, untouched, final, 24, 59), case_of(twin, final, final, kind="healthy")]
    file = tmp_path / "episodes.jsonl"
    first = play_all([Never], two[:1], out=file)
    monkeypatch.setattr("trainwreck.scenarios.rescue.board.AT_ONCE", 1)
    played = []
    monkeypatch.setattr(
        "trainwreck.scenarios.rescue.board.play",
        lambda policy, some, *rest: played.extend(some) or play(policy, some, *rest),
    )
    whole = play_all([Never], two, out=file)
    assert whole[0] == first[0]
    assert played == two[1:]
    with pytest.raises(InputError, match=r"allowed: .*or another --out"):
        play_all([Never], two, out=file, block=20)


def test_policies_share_what_none_of_them_has_touched_and_end_as_they_do_alone(runs, monkeypatch):
    faulty, twin, untouched, final = runs
    two = [case_of(faulty, untouched, final, 24, 59), case_of(twin, final, final, kind="healthy")]
    alone = [one for policy in (Never, LowerOnce, Oracle) for one in play(policy, two)]
    trained = []
    monkeypatch.setattr(
        "trainwreck.scenarios.rescue.episode.train",
        lambda jobs, **more: trained.append(len(jobs)) or train(jobs, **more),
    )
    assert play_all([Never, LowerOnce, Oracle], two) == alone
    lowered, cured = (one for one in alone[2:] if one.acted is not None and one.kind == "failing")
    blocks = 2 * 6 + 2 * (lowered.trained - lowered.acted) // 10 + (60 - cured.acted) // 10
    assert sum(trained) == blocks


def test_the_table_by_hand():
    def one(policy, run, net, rescuable=True, kind="failing", within=True, harmed=False):
        return Outcome(
            policy, run, "s" + run, kind, int(run), "b", rescuable, 10, 1.0, net, 0.0, 1.0, 2.0, within, harmed, 20, 60,
            "end", ("a",), ("a",) if kind == "failing" else (), (),
        )  # fmt: skip

    found = table(
        [
            one("p", "0", 2.0), one("p", "1", 1.0, within=False), one("p", "2", 9.0, rescuable=False),
            one("p", "3", 0.0, False, "healthy", harmed=True), one("p", "4", 0.0, False, "healthy"),
            one("q", "0", 2.0), one("q", "1", 2.0),
        ]
    )  # fmt: skip
    assert found["policy"].tolist() == ["q", "p"]
    row = found.set_index("policy").loc["p"]
    assert (row["recovered"], row["rescued"], row["harmed"], row["delay"]) == (0.75, 0.5, 0.5, 10)
    assert row["rescued_low"] < 0.5 < row["rescued_high"]
    assert np.isnan(found.set_index("policy").loc["q", "harmed"])


def test_cases_of_the_sample_have_its_labels():
    found = cases(load("sample"), ("test",), "common")
    assert {case.kind for case in found} == {"failing", "healthy", "look-alike"}
    for case in found:
        if case.kind == "healthy":
            assert case.recoverable == 0
            assert not case.rescuable
        if case.rescuable:
            assert case.visible < case.in_sight <= case.no_return
    assert any(case.rescuable for case in found)


@pytest.mark.parametrize("policy", BUILT_IN, ids=lambda one: one.name)
def test_a_built_in_policy_leaves_no_trace_from_run_to_run(runs, policy):
    faulty, twin, untouched, final = runs
    pair = [case_of(faulty, untouched, final, 24, 59), case_of(twin, final, final, kind="healthy")]
    together = play(policy, pair)
    assert together == [play(policy, [case])[0] for case in pair]


@pytest.mark.parametrize(
    ("cause", "first"),
    [
        ("mask_missing", "restore=mask"), ("corrupt_tokens", "restore=data"), ("high_lr", "restore=settings"),
        ("batchnorm_in_transformer", "restore=model"), ("stale_optimizer_state", "roll_back=50"), ("unknown", None),
    ],
)  # fmt: skip
def test_a_cause_has_the_treatment_of_what_its_fault_is_made_of(cause, first):
    found = [str(action) for action in treatment(cause)]
    assert found[:1] == ([first] if first else [])


class Spends(Never):
    """Restores, asks too often, rolls back, and answers what is no action."""

    name = "spends"

    def reset(self, seed):
        self.gone_back = False

    def act(self, seen):
        if seen.step == 10:
            return "ask_signal=attention_entropy"
        if seen.step == 40 and not self.gone_back:
            self.gone_back = True
            return "roll_back=10"
        return {20: "restore=mask", 30: "restore=settings", 50: "explode"}.get(seen.step, "continue")


def test_kept_episodes_are_scored_again_without_training(runs, tmp_path, monkeypatch):
    faulty, twin, untouched, final = runs
    pair = [case_of(faulty, untouched, final, 24, 59), case_of(twin, final, final, kind="healthy")]
    file = tmp_path / "episodes.jsonl"
    played = play_all([Spends, Never], pair, out=file)
    monkeypatch.setattr("trainwreck.scenarios.rescue.board.cases", lambda *words, **others: pair)
    monkeypatch.setattr("trainwreck.scenarios.rescue.board.advance", None)
    data = load("sample")
    assert read_again(file, data) == played
    assert table(read_again(file, data)).to_csv() == table(played).to_csv()
    cheaper = {(one.policy, one.run_id): one for one in read_again(file, data, with_prices(["restore=0.05", "rate=9"]))}
    for one in played:
        other = cheaper[one.policy, one.run_id]
        # One restore of code; settings have a price of their own.
        assert one.spent - other.spent == pytest.approx(0.05 if one.policy == "spends" else 0.0)
        assert other.net == pytest.approx(other.saved - other.spent * one.worth)
    dearer = read_again(file, data, with_prices(["restore=settings=1", "ask_signal=0"]))
    assert dearer[0].spent - played[0].spent == pytest.approx(1 - 0.02 - 0.01 * QUESTIONS)
    assert any(note == OVER for _, _, note in played[0].actions)


@pytest.mark.parametrize(
    ("price", "error"),
    [
        ("restore", "price: '' is not allowed"),
        ("restores=1", "did you mean 'restore'?"),
        ("restore=code=1", "price: 'restore=code' is not allowed"),
        ("rate=0.1=1", "price: 'rate=0.1' is not allowed"),
        ("restore=nan", "price restore: 'nan' is not allowed; allowed: 0 to 100, in runs"),
        ("restore=-1", "price restore: '-1' is not allowed"),
        ("restore=x", "price restore: 'x' is not allowed"),
    ],
)
def test_a_price_that_is_none_is_refused(price, error):
    with pytest.raises(InputError) as raised:
        with_prices([price])
    assert error in str(raised.value)


def test_a_file_of_other_episodes_is_refused(runs, tmp_path, monkeypatch):
    faulty, _, untouched, final = runs
    case = case_of(faulty, untouched, final, 24, 59)
    monkeypatch.setattr("trainwreck.scenarios.rescue.board.cases", lambda *words, **others: [case])
    kept = json.dumps(play(Never, [case])[0].to_json())
    head, data = '{"profile": "common", "block": 10}', load("sample")
    for lines, error in (
        ([], "not a file of episodes"),
        ([head], "has no episode"),
        ([head, kept[:-5]], "line 2 is damaged"),
        ([head, "{}"], "line 2 is damaged"),
        ([head, "[]"], "line 2 is damaged"),
        (["5", kept], "not a file of episodes"),
        (["[]", kept], "is of {}; allowed: a file that --out wrote"),
        ([head, kept, kept], "twice; allowed: once"),
        ([head, kept.replace(case.spec.run_id, "r0")], "'r0' is not a run of"),
        ([head, kept.replace('"planned": 60', '"planned": 61')], "has 61 steps; allowed: 60"),
        ([head, kept.replace('"actions": []', '"actions": [[1, "explode", ""]]')], "'explode' is not allowed"),
    ):
        (tmp_path / "file.jsonl").write_text("\n".join(lines) + "\n" if lines else "")
        with pytest.raises(InputError) as raised:
            read_again(tmp_path / "file.jsonl", data)
        assert error in str(raised.value)
