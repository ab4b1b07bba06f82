"""Packed telemetry is unpacked bitwise where nothing was rounded, and within the stated error elsewhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trainwreck.evaluation.pages.gallery.pack import COARSE, FINE, Column, codes, pack, thinned

WILD = np.array([[0.0, -0.0, 1.0, -1.0, 3.3895e38, -3.4e38, 1e-45, np.inf, -np.inf, np.nan, 5.0]], np.float32)


def column(values, bits=FINE, gap=None):
    values = np.asarray(values, np.float32)
    return Column("x", values, np.zeros(values.shape[1], bool) if gap is None else gap, bits)


@pytest.mark.parametrize("bits", [FINE, COARSE])
def test_numbers_come_back_within_half_a_unit_of_their_last_bit(unpacked, bits):
    values = np.random.default_rng(0).lognormal(0.0, 5.0, (3, 200)).astype(np.float32)
    values[1] *= -1
    back = unpacked(pack([column(values, bits)], {}))["x"]["numbers"]
    assert (np.abs(back - values) <= np.abs(values) * 2.0 ** -(bits + 1)).all()
    assert not (np.abs(back - values) <= np.abs(values) * 2.0 ** -(bits + 4)).all()


def test_what_is_not_finite_stays_so_and_nothing_else_becomes_it(unpacked):
    back = unpacked(pack([column(WILD)], {}))["x"]["numbers"][0]
    assert np.isnan(back[9])
    assert back[7] == np.inf
    assert back[8] == -np.inf
    assert np.isfinite(np.delete(back, [7, 8, 9])).all()
    assert back[10] == 5.0


def test_gaps_are_told_from_nan(unpacked):
    gap = np.array([True, False, False])
    back = unpacked(pack([column([[np.nan, np.nan, 2.0]], gap=gap)], {}))["x"]
    assert back["gap"][0].tolist() == [True, False, False]
    assert np.isnan(back["numbers"][0][1])


@given(arrays(np.float32, st.tuples(st.integers(1, 3), st.integers(1, 12))), st.data())
def test_codes_are_in_the_order_of_the_numbers(values, data):
    found, flat = codes(column(values)).ravel(), values.ravel()
    finite = ~np.isnan(flat)
    order = np.argsort(flat[finite], kind="stable")
    assert (np.diff(found[finite][order]) >= 0).all()


def test_a_run_is_read_back_through_its_twin_of_another_length(unpacked):
    random = np.random.default_rng(1)
    noise = random.normal(0.0, 0.3, (2, 80)).astype(np.float32)
    twin, faulty = column(4.0 + noise[:, :60]), column(4.0 + noise)
    faulty.values[:, 30:] *= 1.5
    known = {"x": codes(twin)}
    text = pack([faulty], known)
    first = unpacked(pack([twin], {}))
    back = unpacked(text, first)["x"]
    assert back["twin"]
    assert np.array_equal(back["codes"], codes(faulty))
    assert len(text) < 0.8 * len(pack([faulty], {}))


def test_the_twin_is_left_aside_where_it_does_not_help(unpacked):
    random = np.random.default_rng(2)
    twin, other = column(random.lognormal(0, 2, (1, 90))), column(np.full((1, 90), 3.0))
    text = pack([other], {"x": codes(twin)})
    assert not unpacked(text)["x"]["twin"]


def test_a_thinned_row_keeps_its_extremes_and_its_first_nan():
    values = np.full((1, 64), 2.0, np.float32)
    values[0, 13], values[0, 38], values[0, 51] = 90.0, 0.01, np.nan
    kept = thinned(column(values), 4, positive=True)
    assert kept.every == 4
    assert kept.values.shape == (1, 16)
    assert kept.values[0, 3] == 90.0
    assert kept.values[0, 9] == np.float32(0.01)
    assert np.isnan(kept.values[0, 12])


def test_thinning_two_runs_that_agree_so_far_keeps_the_same_steps_of_both():
    random = np.random.default_rng(3)
    one = random.lognormal(0, 1, (3, 100)).astype(np.float32)
    other = one.copy()
    other[:, 60:] += 7.0
    a, b = thinned(column(one), 4, positive=True), thinned(column(other), 4, positive=True)
    assert np.array_equal(a.values[:, :15], b.values[:, :15])
    assert not np.array_equal(a.values[:, 15:], b.values[:, 15:])
