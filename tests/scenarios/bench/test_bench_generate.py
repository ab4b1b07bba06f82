"""A sweep against trainers, at a tiny setting. No time is asserted."""

import json
import math
import shutil
from contextlib import nullcontext

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.cpp import build
from trainwreck.scenarios.bench import generate as sweep
from trainwreck.scenarios.bench import measure, record
from trainwreck.scenarios.bench.generate import (
    INJECTED,
    LIGHTNING,
    ONE_THREAD,
    PLAIN,
    SWEPT,
    SWEPT_IN_CPP,
    TRANSFORMERS,
    Spent,
)
from trainwreck.scenarios.bench.peers import loops as peers
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.datasets.engines import Local
from trainwreck.scenarios.spec.run_spec import Role

SMALL = ("data.rows=2", "evaluation.rows=4", "model.context=16", "model.heads=2", "model.width=16", "steps=21")
PNG = b"\x89PNG\r\n\x1a\n"


def missing():
    raise InputError("thelibrary is not installed (No module named 'thelibrary'); pip install 'trainwreck[monitors]'")


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(sweep, "RUNS", 8)
    monkeypatch.setattr(sweep, "ROUNDS", 2)
    monkeypatch.setattr(sweep, "SETTINGS", SMALL)
    monkeypatch.setattr(sweep, "threads", lambda count: nullcontext())  # two, on a busy machine, wait for each other
    monkeypatch.setattr(sweep, "peak", lambda count: 1e9 * count)
    monkeypatch.setattr(sweep, "products_alone", lambda model, rows, runs: 0.5e9)


@pytest.fixture
def in_process(monkeypatch):
    """Workers would take seconds to start. Whose kernels each sweep was made with, in order."""
    real, kernels = sweep.generate, []

    def generate(specs, out, *, workers, backend, **rest):
        assert workers == 2
        kernels.append(backend.impl)
        return real(specs, out, engine=Local(1), backend=backend, **rest)

    monkeypatch.setattr(sweep, "generate", generate)
    return kernels


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setattr(build, "COMPILERS", ("no-compiler",))
    monkeypatch.delenv("CXX", raising=False)
    build.library.cache_clear()
    yield
    build.library.cache_clear()


@pytest.mark.usefixtures("tiny")
@pytest.mark.skipif(not any(map(shutil.which, build.COMPILERS)), reason="no C++ compiler")
def test_every_trainer_and_every_sweep_are_rows(monkeypatch, tmp_path, in_process):
    trained = []
    peer = lambda name: lambda: lambda setup, batches: trained.append((name, setup.optimizer.lr, batches.inputs.shape))  # noqa: E731
    monkeypatch.setattr(sweep, "MAKERS", {name: peer(name) for name in (TRANSFORMERS, LIGHTNING)})
    ticks = []
    table = measure("generate", lambda *said: ticks.append(said[:2]))
    peers = [PLAIN, ONE_THREAD, TRANSFORMERS, LIGHTNING]
    assert table.columns[3:] == tuple(f"x {name}" for name in peers)
    assert [table.rows[i][3 + i] for i in range(4)] == [1.0] * 4  # each is one times itself
    assert [row[0] for row in table.rows] == [*peers, SWEPT, SWEPT_IN_CPP, INJECTED]
    assert ticks == [(done, 14) for done in range(15)]
    first_steps = "reference"
    assert in_process == [first_steps, "reference", "cpp", "reference"] * 2
    # Each is warmed up by some steps, and then makes another run in each round.
    own = [(rate, shape) for name, rate, shape in trained if name == LIGHTNING]
    assert own == [(0.003, (3, 2, 16)), (0.003, (21, 2, 16)), (0.01, (21, 2, 16))]
    assert "left out" not in table.how
    assert [goal.peer for goal in table.goals] == [PLAIN, TRANSFORMERS, LIGHTNING]
    assert {goal.what for goal in table.goals} == {SWEPT_IN_CPP}
    assert [goal.measured for goal in table.goals] == [table.rows[5][i] for i in (3, 5, 6)]
    assert f"'{SWEPT_IN_CPP}' is at" in table.limit.text
    json.dumps(table.to_dict(), allow_nan=False)
    record.save_picture(table, tmp_path / "generate.png")
    assert (tmp_path / "generate.png").read_bytes().startswith(PNG)


@pytest.mark.usefixtures("tiny", "in_process", "no_compiler")
def test_without_libraries_and_compiler_their_rows_are_left_out(monkeypatch):
    monkeypatch.setattr(sweep, "ROUNDS", 1)
    monkeypatch.setattr(sweep, "MAKERS", dict.fromkeys((TRANSFORMERS, LIGHTNING), missing))
    table = measure("generate", lambda *said: None)
    assert [row[0] for row in table.rows] == [PLAIN, ONE_THREAD, SWEPT, INJECTED]
    assert table.columns[3:] == (f"x {PLAIN}", f"x {ONE_THREAD}")
    for name in (TRANSFORMERS, LIGHTNING):
        assert f"{name} is left out: thelibrary is not installed" in table.how
    assert table.how.count("pip install 'trainwreck[monitors]'") == 2
    assert f"{SWEPT_IN_CPP} is left out: impl: 'cpp' is not allowed here: no C++ compiler" in table.how
    assert [(goal.what, goal.peer) for goal in table.goals] == [(SWEPT, PLAIN)]


@pytest.mark.usefixtures("tiny")
def test_the_healthy_sweep_is_seeds_at_learning_rates():
    specs = sweep.healthy_sweep()
    assert {(spec.seed, spec.setup.optimizer.lr) for spec in specs} == {(s, r) for s in (0, 1) for r in sweep.RATES}
    assert {spec.role for spec in specs} == {Role.TWIN}
    assert len({spec.run_id for spec in specs}) == 8


@pytest.mark.usefixtures("tiny")
def test_the_injected_sweep_has_all_four_roles():
    specs = sweep.injected_sweep()
    assert [sum(spec.role is role for spec in specs) for role in Role] == [2, 4, 2]
    assert len({spec.run_id for spec in specs}) == 8


def test_at_its_own_size_the_sweep_is_what_it_says():
    for specs in (sweep.healthy_sweep(), sweep.injected_sweep()):
        assert len({spec.run_id for spec in specs}) == sweep.RUNS == 64
        assert {spec.setup.steps for spec in specs} == {400}
    setup = sweep.healthy_sweep()[-1].setup
    assert replaced(setup, optimizer__lr=healthy(Size.MICRO).optimizer.lr) == healthy(Size.MICRO)


@pytest.mark.usefixtures("tiny")
def test_a_first_step_is_a_bundle_for_each_worker():
    first = sweep._first_steps(sweep.healthy_sweep())
    assert [spec.setup.steps for spec in first] == [1, 1]
    assert len({spec.base for spec in first}) == 2


@pytest.mark.usefixtures("tiny", "in_process")
def test_the_time_of_a_sweep_has_parts():
    spent = sweep.generated(sweep.healthy_sweep)
    assert spent.total == pytest.approx(spent.planning + spent.training + spent.finishing)
    assert min(spent.planning, spent.training, spent.finishing) > 0
    assert spent.busy > 0


@pytest.mark.usefixtures("tiny")
def test_the_limit_by_hand():
    """A run of 1e9 operations; both workers at the products' rate make 3,600 of them an hour."""
    setup = replaced(sweep.healthy_sweep()[0].setup, steps=1)
    operations = sweep.step_operations(setup.model, setup.data.rows)
    peaks, alone = {1: 4.0 * operations, 2: 8.0 * operations}, 0.5 * operations
    speeds = {PLAIN: [900.0], ONE_THREAD: [600.0], SWEPT: [1800.0], INJECTED: [2000.0]}
    speeds = {name: np.array(values) for name, values in speeds.items()}
    found = sweep.limit(setup, speeds, peaks, alone, 4, Spent(1.0, 10.0, 2.0, 15.0), 3.0, 0.25)
    rows = {row[0]: row[1:] for row in found.rows}
    assert rows["the products of a step of 4 runs alone, 2 x 1 thread"] == (operations / 1e9, 1 / 8, 3600)
    assert rows[SWEPT] == (operations / 2e9, 1 / 16, 1800)
    assert INJECTED not in rows  # it does not train all that it writes
    assert f"4.0 times the plain loop on 2 threads, and '{SWEPT}' is at 50% of it" in found.text
    assert "computed for 75% of the time" in found.text
    assert [(goal.what, goal.peer, goal.asked, goal.measured) for goal in sweep.goals(speeds)] == [
        (SWEPT, PLAIN, 2.5, 2.0)
    ]
    assert "each has to be 1.88 times the plain loop on one thread" in found.text
    assert "it is 1.50 times it" in found.text


def small_run():
    setup = replaced(
        healthy(Size.MICRO), model__width=16, model__heads=2, model__context=16, data__rows=4, steps=30,
        schedule__warmup_steps=5,
    )  # fmt: skip
    return setup, training_block(setup, 0, range(setup.steps))


def test_the_plain_loop_follows_the_learning_rates(monkeypatch):
    loops = []
    real = peers.PlainLoop
    monkeypatch.setattr(peers, "PlainLoop", lambda *a, **k: loops.append(real(*a, **k)) or loops[-1])
    setup, batches = small_run()
    assert peers.plain(setup, batches) == []
    (loop,) = loops
    assert loop.done == setup.steps
    assert loop.optimizer.param_groups[0]["lr"] == peers.learning_rate(setup, setup.steps - 1)


@pytest.mark.monitors
@pytest.mark.filterwarnings("default")  # of the libraries and what they load
@pytest.mark.parametrize("make", [peers.transformers_trainer, peers.lightning_trainer])
def test_a_trainer_trains_and_logs_every_step(make, capsys):
    setup, batches = small_run()
    losses = make()(setup, batches)
    assert len(losses) == setup.steps
    assert losses[0] == pytest.approx(math.log(setup.model.vocab_size), abs=1)
    assert np.mean(losses[-5:]) < losses[0] - 0.1
    assert capsys.readouterr().out == ""
