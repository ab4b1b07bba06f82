"""What goes over the wire to a policy is what the schema says, and strict JSON; and what it may answer."""

import json
import math
from importlib.resources import files

import jsonschema
import pytest

from trainwreck.evaluation.detectors.base import OutputError
from trainwreck.evaluation.replay.sandbox import messages as of_detectors
from trainwreck.evaluation.replay.sandbox.process import FailedError
from trainwreck.scenarios.rescue.observation import Observation
from trainwreck.scenarios.rescue.remote import messages
from trainwreck.scenarios.rescue.remote.runner import PolicyRunner

SCHEMA = json.loads((files("trainwreck.scenarios.rescue.remote") / "messages.schema.json").read_text(encoding="utf-8"))
ROW = {"step": 19, "loss": math.nan, "grad_norm": 0.1, "layer_grad_norm": [1.0, math.inf], "lr": None}
SEEN = Observation(20, 60, [ROW], [ROW], 0.25, True, "playbook: alarm at step 3; causes: high_lr")


def fits(value, name):
    return jsonschema.Draft202012Validator(SCHEMA | {"oneOf": [{"$ref": f"#/$defs/{name}"}]}).is_valid(value)


def strict(line):
    def refuse(word):
        raise AssertionError(word)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line, parse_constant=refuse)


def test_questions_are_what_the_schema_says():
    question = messages.observation(SEEN, ["loss", "grad_norm", "layer_grad_norm", "lr", "validation_loss"])
    for line in (of_detectors.hello(), messages.reset(2**63 - 1), question, messages.END):
        assert fits(strict(line), "question")
    (row,) = strict(question)["rows"]
    assert row == {
        "step": 19, "loss": "NaN", "grad_norm": 0.1, "layer_grad_norm": [1.0, "Infinity"], "lr": None,
        "validation_loss": None,
    }  # fmt: skip
    facts = {name: strict(question)[name] for name in ("step", "planned", "spent", "rolled_back", "answer")}
    assert Observation(rows=SEEN.rows, history=SEEN.history, **facts) == SEEN


def test_answers_of_a_python_policy_are_what_the_schema_says(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    rule = 'r'\n    causes = ('high_lr',)\n    def reset(self, seed):\n        self.seed = seed\n"
        "    def act(self, seen):\n        return f'rate={seen.history[0][\"grad_norm\"]}'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    answered = []
    questions = [of_detectors.hello(), messages.reset(5), messages.observation(SEEN, ["grad_norm"]), messages.END]
    PolicyRunner({"name": f"{tmp_path / 'mine.py'}:Mine"}, answered.append).serve(
        [*questions, b'{"type":"observation"}']
    )
    answers = [json.loads(line) for line in answered]
    assert all(fits(answer, "answer") for answer in answers)
    assert [answer["type"] for answer in answers] == ["hello", "ready", "action", "ended", "failed"]
    assert messages.action(answered[2].encode(), 20) == ("rate=0.1", ("high_lr",))
    assert messages.ended(answered[3].encode()) == ("high_lr",)


@pytest.mark.parametrize(
    ("answer", "error", "raised"),
    [
        ({"step": 10, "action": "stop"}, "step: '10' is not allowed; allowed: 20", FailedError),
        ({"step": True, "action": "stop"}, "step: 'true' is not allowed", FailedError),
        ({"step": 20}, "action: has no 'action'", FailedError),
        ({"step": 20, "action": "stop", "seed": 1}, "'seed' is not allowed", FailedError),
        ({"step": 20, "action": 7}, "action: '7' is not allowed", OutputError),
        ({"step": 20, "action": "x" * 201}, "allowed: a text of 200 characters", OutputError),
        ({"step": 20, "action": "stop", "causes": "high_lr"}, "allowed: a list of up to 20 cause ids", OutputError),
        ({"step": 20, "action": "stop", "causes": ["a"] * 21}, "allowed: a list of up to 20 cause ids", OutputError),
        ({"step": 20, "action": "stop", "causes": [1]}, "allowed: a list of up to 20 cause ids", OutputError),
    ],
)
def test_an_answer_that_is_no_action_is_told(answer, error, raised):
    line = json.dumps({"type": "action"} | answer).encode()
    with pytest.raises(raised) as found:
        messages.action(line, 20)
    assert error in str(found.value)
    if "seed" not in answer and "causes" not in answer and answer["step"] == 20:
        assert not fits(json.loads(line), "action")
