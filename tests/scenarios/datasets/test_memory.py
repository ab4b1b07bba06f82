"""What a bundle is said to take is what it takes, and memory decides how many of its runs are held side by side."""

import dataclasses

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.bench.footprint import footprint, setups
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.datasets.cost import core_seconds
from trainwreck.scenarios.datasets.memory import FACTOR, MIB, PROCESS, SOURCES, needed, width_within
from trainwreck.scenarios.spec.run_spec import Role, family_of


@pytest.fixture(scope="module")
def specs():
    return family_of("mask_missing", range(16), roles=[Role.FAULTY])


def test_the_peak_of_a_bundle_is_as_estimated():
    """One shape; `trainwreck bench footprint` has the other shapes."""
    base, runs, steps = "micro", 4, 20
    took = footprint(base, runs, steps).peak
    estimate = needed(setups(base, runs, steps), runs)
    assert 1 / FACTOR < estimate / took < FACTOR
    own = PROCESS + SOURCES
    assert (took - own) > 50 * MIB
    assert 1 / FACTOR < (estimate - own) / (took - own) < FACTOR


def test_more_of_anything_takes_more():
    setup = healthy(Size.MICRO)
    base = needed([setup] * 4, 4)
    for path, value in {
        "model.width": 128, "model.layers": 4, "model.context": 128, "model.vocab_size": 256, "data.rows": 48,
        "distributed.ranks": 2, "steps": 4000,
    }.items():  # fmt: skip
        assert needed([replaced(setup, **{path.replace(".", "__"): value})] * 4, 4) > base
        assert core_seconds([replaced(setup, **{path.replace(".", "__"): value})] * 4) >= core_seconds([setup] * 4)
    assert needed([setup] * 8, 8) > base > needed([setup] * 4, 2) > needed([setup] * 4, 1)


def test_the_width_is_the_largest_half_that_fits(specs):
    setups = [spec.setup for spec in specs]
    for width in (16, 8, 4, 2, 1):
        assert width_within(specs, needed(setups, width)) == width
        assert needed(setups, width_within(specs, needed(setups, width) + MIB)) <= needed(setups, width) + MIB
    assert width_within(specs, None) == 16


def test_no_room_for_one_run_is_one_line(specs):
    with pytest.raises(InputError, match=r"^memory: 0\.10 GiB a worker is not allowed for a run of mask_missing at"):
        width_within(specs, int(0.1 * 2**30))


def test_estimates_weigh_the_runs_of_a_bundle(specs):
    setup = specs[0].setup
    assert core_seconds([setup] * 8) > core_seconds([setup] * 4) > core_seconds([setup])
    longer = dataclasses.replace(setup, steps=2 * setup.steps)
    assert core_seconds([longer] * 4) == pytest.approx(2 * core_seconds([setup] * 4))
