"""What is timed in turn, what is left out, and what the cells of a row are. The clock is scripted."""

import numpy as np
import pytest
import torch

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.bench import timing
from trainwreck.scenarios.bench.timing import Peaks, Subject, Taken, cells, differs, require_cuda, take

RIGHT = torch.tensor([1.0, -4.0, 2.0])


class Scripted:
    """A stopwatch that does the work and gives the next number of a list."""

    def __init__(self, *ms, note=""):
        self.ms, self.note, self.done = iter(ms), note, 0

    def ready(self, work):
        def once():
            work()
            self.done += 1
            return next(self.ms)

        return once, self.note


def subject(name, *numbers):
    return Subject(name, lambda: lambda: numbers)


def failing(error):
    def build():
        raise error

    return build


def test_subjects_take_turns_in_every_round():
    order = []

    def noting(name):
        return Subject(name, lambda: lambda: (order.append(name), (RIGHT,))[1])

    taken = take([noting("a"), noting("b")], Scripted(1.0, 10.0, 2.0, 20.0, 3.0, 30.0), 3, 0.1)
    assert order == ["a", "b"] + ["a", "b"] * 3  # once for the result, then in turn
    assert taken["a"].ms.tolist() == [1, 2, 3]
    assert taken["b"].ms.tolist() == [10, 20, 30]


def test_what_is_left_out_or_can_not_run_is_a_row_with_the_reason():
    subjects = [
        Subject("large", failing(AssertionError("not to be built")), left_out="left out: 9 GiB"),
        Subject("lacking", failing(RuntimeError("No available kernel. | Aborting\nmore"))),
        Subject("lazy", lambda: failing(NotImplementedError())),
        subject("there", RIGHT),
    ]
    taken = take(subjects, Scripted(5.0, note="without a CUDA graph"), 1, 0.1)
    assert list(taken) == ["large", "lacking", "lazy", "there"]
    assert taken["large"] == Taken(None, "left out: 9 GiB")
    assert taken["lacking"] == Taken(None, "did not run: RuntimeError: No available kernel. / Aborting")
    assert taken["lazy"] == Taken(None, "did not run: NotImplementedError: ")
    assert taken["there"].ms.tolist() == [5]
    assert taken["there"].note == "without a CUDA graph"


def test_wrong_numbers_are_not_timed():
    clock = Scripted(1.0, 2.0)
    subjects = [subject("first", RIGHT), subject("close", RIGHT * 1.01), subject("wrong", RIGHT + 0.5)]
    taken = take(subjects, clock, 1, 0.02)
    assert clock.done == 2
    assert taken["close"].ms is not None
    assert taken["wrong"].ms is None
    assert taken["wrong"].note == "wrong: result 0 is off by 0.5, the largest number is 4"


def test_results_are_compared_number_by_number_whatever_axes_of_one_they_have():
    assert differs([RIGHT[None]], [RIGHT], 0.0) == ""
    assert differs([RIGHT, RIGHT], [RIGHT, -RIGHT], 0.1).startswith("wrong: result 1 is off by 8")
    assert differs([RIGHT * torch.nan], [RIGHT], 1.0).startswith("wrong: result 0 is off by nan")


def test_cells_are_median_quartiles_floor_and_ratios_within_rounds():
    taken = {
        "own": Taken(np.array([1.0, 2.0, 3.0]), "eager"),
        "peer": Taken(np.array([2.0, 3.0, 12.0])),
        "gone": Taken(None, "did not run"),
    }
    peers = ("peer", "gone", "unknown", "own")
    assert cells("own", taken, peers, 0.5) == (2.0, "1.500 to 2.500", 4.0, 2.0, "", "", 1.0, "eager")
    assert cells("gone", taken, peers, 0.5) == ("", "", "", "", "", "", "", "did not run")


def test_floors_are_bytes_over_bandwidth_and_operations_over_the_peak():
    assert Peaks(bandwidth=4e12, arithmetic=8e14).floor_ms(4e9, 1.6e12) == (1.0, 2.0)


def test_without_a_device_there_is_one_line(monkeypatch):
    monkeypatch.setattr(timing.torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=r"^device: no CUDA device; allowed: a machine with one$"):
        require_cuda()
