"""`reproducer` as a user calls it."""

import ast
import json

from trainwreck.scenarios.reproducers.program import Program
from trainwreck.scenarios.reproducers.text import text as program_text
from trainwreck.scenarios.spec.scenario import Severity


def test_a_scenario_is_one_file(call, here):
    result = call("reproducer", "high_lr")
    assert (result.code, result.out) == (0, "high_lr.py\n"), result.err
    text = (here / "high_lr.py").read_text(encoding="utf-8")
    ast.parse(text)
    assert text == program_text(Program("high_lr"))
    result = call("reproducer", "high_lr", "--seed", 3, "--severity", "severe", "--out", "other.py", "--json")
    assert json.loads(result.out) == {"scenario": "high_lr", "file": "other.py"}
    assert (here / "other.py").read_text(encoding="utf-8") == program_text(Program("high_lr", 3, Severity.SEVERE))


def test_a_file_that_is_there_stays_without_force(call, here):
    (here / "mask_missing.py").write_text("mine\n", encoding="utf-8")
    call("reproducer", "mask_missing").refused("'mask_missing.py' exists", "--force")
    assert (here / "mask_missing.py").read_text(encoding="utf-8") == "mine\n"
    assert call("reproducer", "mask_missing", "--force").code == 0
    assert "mine" not in (here / "mask_missing.py").read_text(encoding="utf-8").splitlines()


def test_what_is_no_proven_scenario_is_refused_and_nothing_is_written(call, here):
    call("reproducer", "high_lrr").refused("did you mean 'high_lr'?")
    call("reproducer", "score_dropout").refused("documented but not proven")
    call("reproducer", "high_lr+label_noise").refused("single scenarios")
    call("reproducer", "mask_missing", "--severity", "clear").refused("it has no scale")
    call("reproducer", "mask_missing", "--severity", "clearer").refused("'clearer'", "clear")
    call("reproducer", "mask_missing", "r1").refused("unexpected extra argument (r1)")
    assert list(here.iterdir()) == []
