"""Bundles on a device against the plain loop there, with a CPU for the device. No time is asserted."""

import json

import numpy as np
import pytest
import torch

from trainwreck.scenarios.bench import cuda, train
from trainwreck.scenarios.bench.cuda import LOW, NOTHING, PEER, SIGNALS
from trainwreck.scenarios.config.settings import essence, fingerprint
from trainwreck.scenarios.spec.faults import At, Setting
from trainwreck.scenarios.training import cuda_graph as capturing


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(cuda, "ROUNDS", 2)
    monkeypatch.setattr(cuda, "BLOCKS", 2)
    monkeypatch.setattr(train, "STEPS", 2)


@pytest.fixture
def precisions(monkeypatch):
    """What matrix products may be while each subject trains, plain loops and train."""
    seen = []
    real_loop, real_bundle = cuda.PlainLoop.run, train.start_block

    def loop(self, steps):
        seen.append(("loop", torch.get_float32_matmul_precision()))
        real_loop(self, steps)

    def bundle(bundle, steps, record, following):
        seen.append((len(bundle.jobs), torch.get_float32_matmul_precision()))
        return real_bundle(bundle, steps, record, following)

    monkeypatch.setattr(cuda.PlainLoop, "run", loop)
    monkeypatch.setattr(train, "start_block", bundle)
    return seen


def test_bundles_on_a_device_stand_beside_the_plain_loop_there_and_a_core(precisions):
    settled, ticks = [], []
    table = cuda.bundles_on(
        "cpu", lambda done, total, what: ticks.append((done, total)), ["reference"], [1, 2], lambda: settled.append(1)
    )
    one, two = (f"bundle of {runs}, reference kernels" for runs in (1, 2))
    names = [PEER, PEER + LOW, one, two, two + LOW, two + SIGNALS, two + NOTHING, "bundle of 4 on one CPU core"]
    assert [row[:2] for row in table.rows] == list(zip(names, (1, 1, 1, 2, 2, 2, 2, 4), strict=True))
    assert all(row[2] > 0 for row in table.rows)
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    for peer in (PEER, PEER + LOW, one):
        assert rows[peer][f"x {peer}"] == 1.0
    assert [(goal.what, goal.peer, goal.asked, goal.least) for goal in table.goals[:3]] == [
        (two, PEER, 50, True),
        (two, one, 10, True),
        (two, names[-1], 500, True),
    ]
    assert [goal.measured for goal in table.goals[:2]] == [rows[two][f"x {PEER}"], rows[two][f"x {one}"]]
    assert len(settled) == 2 * len(names) * (cuda.ROUNDS + 1)
    assert ticks[-1] == (2, 2)
    assert precisions[:13] == [
        ("loop", "highest"), ("loop", "high"), *2 * [(1, "highest")], *2 * [(2, "highest")], *2 * [(2, "high")],
        *4 * [(2, "highest")], (4, "highest"),
    ]  # fmt: skip
    json.dumps(table.to_dict(), allow_nan=False)


def test_telemetry_is_what_it_costs_over_none(monkeypatch):
    """Steps with signals take 6 s, those without 5."""
    given = {}

    def seconds(subjects, tick, settle, rounds):
        given.update(subjects)
        taken = {name: 5.0 if name.endswith(NOTHING) else 6.0 for name in subjects}
        return {name: np.full(3, value) for name, value in taken.items()}

    monkeypatch.setattr(cuda, "seconds_in_turn", seconds)
    monkeypatch.setattr(cuda, "bundle", lambda runs, **options: (runs, options))
    monkeypatch.setattr(cuda, "in_tf32", lambda work: work)
    table = cuda.bundles_on("cpu", lambda *said: None, ["reference"], [1, 2], lambda: None)
    goal = table.goals[-1]
    assert goal.measured == pytest.approx(1.2)
    assert not goal.met
    assert not goal.least
    two = "bundle of 2, reference kernels"
    common = {"device": "cpu", "impl": "reference", "graphs": False, "ahead": True, "blocks": 2}
    assert given[two + SIGNALS][0] == (2, {"record": True, "validate": False} | common)
    assert given[two + NOTHING][0] == (2, {"record": False} | common)


def test_captured_bundles_stand_beside_the_others(monkeypatch, noted):
    made = []
    monkeypatch.setattr(capturing, "CudaGraph", lambda: made.append(noted()) or made[-1])
    table = cuda.bundles_on("cpu", lambda *said: None, ["reference"], [1, 2], lambda: None, (False, True))
    one, plain, two = (f"bundle of {how}" for how in (
        "1, reference kernels, captured", "2, reference kernels", "2, reference kernels, captured"
    ))  # fmt: skip
    assert [row[0] for row in table.rows[2:-1]] == [one, plain, two, *(two + less for less in (LOW, SIGNALS, NOTHING))]
    assert [row[-1] == 1.0 for row in table.rows[2:5]] == [True, False, False]
    assert [goal.what for goal in table.goals[:2]] == [two] * 2
    assert [graph.done.count("capture") for graph in made] == [1] * 5
    assert all("replay" in graph.done for graph in made)


def test_bundles_that_are_built_are_counted_by_program(tiny, make_job):
    jobs = [make_job(i, tiny, At(2 + i, Setting("dropout", 0.1))) for i in range(3)]
    given = (lambda *said: None, ["reference"], [1, 2], lambda: None)
    goal = cuda.bundles_on("cpu", *given, mixed=jobs).goals[-1]
    assert (goal.what, goal.measured, goal.met) == ("bundles built for 3 runs of different scenarios", 1.0, True)


def test_mixed_runs_have_one_shape_and_changes_of_their_own():
    jobs = cuda.mixed_runs(cuda.MIXED)
    assert len(jobs) == len({job.run_id for job in jobs}) == cuda.MIXED
    assert len({(job.setup.data.rows, job.setup.steps, fingerprint(essence(job.setup.model))) for job in jobs}) == 1
    assert len({segment.start for job in jobs for segment in job.segments}) > 20


def test_tf32_ends_with_the_work_even_where_it_fails():
    seen = []

    def work():
        seen.append(torch.get_float32_matmul_precision())
        raise RuntimeError("out of memory")

    before = torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError, match="out of memory"):
        cuda.in_tf32(work)()
    assert (seen, torch.get_float32_matmul_precision()) == (["high"], before)
