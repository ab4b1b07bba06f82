"""The training loop on a CUDA device: against the CPU, against its neighbours, and without waiting."""

import numpy as np
import pytest
import torch

from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.kernels.selection import ON_CUDA
from trainwreck.models.config import Format
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec.faults import At, Scaled
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.block import run_block, start_block
from trainwreck.scenarios.training.bundle import Bundle, Place
from trainwreck.scenarios.training.loop import fresh_state, train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

STEPS = 20


def jobs(count):
    setup = replaced(healthy(Size.MICRO), steps=STEPS)
    return [Job(f"run{seed}", seed, setup) for seed in range(count)]


def test_double_precision_is_the_cpu_s():
    """In float64 the two devices differ by rounding alone, which 20 steps amplify to far less than 1e-6."""
    here = train(jobs(1), dtype=torch.float64)[0].trace
    on_device = train(jobs(1), dtype=torch.float64, device="cuda")[0].trace
    for signal in SIGNALS:
        np.testing.assert_allclose(on_device[signal.name], here[signal.name], rtol=1e-5, atol=1e-6, err_msg=signal.name)


def test_a_first_step_in_single_precision_is_the_cpu_s():
    """Where the kernels are Triton's. The share of dead units counts units that a rounding may tip."""
    one = [Job("run", 0, replaced(healthy(Size.MICRO), steps=1))]
    here, on_device = train(one)[0].trace, train(one, device="cuda")[0].trace
    for signal in SIGNALS:
        slack = 1e-2 if signal.name == "dead_share" else 1e-4
        np.testing.assert_allclose(
            on_device[signal.name], here[signal.name], rtol=1e-3, atol=slack, err_msg=signal.name
        )


def test_neighbours_do_not_matter():
    """The stated tolerance on a GPU, where the shape of a bundle may choose another kernel: 1e-3 nats."""
    alone = train(jobs(1), device="cuda")[0].trace
    beside = train(jobs(8), device="cuda")[0].trace
    assert np.abs(alone["loss"] - beside["loss"]).max() < 1e-3


@pytest.mark.parametrize("impl", ON_CUDA)
@pytest.mark.parametrize("values", [{}, {"precision__format": Format.FP16, "precision__dynamic": True}])
def test_graphs_change_no_bit(impl, values):
    """A replay runs the kernels of the step that was captured, on the same shapes."""
    some = [Job(job.run_id, job.seed, replaced(job.setup, **values)) for job in jobs(4)]
    plain, graphs = (train(some, device="cuda", impl=impl, graphs=graphs) for graphs in (False, True))
    for one, other in zip(plain, graphs, strict=True):
        for signal in SIGNALS:
            np.testing.assert_array_equal(other.trace[signal.name], one.trace[signal.name], err_msg=signal.name)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # as an error it would leave the mode on
@pytest.mark.parametrize("graphs", [False, True])
def test_a_block_never_waits_for_the_device_until_it_is_read(graphs):
    """Neither its inputs nor its steps, its evaluation or the hand-over of its signals."""
    every = healthy(Size.MICRO).evaluation.every
    some = [Job(job.run_id, job.seed, replaced(job.setup, steps=every + STEPS)) for job in jobs(4)]
    bundle = Bundle(some, [fresh_state(job) for job in some], 0, Place(torch.device("cuda"), graphs=graphs))
    run_block(bundle, range(5), True)  # kernels are loaded, and a step is captured
    torch.cuda.set_sync_debug_mode("error")
    try:
        read = start_block(bundle, range(5, every + 1), True)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    signals, evaluated = read()
    assert all(np.isfinite(one["loss"]).all() for one in signals)
    assert list(evaluated) == [every]


def test_a_program_is_built_once_whatever_changes():
    """Slots are reserved on a device: what changes is written over a run's row, and the captured step stays."""
    some = [Job(job.run_id, job.seed, job.setup, (At(3 + job.seed, Scaled("optimizer.lr", 2.0)),)) for job in jobs(4)]
    built: list[int] = []
    together = train(some, device="cuda", built=built.append)
    assert built == [1]
    for job, result in zip(some, together, strict=True):
        alone = train([job], device="cuda")[0]
        assert np.abs(alone.trace["loss"] - result.trace["loss"]).max() < 1e-3
