"""The policy `learned`: what it sees, what its trees promise, its file, and training on a few runs of the sample."""

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.datasets.rescue_plan import HELD_OUT, SEEDS, TRAIN_SEEDS, TRAINED
from trainwreck.scenarios.rescue import courses
from trainwreck.scenarios.rescue.actions import TABLE
from trainwreck.scenarios.rescue.learned import training
from trainwreck.scenarios.rescue.learned.model import Model, read_model, shipped, write_model
from trainwreck.scenarios.rescue.learned.policy import Learned, with_weights
from trainwreck.scenarios.rescue.learned.situation import LOOKS, SEEN, Situation, names
from trainwreck.scenarios.rescue.observation import Observation
from trainwreck.scenarios.rescue.outcomes import cases

CALLS = {"corrupt_tokens": ["restore=data"], "lr_jump": ["restore=settings", "roll_back=50"]}


def history(count: int, **changes):
    """A run whose loss falls slowly. changes: signal to a function of step and usual value."""
    rows = []
    for step in range(count):
        row = {"loss": 3.0 - 0.002 * step, "grad_norm": 1.0, "lr": 1e-3, "validation_loss": None}
        row = {name: changes[name](step, value) if name in changes else value for name, value in row.items()}
        rows.append({"step": step} | row)
    return rows


def looks(rows, block=10, planned=200):
    """What is seen at each border of blocks, of those at which something is to be decided."""
    situation, found = Situation({}), {}
    for step in range(0, len(rows), block):
        seen = situation.see(Observation(step, planned, rows[max(0, step - block) : step], rows[:step], 0.0))
        if seen is not None:
            found[step] = dict(zip(names({}), seen, strict=True))
    return found


def test_failing_runs_are_not_learnt_from_before_they_are_visible(monkeypatch):
    monkeypatch.setattr(Situation, "see", lambda *_: np.zeros(3))
    decides = training.forks({}).decides

    def moments_of(failing, visible):
        case = SimpleNamespace(spec=SimpleNamespace(run_id="r"), failing=failing, visible=visible)
        roots = [SimpleNamespace(step=step, observation=lambda: None) for step in (0, 40, 50, 60)]
        return [root.step for root in roots if decides(case, root)]

    assert moments_of(True, 50) == [60]
    assert moments_of(True, None) == []
    assert moments_of(False, None) == [0, 40, 50, 60]


def test_a_calm_run_is_never_decided_on():
    assert looks(history(200)) == {}
    assert looks(history(200, validation_loss=lambda step, _: 3.0 if step % 25 == 0 else None)) == {}


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({"loss": lambda step, loss: loss + (step >= 100)}, "surprise of the loss", 1.0),
        ({"loss": lambda step, loss: loss - (step >= 100)}, "change of the loss", -1.02),
        ({"loss": lambda step, loss: np.nan if step >= 105 else loss}, "share not finite", 0.5),
        ({"grad_norm": lambda step, _: np.e if step >= 100 else 1.0}, "shift of the gradients", 1.0),
        ({"lr": lambda step, rate: rate * (np.e if step >= 100 else 1.0)}, "step of the rate", 1.0),
    ],
)
def test_a_change_is_decided_on_at_the_border_after_it(changes, name, value):
    found = looks(history(200, **changes))
    assert min(found) == 110
    assert len(found) <= LOOKS
    assert found[110][name] == pytest.approx(value, abs=1e-6)
    assert found[110]["look"] == 1
    assert all(np.isfinite(list(seen.values())).all() for seen in found.values())


def test_the_beginning_is_let_be_and_missing_signals_are_no_change():
    assert looks(history(200, loss=lambda step, loss: loss + (step >= 100)), planned=1000) == {}
    assert looks(history(200, grad_norm=lambda *_: None, lr=lambda *_: None)) == {}
    assert looks(history(200, loss=lambda *_: None)) == {}


def test_borders_need_not_be_of_ten_steps():
    found = looks(history(200, loss=lambda step, loss: loss + (step >= 100)), block=7)
    assert min(found) == 105


def moments(shipped_data, count=24):
    """Two situations, in each of which another action is right, and a third in which none is."""
    draws = np.random.default_rng(0)
    runs = (cases(shipped_data, ["test"], "common") * count)[:count]
    kind = np.arange(count) % 3
    seen = draws.normal(size=(count, len(names(CALLS))))
    seen[:, 0] = kind
    reward = np.full((count, len(training.ACTIONS)), -0.2)
    reward[kind == 0, 2] = 2.0
    reward[kind == 1, 4] = 1.0
    return training.Moments(runs, seen, reward, reward < -1.0, np.arange(count))


@pytest.fixture(scope="module")
def model(shipped):
    return training.fit(moments(shipped), CALLS, {"plan": "small"})


def test_the_right_action_is_chosen_and_none_where_none_pays(model):
    for kind, action in ((0, training.ACTIONS[2]), (1, training.ACTIONS[4]), (2, None)):
        row = np.zeros(len(names(CALLS)))
        row[0] = kind
        assert model.choose(row) == action
    assert model.about["hindsight"] == {"earned": 24.0, "acted": 11, "harmed": 0}
    assert model.about["held_out"]["scenario"]["earned"] == pytest.approx(24.0)
    assert 16.0 < model.about["held_out"]["seed"]["earned"] <= 24.0  # half of the runs are held out


def test_trees_promise_what_the_fitted_ones_do(shipped):
    found = moments(shipped)
    trees = training._fitted(found.seen, found.reward)
    fitted = ExtraTreesRegressor(**training.FOREST).fit(found.seen.astype(np.float32), found.reward)
    rows = np.random.default_rng(1).normal(size=(50, found.seen.shape[1])).astype(np.float32)
    np.testing.assert_allclose([trees(row) for row in rows], fitted.predict(rows), atol=1e-6)


def test_a_policy_is_the_same_when_it_is_read_again(model, tmp_path):
    write_model(tmp_path / "a.npz", model)
    again = read_model(tmp_path / "a.npz")
    write_model(tmp_path / "b.npz", again)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    row = np.linspace(-1, 1, len(names(CALLS)))
    assert (again.trees(row) == model.trees(row)).all()
    assert (again.actions, again.margin, again.calls, again.about) == (
        model.actions, model.margin, CALLS, model.about
    )  # fmt: skip


def altered(model, **arrays):
    """The bytes of a file with other arrays in it."""
    facts = {"format": "trainwreck-policy", "version": 1, "margin": 0.0, "calls": CALLS, "about": {}}
    facts = facts | {"actions": list(model.actions)} | arrays.pop("facts", {})
    own = {name: getattr(model.trees, name) for name in ("roots", "feature", "threshold", "left", "right", "value")}
    text = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    file = io.BytesIO()
    np.savez(file, **{"facts": text, **own, **arrays})
    return file.getvalue()


def test_a_file_of_something_else_is_refused(model, tmp_path):
    path = tmp_path / "mine.npz"
    with pytest.raises(InputError, match="missing"):
        with_weights(path)
    back = np.zeros_like(model.trees.left)  # a node that leads to an earlier one: no way would end
    for content in (
        b"",
        b"PK\x03\x04",
        altered(model, facts={"format": "other"}),
        altered(model, facts={"actions": ["stop"]}),
        altered(model, left=back),
        altered(model, feature=np.full_like(model.trees.feature, 10_000)),
        altered(model, value=model.trees.value[:-1]),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"damaged, or not what `trainwreck rescue DIR --learn` writes"):
            with_weights(path)
    path.write_bytes(altered(model, facts={"version": 2}))
    with pytest.raises(InputError, match="version 2 is not allowed; allowed: 1; learn it again"):
        with_weights(path)
    path.write_bytes(altered(model))
    assert with_weights(path).name == "learned"


class Always:
    """Trees that promise a nat for the third action, everywhere."""

    def __call__(self, row):
        return np.eye(len(training.ACTIONS))[2]


def test_it_acts_once_and_names_what_playbook_names():
    model = Model(Always(), training.ACTIONS, 0.5, CALLS, {})
    policy = type("Mine", (Learned,), {"weights": model})()
    rows = history(200, loss=lambda step, loss: np.nan if step >= 105 else loss)
    chosen = {}
    for step in range(0, 200, 10):
        chosen[step] = policy.act(Observation(step, 200, rows[step - 10 : step] if step else [], rows[:step], 0.0))
    assert {step: action for step, action in chosen.items() if action != "continue"} == {110: training.ACTIONS[2]}
    assert policy.causes
    policy.reset(1)
    assert policy.act(Observation(110, 200, rows[:110], rows[:110], 0.0)) == training.ACTIONS[2]
    timid = type("Mine", (Learned,), {"weights": Model(Always(), training.ACTIONS, 1.0, CALLS, {})})()
    assert timid.act(Observation(110, 200, rows[:110], rows[:110], 0.0)) == "continue"


def test_the_shipped_policy_is_of_the_train_split_of_the_plan():
    model = shipped()
    assert set(training.ACTIONS) <= {str(action) for action in TABLE}
    assert model.actions == training.ACTIONS
    assert model.about["plan"] == "rescue"
    assert set(model.about["seeds"]) == set(TRAIN_SEEDS)
    assert not set(model.about["seeds"]) & set(SEEDS)
    assert set(TRAINED) <= set(model.about["scenarios"])
    assert not set(HELD_OUT) & set(model.about["scenarios"])
    assert len(SEEN) < len(names(model.calls))


@pytest.fixture
def few(shipped, monkeypatch):
    """Two causes on two seeds of the train split, and a healthy run; two actions."""
    every = cases(shipped, ["train"], "common", 50)
    wanted = ("gradients_not_cleared", "corrupt_tokens")
    found = [case for case in every if case.spec.scenario in wanted and case.spec.seed < 2002]
    monkeypatch.setattr(training, "cases", lambda *_: found)
    monkeypatch.setattr(training, "ACTIONS", ("stop", "restore=data"))
    return found


def test_training_tries_every_action_and_goes_on_from_what_was_kept(few, shipped, tmp_path, monkeypatch):
    path = tmp_path / "episodes.jsonl"
    model = training.learn(shipped, "common", 50, training.kept_episodes(path, "common", 50))
    assert model.about["runs"] == {"failing": 4, "healthy": 4}
    assert model.about["moments"] >= 4
    content = path.read_text()
    tried = [json.loads(line) for line in content.splitlines()[1:]]
    assert {one["name"] for one in tried if "name" in one} == {"stop", "restore=data"}
    assert sum("name" in one for one in tried) == 2 * model.about["moments"]
    write_model(tmp_path / "whole.npz", model)

    half = content.splitlines(keepends=True)
    path.write_text("".join(half[:-2]) + half[-2][:40])  # killed while a line was written
    again = training.learn(shipped, "common", 50, training.kept_episodes(path, "common", 50))
    write_model(tmp_path / "resumed.npz", again)
    assert (tmp_path / "resumed.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert sorted(path.read_text().splitlines()) == sorted(content.splitlines())

    def trained(*_):
        raise AssertionError

    monkeypatch.setattr(courses, "advance", trained)
    training.learn(shipped, "common", 50, training.kept_episodes(path, "common", 50))
    with pytest.raises(InputError, match="or another --out"):
        training.kept_episodes(path, "full", 50)


def test_too_little_to_learn_from_is_refused(few, shipped, monkeypatch):
    monkeypatch.setattr(training, "cases", lambda *_: [case for case in few if case.spec.seed == 2000])
    with pytest.raises(InputError, match="failing runs of 1 seeds in the split 'train' are too few; allowed: 2 seeds"):
        training.learn(shipped, "common", 50)
    monkeypatch.setattr(training, "cases", lambda *_: [])
    with pytest.raises(InputError, match="failing runs of 0 scenarios"):
        training.learn(shipped, "common", 50)
