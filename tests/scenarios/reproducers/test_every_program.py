"""Every program whole, as anyone would run it. `make reproducers` runs these; what has been run is not run again."""

import dataclasses

import pytest

from trainwreck.scenarios.bench.claims.reproducers import kept, setting
from trainwreck.scenarios.bench.claims.starts import kept_starts
from trainwreck.scenarios.reproducers import agreement
from trainwreck.scenarios.reproducers.agreement import check, check_starts
from trainwreck.scenarios.reproducers.margin import CLOSE
from trainwreck.scenarios.reproducers.program import Program
from trainwreck.scenarios.spec.registry import scenarios

LIMIT = 60.0  # seconds of one core
SAFE = 0.9  # tolerances


def test_a_whole_program_exits_with_0_and_agrees(tmp_path):
    found = check("batchnorm_in_transformer", tmp_path)
    assert found.exit_code == 0
    assert found.seconds < LIMIT
    assert found.steady
    assert found.lab.difference < 0.1
    before = (tmp_path / "batchnorm_in_transformer.json").stat().st_mtime_ns
    assert check("batchnorm_in_transformer", tmp_path) == found
    assert (tmp_path / "batchnorm_in_transformer.json").stat().st_mtime_ns == before  # it was not run again


def test_a_program_is_not_run_again_to_be_compared(tmp_path, monkeypatch):
    short = Program("high_lr", overrides=("steps=3", "evaluation.rows=4"))
    monkeypatch.setattr(agreement, "Program", lambda _: short)
    alone = check("high_lr", tmp_path, beside_lab=False)
    assert alone.lab is None
    monkeypatch.setattr(agreement.subprocess, "run", lambda *_, **__: pytest.fail("it was run again"))
    found = check("high_lr", tmp_path)
    assert found.lab.all_steps == found.lab.close_for == 3
    assert dataclasses.replace(found, lab=None) == alone
    assert not list(tmp_path.glob("*.npz"))


@pytest.mark.reproducers
@pytest.mark.parametrize("id", scenarios())
def test_every_program(id):
    found = check(id, kept(setting()))
    assert found.exit_code == 0
    assert found.gap < SAFE
    assert found.lines < 250
    assert found.seconds < LIMIT
    assert found.lab.agreement == "signature" or found.lab.difference <= CLOSE
    assert found.lab.close_for >= 2  # the same start, to the rounding


@pytest.mark.reproducers
@pytest.mark.parametrize("id", scenarios())
def test_the_outcome_does_not_hang_on_last_bits(id):
    found = check_starts(id, kept_starts(setting()))
    assert found.held == found.count, found
