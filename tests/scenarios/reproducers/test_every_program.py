"""Every program whole, as anyone would run it. `make reproducers` runs these; what has been run is not run again."""

import pytest

from trainwreck.scenarios.bench.claims.reproducers import KEPT
from trainwreck.scenarios.reproducers.agreement import CLOSE, check
from trainwreck.scenarios.spec.registry import scenarios

LIMIT = 60.0  # seconds of one core


def test_a_whole_program_exits_with_0_and_agrees(tmp_path):
    found = check("batchnorm_in_transformer", tmp_path)
    assert found.exit_code == 0
    assert found.seconds < LIMIT
    assert found.difference < 0.1
    before = (tmp_path / "batchnorm_in_transformer.json").stat().st_mtime_ns
    assert check("batchnorm_in_transformer", tmp_path) == found
    assert (tmp_path / "batchnorm_in_transformer.json").stat().st_mtime_ns == before  # it was not run again


@pytest.mark.reproducers
@pytest.mark.parametrize("id", scenarios())
def test_every_program(id):
    found = check(id, KEPT)
    assert found.exit_code == 0
    assert found.lines < 250
    assert found.seconds < LIMIT
    assert found.agreement == "signature" or found.difference <= CLOSE
    assert found.close_for >= 2  # the same start, to the rounding
