"""JSON Lines, and the state file of the Transformers Trainer."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from trainwreck.evaluation.errors import InputError


def test_lines_may_differ_and_nest(read_text: Any) -> None:
    lines = [
        '{"step": 1, "train": {"loss": 2.5}, "layer_grad_norm": [1.0, NaN]}',
        "",
        '{"step": 2.0, "train": {"loss": "NaN"}, "eval_loss": "1e2", "text": {"a": ["b"]}}',
        '{"step": "3", "train": {"loss": -Infinity}, "skipped": true, "eval_loss": null}',
        '{"step": 4, "train": {"lo',
    ]
    trace, account, log = read_text("\n".join(lines), name="run.jsonl")
    assert trace.steps.tolist() == [1, 2, 3]
    assert repr(trace["loss"].tolist()) == "[2.5, nan, -inf]"
    assert repr(trace["layer_grad_norm"][0].tolist()) == "[1.0, nan]"
    assert trace.logged["layer_grad_norm"].tolist() == [True, False, False]
    assert trace.evaluated.tolist() == [False, True, False]
    assert trace["validation_loss"][1] == 100.0
    assert trace["skipped"][2] == 1.0
    assert log.rules == {"cut off last line": 1}
    assert log.choice.ignored == {"text/a/0": "no known signal"}
    assert account["layer_grad_norm"]["points"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"step": 1, "loss": 2}\n{"step": 2, "lo\n', "line 2: not JSON"),
        ('{"step": 1, "loss": 2}\n[1]\n', "line 2: not a JSON object"),
        ('{"step": 1, "loss": 2}\n{"step": 2, "loss": "2,5"}\n', "line 2: column 'loss': '2,5' is not a number"),
        ('{"step": 1, "loss": 2}\n{"loss": 3}\n', "line 2: column 'step' is empty"),
        ('{"step": true, "loss": 2}\n', "line 1: column 'step': step 'True' is not a whole number"),
        ("\n", "empty"),
    ],
)
def test_lines_that_are_refused(text: str, message: str, read_text: Any) -> None:
    with pytest.raises(InputError) as error:
        read_text(text, name="run.jsonl")
    assert message in str(error.value)


HISTORY = [
    {"loss": 2.5, "grad_norm": 1.5, "learning_rate": 1e-3, "epoch": 0.1, "step": 10},
    {"eval_loss": 2.25, "eval_runtime": 1.0, "epoch": 0.1, "step": 10},
    {"loss": math.nan, "grad_norm": math.nan, "learning_rate": 5e-4, "epoch": 0.2, "step": 20},
    {"train_runtime": 60.0, "train_loss": 9.0, "epoch": 0.2, "step": 20},
]


def state(folder: Path, history: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"global_step": 20, "log_history": history}
    (folder / "trainer_state.json").write_text(json.dumps(content), encoding="utf-8")


def test_the_trainers_history_without_its_summary(tmp_path: Path, read_one: Any) -> None:
    state(tmp_path, HISTORY)
    trace, _, log = read_one(tmp_path / "trainer_state.json")
    assert log.format == "trainer_state"
    assert trace.steps.tolist() == [10, 20]
    assert repr(trace["loss"].tolist()) == "[2.5, nan]"
    assert trace.evaluations[0].tolist() == [10]
    assert trace.evaluations[1].tolist() == [2.25]
    assert log.rules == {"summaries left out": 1}
    assert set(log.choice.ignored) == {"epoch", "eval_runtime"}


def test_of_an_output_folder_the_last_checkpoint_is_read(tmp_path: Path, read_one: Any) -> None:
    for step in (900, 1000, 20):
        state(tmp_path / f"checkpoint-{step}", [{"loss": 1.0, "step": step}])
    trace, _, log = read_one(tmp_path)
    assert (log.format, trace.steps.tolist()) == ("trainer_state", [1000])
    state(tmp_path, [{"loss": 1.0, "step": 7}])
    assert read_one(tmp_path)[0].steps.tolist() == [7]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "damaged, not JSON"),
        ("[1]", "no list under 'log_history'"),
        ('{"log_history": 3}', "no list under 'log_history'"),
        ('{"log_history": [3]}', "log_history[0]: not a JSON object"),
        ('{"log_history": []}', "nothing is logged"),
        ('{"log_history": [{"step": 1, "loss": 2}, {"step": 2, "loss": "x"}]}', "log_history[1]: column 'loss': 'x'"),
    ],
)
def test_states_that_are_refused(content: str, message: str, tmp_path: Path, read_one: Any) -> None:
    (tmp_path / "trainer_state.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_one(tmp_path / "trainer_state.json")
    assert message in str(error.value)
