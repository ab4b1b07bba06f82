"""`generate` ends with identical checksums whatever is taken from it in the middle; ten times each, slow.

The command `trainwreck bench reliability --record` does the same and writes the table under results/.
"""

import random
import sys

import pytest

from trainwreck.scenarios.bench.claims.reliability import FAULTS, TIMES, disturbed, finish, finished

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="limits and mounts are Linux's"),
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("data") / "undisturbed"
    assert finish(out) == 1
    assert finished(out) > 4
    return out


@pytest.mark.parametrize("fault", FAULTS)
def test_it_ends_with_the_same_bytes(fault, undisturbed, tmp_path):
    draw = random.Random(fault)
    rounds = [disturbed(fault, tmp_path / str(i), draw.randrange(2**32), undisturbed) for i in range(TIMES)]
    assert [one.identical for one in rounds] == [True] * TIMES
    codes = {one.code for one in rounds}
    if fault in ("a worker killed", "out of memory"):
        assert codes == {0}  # it goes on by itself
        assert {one.calls for one in rounds} == {1}
    elif fault == "the parent killed":
        assert codes <= {0, -9}
        assert -9 in codes
    else:
        assert codes <= {0, 2}
        assert 2 in codes
        assert all("can't be written" in one.said for one in rounds if one.code == 2)
