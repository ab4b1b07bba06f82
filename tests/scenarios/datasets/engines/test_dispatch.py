"""The dispatcher on simulated workers: no piece is lost, no worker idles for long, and the time left is estimated."""

import random
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest

from trainwreck.evaluation.errors import UnfinishedError, WorkerLostError
from trainwreck.scenarios.datasets.engines.call import End
from trainwreck.scenarios.datasets.engines.dispatch import GRACE, TRIES, Dispatch, Piece, in_workers

SHAPES = (0.5, 0.8, 1.0, 1.2, 1.5)  # seconds of a run of each shape, as the cost model has them
RUNS = 10_000
START = 0.5  # seconds until a new worker can begin


class Fate(NamedTuple):
    """How long a call takes, and how it ends."""

    seconds: float
    end: End = End.DONE


def work(*args):
    raise AssertionError("simulated workers make no call")


def pieces(costs, width=1):
    return [Piece(f"p{i}", (i,), cost, width) for i, cost in enumerate(costs)]


def make(engine, costs, width=1, **options):
    return Dispatch(engine, work, pieces(costs, width), clock=engine.clock, **options)


class Runs:
    """Stub runs of a second, more or less, and workers of which some die in the middle of one."""

    def __init__(self, seed, deaths):
        self.draw, self.deaths = random.Random(seed), deaths
        self.costs = [self.draw.choice(SHAPES) for _ in range(RUNS)]
        self.seconds = [max(0.05, cost * self.draw.gauss(1, 0.15)) for cost in self.costs]
        self.wasted = 0.0

    def fate(self, call, worker):
        seconds = self.seconds[call.args[0]]
        if self.draw.random() >= self.deaths:
            return Fate(seconds)
        until = seconds * self.draw.random()
        self.wasted += until + START
        return Fate(until, End.LOST)


@pytest.mark.parametrize("deaths", [0.0, 0.01])
@pytest.mark.parametrize("workers", [16, 64, 256])
def test_ten_thousand_runs_take_hardly_longer_than_they_must(workers, deaths, simulated):
    runs = Runs(workers, deaths)
    engine = simulated(workers, runs.fate, START)
    dispatch = make(engine, runs.costs)
    estimates = []
    for done, (piece, value) in enumerate(dispatch.results(), 1):
        assert value == piece.args[0]
        if done % (RUNS // 20) == 0:
            estimates.append(engine.clock.now + dispatch.left())
    assert done == RUNS
    assert not dispatch.failed
    ideal = START + (sum(runs.seconds) + runs.wasted) / workers  # no worker idle for a moment
    assert ideal <= engine.clock.now * 1.001
    assert ideal / engine.clock.now >= 0.97
    # The estimated end after each twentieth of the work, against the actual end.
    wrong = np.array(estimates) / engine.clock.now - 1
    assert abs(np.median(wrong)) < 0.04
    assert np.abs(wrong).max() < 0.08


def test_the_time_left_counts_on_more_deaths_where_there_were_many(simulated):
    runs = Runs(1, deaths=0.1)
    engine = simulated(16, runs.fate, START)
    dispatch = make(engine, runs.costs)
    estimates = [engine.clock.now + dispatch.left() for _ in dispatch.results()]
    wrong = np.array(estimates[RUNS // 20 :]) / engine.clock.now - 1
    assert runs.wasted > 0.08 * sum(runs.seconds)
    assert abs(np.median(wrong)) < 0.03


def test_the_measure_sees_an_order_that_is_worse(simulated):
    """One long run among short ones: it comes last where its length is not known."""
    seconds = [1.0] * 60 + [20.0]
    ends = []
    for costs in (seconds, [1.0] * 61):
        engine = simulated(4, lambda call, worker: Fate(seconds[call.args[0]]))
        list(make(engine, costs).results())
        ends.append(engine.clock.now)
    assert ends == [20.0, 35.0]


def test_the_costliest_go_first_and_in_the_order_given_where_they_cost_the_same(simulated):
    costs = [1.0, 3.0, 2.0, 3.0, 1.0]
    engine = simulated(1, lambda call, worker: Fate(costs[call.args[0]]))
    assert [value for _, value in make(engine, costs).results()] == [1, 3, 2, 0, 4]
    assert engine.closed


def test_a_lost_worker_costs_its_piece_only_which_another_takes(simulated):
    calls = Counter()

    def fate(call, worker):
        calls[call.args[0]] += 1
        return Fate(1.0, End.LOST if call.args[0] == 3 and calls[3] == 1 else End.DONE)

    engine = simulated(2, fate)
    dispatch = make(engine, [1.0] * 8)
    assert sorted(value for _, value in dispatch.results()) == list(range(8))
    assert calls == {i: 2 if i == 3 else 1 for i in range(8)}
    assert not dispatch.failed


@pytest.mark.parametrize("end", [End.LOST, End.SHORT])
def test_what_may_have_been_memory_is_tried_again_with_half_as_many_side_by_side(end, simulated):
    engine = simulated(1, lambda call, worker: Fate(1.0, end if call.width > 3 else End.DONE))
    dispatch = make(engine, [1.0], width=13)
    assert [value for _, value in dispatch.results()] == [0]
    assert [call.width for call in engine.made] == [13, 6, 3]


def test_what_is_lost_again_and_again_is_given_up_by_name_after_all_else(simulated):
    engine = simulated(2, lambda call, worker: Fate(1.0, End.LOST if call.args[0] in (0, 4) else End.DONE))
    found = in_workers(work, pieces([2.0] * 6, width=2), engine=engine, so_far=lambda: "4 of 6 bundles are done")
    assert {next(found).value for _ in range(4)} == {1, 2, 3, 5}  # all else first
    with pytest.raises(WorkerLostError) as lost:
        next(found)
    assert str(lost.value) == (
        "2 of 6 bundles failed 3 times: p0 died, p4 died; 4 of 6 bundles are done, "
        "and the same command goes on from here"
    )
    assert Counter(call.args[0] for call in engine.made) == {0: TRIES + 1, 4: TRIES + 1, 1: 1, 2: 1, 3: 1, 5: 1}


def test_an_exception_is_raised_at_once_and_the_workers_go(simulated):
    error = ValueError("a bug")

    class Raising(simulated):
        def ended(self, seconds):
            return [type(one)(one.ticket, End.RAISED, error) for one in super().ended(seconds)]

    engine = Raising(2, lambda call, worker: Fate(1.0))
    with pytest.raises(ValueError, match="a bug"):
        list(make(engine, [1.0] * 5).results())
    assert len(engine.made) == 2
    assert engine.closed


def test_a_worker_that_hangs_near_the_end_holds_nobody_up(simulated):
    """An idle worker takes the piece as well; the first that has it wins, and the other is let go."""
    engine = simulated(4, lambda call, worker: Fate(1e9 if worker == 2 and call.args[0] < 4 else 30.0))
    dispatch = make(engine, [30.0] * 10)
    values = [value for _, value in dispatch.results()]
    assert sorted(values) == list(range(10))  # each once
    assert len(engine.made) == 11
    assert len(engine.gone) == 1
    assert engine.clock.now < 150


def test_a_piece_that_is_only_a_little_slow_is_not_made_twice(simulated):
    engine = simulated(4, lambda call, worker: Fate(1.0 + 0.9 * GRACE * (call.args[0] == 7)))
    list(make(engine, [1.0] * 8).results())
    assert len(engine.made) == 8


def test_what_kills_its_workers_is_not_doubled_and_ends(simulated):
    """Once it went on for ever: of two calls that both died in turn, one was always under way."""
    calls = Counter()

    def fate(call, worker):
        calls[call.args[0]] += 1
        assert calls[9] <= TRIES + 1
        return Fate(200.0, End.LOST) if call.args[0] == 9 else Fate(30.0)

    engine = simulated(2, fate)
    dispatch = make(engine, [1.0] * 9 + [0.1])
    assert len(list(dispatch.results())) == 9
    assert [piece.name for piece, _ in dispatch.failed] == ["p9"]
    assert calls[9] > 1


def test_the_one_of_two_that_dies_leaves_the_other_at_it(simulated):
    def fate(call, worker):
        if call.args[0]:
            return Fate(30.0)
        return Fate(200.0) if call.ticket <= 20 else Fate(5.0, End.LOST)

    engine = simulated(2, fate)
    dispatch = make(engine, [31.0] + [30.0] * 9)
    assert len(list(dispatch.results())) == 10
    assert not dispatch.failed


def test_nothing_is_begun_after_the_time_is_over_and_what_was_begun_is_finished(simulated):
    engine = simulated(2, lambda call, worker: Fate(40.0))
    dispatch = make(engine, [1.0] * 9, minutes=1)
    assert len(list(dispatch.results())) == 4
    assert engine.clock.now == 80
    assert dispatch.unbegun == 5


def test_unfinished_work_says_so_in_one_line(simulated):
    engine = simulated(1, lambda call, worker: Fate(1.0))
    with pytest.raises(UnfinishedError, match=r"^1e-09 minutes are over; 1 of 3, and the same command goes on from"):
        list(in_workers(work, pieces([1.0] * 3), engine=engine, so_far=lambda: "1 of 3", minutes=1e-9))
    assert len(engine.made) == 1  # one at least, or it would never end


def test_no_work_starts_no_worker():
    assert list(in_workers(work, [], so_far=str)) == []
