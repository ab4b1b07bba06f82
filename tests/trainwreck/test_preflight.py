"""`trainwreck preflight` on a user's own code, and on the catalogue."""

import json

import pytest

import trainwreck

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 16)

    def forward(self, ids):
        return self.head(self.token(ids))
"""
FACTORY = """
import torch
from net import Model

tokens = torch.arange(16).repeat(4, 1)

def make():
    return Model(), tokens[:, :-1], tokens[:, 1:]

def shifted():
    return Model(), tokens[:, :-2], tokens[:, 2:]

def in_full():
    import trainwreck
    return trainwreck.Preflight(*make(), vocab_size=12)

def nothing():
    return None

def raises():
    raise SystemExit(3)

unready = 3
"""


@pytest.fixture
def code(here, monkeypatch):
    """A package and a file of a user's in the current folder, forgotten afterwards."""
    (here / "mine").mkdir()
    (here / "mine" / "net.py").write_text(MODEL, encoding="utf-8")
    (here / "mine" / "setup.py").write_text(FACTORY, encoding="utf-8")
    (here / "own_factory.py").write_text(FACTORY.replace("from net", "from own_net"), encoding="utf-8")
    (here / "own_net.py").write_text(MODEL, encoding="utf-8")
    import sys

    for name in ("net", "own_net", "own_factory"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield here
    for name in ("net", "own_net", "own_factory"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("target", ["mine/setup.py:make", "own_factory:make"])
def test_a_sound_start_passes(target, call, code):
    result = call("preflight", target, "--json")
    found = {f["check"]: f["verdict"] for f in json.loads(result.out)}
    assert result.code == 0, result.out
    assert found.pop("end_is_scored") == "not applicable"  # it names no end token
    assert found.pop("tied_weights_are_one") == "not applicable"  # nor tied weights
    assert found.pop("adapters_get_gradients") == "not applicable"  # it has none
    assert set(found.values()) == {"pass"}
    assert len(found) == 10
    assert result.err == ""


def test_a_start_that_is_not(call, code):
    result = call("preflight", "mine/setup.py:shifted")
    assert result.code == 1
    assert (
        "targets[t] is inputs[t+1] for 0.0% of 56 scored targets, but inputs[t+2] for 100.0%: off by +1" in result.out
    )
    full = call("preflight", "mine/setup.py:in_full", "--check", "token_ids_in_range", "--json")
    assert full.code == 1
    (found,) = json.loads(full.out)
    assert found["verdict"] == "fail"
    assert found["source"]


def test_the_interface_has_the_class():
    from trainwreck.scenarios.preflight import Preflight

    assert trainwreck.Preflight is Preflight


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["mine/setup.py:makes"], ["factory mine/setup.py", "no function 'makes'"]),
        (["mine/setup.py:unready"], ["no function 'unready'"]),
        (["mine/steup.py:make"], ["factory mine/steup.py: no such file"]),
        (["no_such_package:make"], ["factory no_such_package: does not import", "ModuleNotFoundError"]),
        (["mine/setup.py:make()"], ["factory: 'mine/setup.py:make()'", "file.py:function"]),
        (["mine/setup.py:nothing"], ["factory: returns NoneType", "(model, inputs, targets)"]),
        (["mine/setup.py:raises"], ["factory mine/setup.py:raises: raised SystemExit: 3"]),
        (
            ["mine/setup.py:make", "--check", "labels_algined"],
            ["check: 'labels_algined'", "did you mean 'labels_aligned'?"],
        ),
        (["mine/setup.py:make", "steps=3"], ["takes no settings"]),
        (["hihg_lr"], ["scenario: 'hihg_lr'", "did you mean 'high_lr'?"]),
        (["high_lr", "stesp=3"], ["'stesp'", "did you mean 'steps'?"]),
        ([], ["target: one of TARGET and --all"]),
        (["high_lr", "--all"], ["target: one of TARGET and --all"]),
        (["high_lr", "--record"], ["--record"]),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line(words, parts, call, code):
    result = call("preflight", *words)
    assert result.code == 2
    assert result.out == ""
    (line,) = result.err.splitlines()
    assert line.startswith("trainwreck: ")
    for part in parts:
        assert part in line


def test_a_scenario(call, tiny):
    result = call("preflight", "corrupt_tokens", *tiny, "--check", "token_ids_in_range", "--json")
    found = json.loads(result.out)
    assert result.code == 1
    assert [f["verdict"] for f in found["faulty"]] == ["fail"]
    assert [f["verdict"] for f in found["twin"]] == ["pass"]
    text = call("preflight", "mask_zeroed", *tiny, "--check", "token_ids_in_range")
    assert text.code == 0
    assert "before step" in text.out


def test_all_of_them(call, monkeypatch, tmp_path):
    from trainwreck.scenarios.preflight import table

    one = table.examine("corrupt_tokens", overrides=("steps=24",), names=["token_ids_in_range"])
    monkeypatch.setattr(table, "examine", lambda name, **where: one)
    monkeypatch.chdir(tmp_path)
    result = call("preflight", "--all", "--record")
    assert result.code == 0
    assert result.out.count("| `corrupt_tokens`, clear |") > 10
    assert (tmp_path / "results" / "preflight" / "README.md").is_file()
