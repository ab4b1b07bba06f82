"""`audit`, `equivalence` and `diff` as a user calls them."""

import json
import shutil

import pytest

from trainwreck.evaluation.audits.confusable.record import page
from trainwreck.evaluation.audits.leak_features import CHANNELS
from trainwreck.evaluation.audits.leakage import LEAKS, UNKNOWN, Audit, Channel
from trainwreck.evaluation.dataset.dataset import load, write_manifest, write_telemetry
from trainwreck.evaluation.replay.profiles import PROFILES


def test_audit_of_a_small_data_set(call, data_set):
    result = call("audit", data_set, "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert [one["name"] for one in found["channels"]] == list(CHANNELS)
    assert {one["verdict"] for one in found["channels"]} == {UNKNOWN}  # two seeds are no evidence
    assert not found["leaks"]
    text = call("audit", data_set)
    assert text.code == 0
    assert all(name in text.out for name in CHANNELS)


PAIR = {"won": 0.5, "low": 0.1, "high": 0.9, "t": 0.0, "p": 0.5}
FOUND = {
    "causes": ["a", "b", "c"],
    "left_out": {"d": "failing runs of 3 seeds; 8 are needed"},
    "runs": 72,
    "folds": 8,
    "rate": 0.05,
    "profiles": {
        "full": {
            "sets": [["a", "b"]], "undetectable": ["c"], "pairs": 3, "separated": 2,
            "not_separated": [PAIR | {"a": "a", "b": "b", "one_set": True}], "doubtful": [],
            "detection": {}, "control": {"pairs": 0, "share": None, "strangers": 0, "strangers_t": None},
        }
    },
}  # fmt: skip


def test_equivalence_prints_what_was_found(call, data_set, monkeypatch):
    """What is measured has tests of its own; this is the way from there to the user."""
    requests = []

    def measured(datasets, profiles, tick):
        requests.append(([len(one) for one in datasets], tuple(profiles)))
        return FOUND

    monkeypatch.setattr("trainwreck.evaluation.audits.confusable.equivalence.equivalence", measured)
    result = call("equivalence", data_set, data_set, "--json")
    assert json.loads(result.out) == FOUND
    assert requests == [([len(load(data_set))] * 2, tuple(PROFILES))]
    text = call("equivalence", data_set, "--profile", "full")
    assert text.out.strip() == page(FOUND, "trainwreck equivalence").strip()
    assert requests[1][1] == ("full",)
    for part in (
        "- `a`, `b`",
        "Not detected: `c`.",
        "- `d`: failing runs of 3 seeds",
        "| full | 3 | 2 | 0 | 1 | 2 | 1 | - of 0 |",
    ):
        assert part in text.out


def leaking(dataset, tick):
    base = {"base": "b1", "failing": 9, "healthy": 1, "look_alike": 0, "lacking": 8, "scenarios": ["w", "x", "y", "z"]}
    channel = Channel("row_zero", "blind", 9, 1, 0, 0.9, 0.8, 1.0, 0.001, LEAKS)
    return Audit((channel,), (base,), {"causes": 4, "from_base": 0.5, "prior": 0.25}, {"runs": 10})


def test_a_leak_is_told_by_the_exit_code(call, data_set, monkeypatch):
    monkeypatch.setattr("trainwreck.evaluation.audits.leakage.audit", leaking)
    result = call("audit", data_set)
    assert result.code == 1
    assert (
        "plan: as many healthy and look-alike runs as failing ones for every base; 8 are lacking on 1 of 1"
        in result.out
    )
    assert "w, x, y and 1 more" in result.out
    found = call("audit", data_set, "--json")
    assert (found.code, json.loads(found.out)["leaks"]) == (1, True)


def test_equivalence_refuses_too_few_seeds(call, data_set, here):
    result = call("equivalence", data_set)
    assert (result.code, result.out) == (2, "")
    assert result.err == "trainwreck: data sets: no cause has failing runs of 8 seeds on bases with 8 healthy runs\n"
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["audit", "nowhere"], "'nowhere' is not a folder"),
        (["equivalence", "nowhere"], "'nowhere' is not a folder"),
        (["equivalence", "DATA", "--profile", "minimall"], "did you mean 'minimal'?"),
        (["equivalence", "DATA", "--record", "--profile", "full"], "--record"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line(words, part, call, data_set, here):
    result = call(*(data_set if word == "DATA" else word for word in words))
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
    assert part in result.err
    assert list(here.iterdir()) == []


def test_diff_of_a_data_set_with_itself_and_with_one_that_was_changed(call, data_set, tmp_path):
    result = call("diff", data_set, data_set)
    runs = len(load(data_set))
    assert (result.code, f"{runs} of {runs} runs are bitwise identical" in result.out) == (0, True), result.err
    other = shutil.copytree(data_set, tmp_path / "other")
    data = load(other)
    victim = str(data.runs["run_id"].iloc[0])
    facts = {k: v for k, v in data.manifest.items() if k not in ("files", "format", "schema_version")}
    for name, rows in data.runs.groupby("file"):
        traces = [data.trace(run_id) for run_id in rows["run_id"]]
        for trace in traces:
            trace.signals["loss"][5] += 0.5 * (trace.run_id == victim)
        write_telemetry(other, name, traces)
    write_manifest(other, facts | {"environment": {**facts["environment"], "torch": "0.0"}})
    result = call("diff", data_set, other, "--json")
    assert result.code == 1, result.err
    found = json.loads(result.out)
    assert (found["runs"], found["identical"], found["only_in_first"]) == (runs, runs - 1, [])
    (only,) = found["differences"]
    assert (only["run_id"], only["step"], only["signal"], only["changed"]) == (victim, 5, "loss", ["torch"])
    assert only["loss_difference"] == pytest.approx(0.5, rel=1e-5)
    assert found["first_steps"] == [5, 5, 5]
    assert (found["kinds"], found["visible"], found["no_return"]) == (0, 0, 0)
    text = call("diff", data_set, other)
    assert text.code == 1
    assert all(word in text.out for word in (victim, f"{runs - 1} of {runs} runs", "environments differ in: torch"))
    assert "the others differ from step 5 on (median; 5 to 5)" in text.out
    assert f"kind in 0 of {runs} runs" in text.out


def test_the_sample_goes_by_its_name(call, here):
    every = len(load("sample"))
    assert call("diff", "sample", "sample").out.endswith(f"{every} of {every} runs are bitwise identical\n")
    call("equivalence", "sample").refused("no cause has failing runs of 8 seeds")
    call("audit", "nowhere").refused("'nowhere' is not a folder")
