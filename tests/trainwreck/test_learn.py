"""`learn` as a user calls it."""

import json

import pytest

from trainwreck.evaluation.detectors.learned.model import LogTrees, Model, read_model, shipped
from trainwreck.evaluation.replay.profiles import PROFILES

RECALL = {profile: {"recall_0.01": 0.25, "recall_0.05": 0.5} for profile in PROFILES}
ABOUT = {
    "data_set": "0" * 64, "plan": "small", "runs": {"failing": 12, "healthy": 6}, "seeds": [1, 2], "command": "-",
    "packages": {}, "held_out": {"recall": RECALL, "cause": 0.125},
}  # fmt: skip
LOGS = {
    "setups": 7,
    "data_sets": [{"runs": {"failing": 2, "healthy": 5}}, {"runs": {"failing": 1}}],
    "held_out": {"common": {"recall_0.01": 0.375, "recall_0.05": 0.625}},
}


@pytest.fixture
def trained(monkeypatch):
    """What is trained has tests of its own; this is the way from there to the user."""
    requests = []
    model = read_model(shipped())

    def learn(dataset, tick):
        requests.append(len(dataset))
        return Model(model.trees, model.head, 0.75, ABOUT)

    def learn_logs(datasets, tick):
        requests.append([len(dataset) for dataset in datasets])
        return LogTrees(model.trees, 1.5, LOGS)

    monkeypatch.setattr("trainwreck.evaluation.learning.training.learn", learn)
    monkeypatch.setattr("trainwreck.evaluation.learning.logs.learn_logs", learn_logs)
    return requests


def test_learn_writes_weights_and_says_what_they_do(call, data_set, here, trained):
    result = call("learn", data_set)
    assert result.code == 0, result.err
    assert trained == [16, [16]]
    assert read_model(here / "learned.npz").about == ABOUT
    assert read_model(here / "learned.npz").logs.about == LOGS
    for part in (
        *PROFILES,
        "common, trees for logs",
        "0.625",
        "in-time recall at 1%",
        "0.250",
        "0.500",
        "12% of the time",
        "from 12 failing, 6 healthy",
        "the trees for logs: from 3 failing, 5 healthy runs on 7 setups",
    ):
        assert part in result.out
    facts = json.loads(call("learn", data_set, "--out", "deep/mine.npz", "--json").out)
    assert facts["weights"] == "deep/mine.npz"
    assert facts["bytes"] == (here / "deep" / "mine.npz").stat().st_size
    assert facts["threshold"] == 0.75
    assert facts["held_out"] == ABOUT["held_out"]
    assert facts["logs"] == LOGS | {"threshold": 1.5}


def test_trees_for_logs_alone_and_of_several_data_sets(call, data_set, here, trained):
    result = call("learn", data_set, "--keep", shipped(), "--logs", data_set, "--out", "mine.npz", "--json")
    assert result.code == 0, result.err
    assert trained == [[16, 16]]
    kept, made = read_model(shipped()), read_model(here / "mine.npz")
    assert (made.about, made.threshold, made.logs.threshold) == (kept.about, kept.threshold, 1.5)
    assert (made.trees.value == kept.trees.value).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "mine.pkl"), "out: 'mine.pkl' is not allowed; allowed: a file that ends in .npz"),
        (("--out", "folder.npz"), "out: 'folder.npz' is not allowed"),
        (("--out", "file/mine.npz"), "out: 'file/mine.npz' can't be written"),
        (("--keep", "none.npz"), "none.npz: missing"),
        ((), "no split 'train', here are: calibration, test; allowed: a data set with one"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(call, data_set, here, words, message):
    (here / "folder.npz").mkdir()
    (here / "file").write_text("")
    result = call("learn", data_set, *words)
    assert result.code == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert sorted(path.name for path in here.iterdir()) == ["file", "folder.npz"]


def test_no_data_set(call, here):
    result = call("learn", "nowhere")
    assert result.code == 2
    assert "is not a folder" in result.err
