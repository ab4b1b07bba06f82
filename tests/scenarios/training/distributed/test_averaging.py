"""What a rank makes of the gradients of all, for runs side by side."""

import dataclasses

import pytest
import torch

from trainwreck.models.parameters import Layout, Slot
from trainwreck.scenarios.spec.exchange import Exchange, square
from trainwreck.scenarios.training.distributed.averaging import Averaging

INF, NAN = torch.inf, torch.nan
HEALTHY = Exchange.healthy(2)
APART = dataclasses.replace(HEALTHY, hears=square(2, lambda r, q: r == q))
LATE = dataclasses.replace(HEALTHY, late=square(2, lambda r, q: r != q))
SUMMED = dataclasses.replace(HEALTHY, summed=True)
ALONE = dataclasses.replace(HEALTHY, alone=True)
NORMS_APART = dataclasses.replace(HEALTHY, unshared=(".gain",))
CLIPS_ALONE = dataclasses.replace(HEALTHY, clips_alone=True)
GAIN_LAST = Layout([Slot("head.weight", (1,), 0, 0.0, 1.0, True), Slot("final_norm.gain", (1,), 1, 1.0, 0.0, False)])


@pytest.fixture
def averaged(told):
    """Average and skipped runs on rank 0 of two, for gradients [N, P] and tokens [N] of both ranks."""

    def run(exchanges, grads, tokens, held=None):
        grads, tokens = torch.tensor(grads), torch.tensor(tokens)
        other = torch.cat((grads[1] * tokens[1, :, None], tokens[1, :, None]), 1)
        group = told(0, 2, others={1: other})
        averaging = Averaging(group, exchanges, GAIN_LAST, grads[0], held)
        average, norm = averaging.average(grads[0], tokens[0])
        skipped = averaging.overflow(~torch.isfinite(average.norm(dim=1)), norm)
        return average.tolist(), skipped.tolist(), averaging, group

    return run


def test_a_mean_weighted_by_tokens(averaged):
    average, skipped, *_ = averaged([HEALTHY], [[[1.0, 2.0]], [[5.0, 6.0]]], [[3.0], [1.0]])
    assert average == [[2.0, 3.0]]
    assert skipped == [False]


def test_each_run_has_its_own_exchange(averaged):
    grads = [[[1.0, 2.0]] * 3, [[5.0, 6.0]] * 3]
    average, *_ = averaged([HEALTHY, SUMMED, APART], grads, [[3.0] * 3, [1.0] * 3])
    assert average == [[2.0, 3.0], [4.0, 6.0], [1.0, 2.0]]


def test_what_is_not_shared_is_the_rank_s_own(averaged):
    average, *_ = averaged([NORMS_APART, HEALTHY], [[[1.0, 2.0]] * 2, [[5.0, 6.0]] * 2], [[3.0] * 2, [1.0] * 2])
    assert average == [[2.0, 2.0], [2.0, 3.0]]


def test_who_clips_alone_clips_by_its_own_norm(averaged):
    _, _, averaging, _ = averaged([CLIPS_ALONE, HEALTHY], [[[3.0, 4.0]] * 2, [[0.0, 0.0]] * 2], [[1.0] * 2, [1.0] * 2])
    assert averaging.clipped_by(torch.tensor([2.5, 2.5]), torch.tensor([5.0, 5.0])).tolist() == [5.0, 2.5]


def test_what_is_late_is_that_of_the_step_before(averaged):
    held = torch.tensor([[[0.0, 0.0, 0.0], [7.0, 8.0, 1.0]]]).repeat(2, 1, 1)
    grads = [[[1.0, 2.0]] * 2, [[5.0, 6.0]] * 2]
    average, _, averaging, group = averaged([LATE, HEALTHY], grads, [[3.0] * 2, [1.0] * 2], held)
    assert average == [[2.5, 3.5], [2.0, 3.0]]  # (3 * (1, 2) + (7, 8)) / 4, and the mean of what is fresh
    torch.testing.assert_close(torch.stack(averaging.held), torch.stack([group.sent[0], group.others[1]]))


def test_nothing_has_come_at_the_first_late_step(averaged):
    average, *_ = averaged([LATE], [[[1.0, 2.0]], [[5.0, 6.0]]], [[3.0], [1.0]], torch.zeros(1, 2, 3))
    assert average == [[1.0, 2.0]]


def test_nothing_heard_is_no_gradient(averaged):
    silent = dataclasses.replace(HEALTHY, late=square(2, lambda r, q: True))
    average, skipped, *_ = averaged([silent], [[[1.0, 2.0]], [[5.0, 6.0]]], [[3.0], [1.0]], torch.zeros(1, 2, 3))
    assert average == [[0.0, 0.0]]
    assert skipped == [False]


def test_an_overflow_on_one_rank_is_everyone_s(averaged):
    for bad in (INF, NAN):
        for grads in ([[[bad, 2.0]], [[5.0, 6.0]]], [[[1.0, 2.0]], [[5.0, bad]]]):
            assert averaged([HEALTHY], grads, [[3.0], [1.0]])[1] == [True]


def test_an_overflow_that_is_not_told_is_left_out(averaged):
    average, skipped, _, group = averaged([ALONE], [[[INF, 2.0]], [[5.0, 6.0]]], [[3.0], [1.0]])
    assert skipped == [True]
    assert group.sent[0].tolist() == [[0.0, 0.0, 0.0]]
    assert average == [[5.0, 6.0]]


def test_a_run_that_hears_nobody_does_not_hear_an_overflow(averaged):
    average, skipped, *_ = averaged([APART], [[[1.0, 2.0]], [[NAN, INF]]], [[3.0], [1.0]])
    assert (average, skipped) == ([[1.0, 2.0]], [False])


def test_a_neighbour_s_overflow_stays_its_own(averaged):
    average, skipped, *_ = averaged([HEALTHY, HEALTHY], [[[1.0], [NAN]], [[5.0], [1.0]]], [[1.0, 1.0], [1.0, 1.0]])
    assert average[0] == [3.0]
    assert skipped == [False, True]
