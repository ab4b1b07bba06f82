"""A block of steps and its evaluation ask the device for no value, and send it none that the host waits for."""

import dataclasses

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trainwreck.models.config import Activation, Format, Norm, OptimizerKind, Placement
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec.faults import At, ParametrizationEdit, TableEdit, Variant
from trainwreck.scenarios.training import telemetry
from trainwreck.scenarios.training.bundle import Bundle, Place
from trainwreck.scenarios.training.loop import fresh_state
from trainwreck.scenarios.training.objectives.choose import objective
from trainwreck.scenarios.training.step import train_step

# Operators whose result, or its shape, the host must wait for.
WAITING = (
    "_local_scalar_dense", "item", "is_nonzero", "nonzero", "nonzero_static", "masked_select", "equal", "allclose",
    "unique", "_unique", "_unique2", "unique_dim", "unique_consecutive", "bincount", "repeat_interleave", "histc",
)  # fmt: skip
INDEXING = ("index", "index_put", "index_put_", "_unsafe_index")  # with a bool index they wait for its count

WAITS = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool(x[0] > 0),
    "float": lambda x: float(x[0]),
    "nonzero": lambda x: x.nonzero(),
    "bool index": lambda x: x[x > 0],
    "bool index written": lambda x: x.clone().index_put_((x > 0,), torch.zeros((), device=x.device)),
    "equal": lambda x: torch.equal(x, x),
    "unique": lambda x: x.unique(),
}
SENT = {
    "to": lambda x: torch.ones(3).to(x.device),
    "to another format": lambda x: torch.ones(3).to(x.device, torch.float64),
    "copy": lambda x: x.copy_(torch.ones(3)),
}
TRANSFERS = {"tolist": lambda x: x.tolist(), "numpy": lambda x: x.numpy(), "cpu": lambda x: x.cpu()}

LEAK = At(0, TableEdit(lambda tables, s: dataclasses.replace(tables, allowed_NTS=torch.ones_like(tables.allowed_NTS))))
GAIN = At(0, TableEdit(lambda tables, s: dataclasses.replace(tables, branch_gain_NL2=torch.ones(1, 2, 2))))
TIED = At(
    0, ParametrizationEdit(lambda part, plan: part.moved(torch.arange(8), torch.zeros(8, dtype=torch.int64), plan.size))
)
NOISE = At(0, TableEdit(lambda tables, s: dataclasses.replace(tables, noise_N=torch.full((1,), 0.1))))
EVALUATED = {"sample": 3, "fresh": True, "average": 0.9}
SHORT = {
    "steps": 12, "evaluation__every": 5, "evaluation__rows": 6, "data__rows": 4, "schedule__warmup_steps": 3,
}  # fmt: skip
BASES = {  # of cases that are no other setting of a small model, by their first word
    "decoding": bases.refrain,
    "pairs": bases.preferences,
    "diffusion": bases.denoiser,
    "retrieval": bases.facts,
    "captions": bases.captions,
    "transcripts": bases.transcripts,
    "rewards": bases.policy,
    "experts": bases.rules_experts,
}
FP16 = {"precision__format": Format.FP16, "precision__loss_scale": 2.0**17, "precision__dynamic": True}
CASES = {
    "healthy": ({}, ()),
    "dropout, z-loss": ({"dropout": 0.1, "z_loss": 1e-3}, ()),
    "fp16 dynamic": (FP16, ()),
    "bf16": ({"precision__format": Format.BF16}, ()),
    "float8": ({"precision__format": Format.FP8}, ()),
    "Post-LN, SwiGLU": ({"model__placement": Placement.POST, "model__activation": Activation.SWIGLU}, ()),
    "RMSNorm, qk-norm, SGD": (
        {"model__norm": Norm.RMS, "model__qk_norm": True}
        | {"optimizer__kind": OptimizerKind.SGD, "optimizer__clip": None},
        (),
    ),
    "BatchNorm": ({"model__norm": Norm.BATCH}, ()),
    "leaking mask": ({}, (LEAK,)),
    "branch gains": ({}, (GAIN,)),
    "tied weights": ({}, (TIED,)),
    "update clipping": ({"optimizer__update_clip": 1.0}, ()),
    "fp16 scores": ({}, (At(0, Variant("model.attention", "fp16_scores")),)),
    "stream noise": ({}, (NOISE,)),
    "evaluation": ({f"evaluation__{name}": value for name, value in EVALUATED.items()}, ()),
    "decoding": ({}, ()),
    "decoding, own tokens": ({"decoding__scheduled_sampling": 0.3}, ()),
    "pairs": ({"preferences__begun": True}, ()),
    "diffusion": ({}, ()),
    "retrieval": ({}, ()),
    "captions": ({"modalities__picture_weight": 3.0}, ()),
    "transcripts": ({"transcription__noise": 0.5}, ()),
    "rewards": ({"policy__begun": True, "policy__group": 2, "policy__updates": 3, "policy__comparisons": 50}, ()),
    "rewards, on text": ({"policy__group": 2}, ()),
    "experts": ({}, ()),
}  # fmt: skip


def _is_waited_for(args, kwargs):
    """Whether a copy is from the host to a device, and the host does not go on at once."""
    to = kwargs.get("device") if len(args) < 2 else args[0].device
    source = args[0] if len(args) < 2 else args[1]
    asynchronous = kwargs.get("non_blocking", len(args) > 2 and args[2])
    return to is not None and source.device.type == "cpu" and torch.device(to).type != "cpu" and not asynchronous


class Waits(TorchDispatchMode):
    """Counts operators that wait for the device, and copies to it that the host waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        self.calls += 1
        chosen = args[1] if name in INDEXING else ()
        if name in ("_to_copy", "copy_") and _is_waited_for(args, kwargs or {}):
            self.seen.append(name)
        if name in WAITING or any(x is not None and x.dtype is torch.bool for x in chosen):
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


@pytest.fixture(params=CASES)
def make_bundle(request, tiny, make_job):
    """Builds a bundle of two runs that records every signal, and its inputs for four steps, on a device."""
    values, changes = CASES[request.param]
    own = BASES.get(request.param.partition(",")[0])
    base = tiny if own is None else replaced(own(healthy(Size.MICRO)), **SHORT)
    jobs = [make_job(seed, replaced(base, **values), *changes) for seed in (0, 1)]

    def make(device: str):
        place = torch.device(device)
        bundle = Bundle(jobs, [fresh_state(job) for job in jobs], 0, Place(place))
        bundle.recorder = telemetry.Recorder(bundle.setup.model, bundle.plan, 2, 4, place)
        return bundle, bundle.inputs(range(4))

    return make


@pytest.mark.parametrize("name", WAITS)
def test_the_counter_sees_a_wait(name):
    x = torch.arange(3.0)
    with Waits() as waits:
        WAITS[name](x)
    assert waits.seen


@pytest.mark.parametrize("name", SENT)
def test_the_counter_sees_numbers_that_are_waited_for_until_they_are_there(name):
    with Waits() as waits:
        SENT[name](torch.arange(3.0))
        torch.ones(3).to("meta", non_blocking=True)
        torch.arange(3.0, device="meta").copy_(torch.ones(3), True)
    assert waits.seen == []
    with Waits() as waits:
        SENT[name](torch.arange(3.0, device="meta"))
    assert len(waits.seen) == 1


@pytest.mark.parametrize("name", [*TRANSFERS, *(n for n in WAITS if n != "bool index written")])
def test_a_meta_tensor_refuses_a_wait(name):
    with pytest.raises((NotImplementedError, RuntimeError, TypeError)):
        (TRANSFERS | WAITS)[name](torch.arange(3.0, device="meta"))


def test_steps_run_no_waiting_operator(make_bundle):
    bundle, block = make_bundle("cpu")
    with Waits() as waits:
        for step in range(4):
            train_step(bundle, block, step, step)
    assert waits.calls > 400
    assert waits.seen == []
    assert torch.isfinite(bundle.recorder.buffer[:, :, 0]).all()  # the loss: all of it has happened


def test_steps_run_on_a_device_that_has_no_values(make_bundle):
    """Meta tensors have shapes alone: whatever reads one, or moves one to the host, raises."""
    bundle, block = make_bundle("meta")
    train_step(bundle, block, 0, 0)  # keys of streams are sent once
    with Waits() as waits:
        for step in range(1, 4):
            train_step(bundle, block, step, step)
            objective(bundle.program.objective).evaluate(bundle, step)
    assert waits.calls > 400
    assert waits.seen == []
    with pytest.raises(NotImplementedError, match="meta tensor"):
        bundle.recorder.read(4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_cuda_sees_no_synchronisation(tiny, make_job):
    job = make_job(0, tiny)
    device = torch.device("cuda")
    bundle = Bundle([job], [fresh_state(job)], 0, Place(device))
    bundle.recorder = telemetry.Recorder(bundle.setup.model, bundle.plan, 1, 4, device)
    block = bundle.inputs(range(4))
    train_step(bundle, block, 0, 0)  # libraries start up
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(1, 4):
            train_step(bundle, block, step, step)
    finally:
        torch.cuda.set_sync_debug_mode("default")
