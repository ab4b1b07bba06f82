"""The training loop: runs, from step 0 or from checkpoints, to traces.

Time is cut wherever something about some run changes. Runs of one program are stepped as one bundle (`slots`). Runs
that have been the same so far, such as a run and its twin before the onset, are trained once until they part. The loop
knows no scenario: it asks each change what it does.

Jobs of several ranks are handed to as many processes, each of which runs this same loop over them.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from trainwreck.evaluation.dataset.schema import EVALUATIONS, SIGNALS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Format, ModelConfig
from trainwreck.models.parameters import at_the_mean, carried_over, initial_parameters, layout, norm_names
from trainwreck.models.precision import empty_history
from trainwreck.scenarios.config.settings import as_dict
from trainwreck.scenarios.spec.faults import Row, State
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.block import Recorded, start_block
from trainwreck.scenarios.training.bundle import BLOCK, Place
from trainwreck.scenarios.training.distributed.group import Group
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.slots import Run, Slots


@dataclass
class Result:
    """What a run left: its telemetry from the step it was entered at, and the states asked for."""

    trace: Trace
    first_step: int
    states: dict[int, State] = field(default_factory=dict)


def fresh_state(job: Job, dtype: torch.dtype = torch.float32) -> State:
    """Parameters, zero moments, the initial loss scale and an empty history of float8 of a run at step 0."""
    setup = job.segment(0).setup
    parameters = initial_parameters(setup.model, [job.seed], dtype)[0]
    zero = torch.zeros((), dtype=dtype)
    in_float8 = setup.precision.format is Format.FP8
    return {
        "parameters": parameters,
        "first": torch.zeros_like(parameters),
        "second": torch.zeros_like(parameters),
        "count": zero,
        "loss_scale": torch.full((), setup.precision.loss_scale, dtype=dtype),
        "good_steps": zero.clone(),
        **({"amax_history": empty_history(setup.model, dtype)} if in_float8 else {}),
    }


def train(
    jobs: list[Job],
    *,
    enter: dict[str, tuple[int, State]] | None = None,
    keep: Mapping[str, Iterable[int]] | None = None,
    earlier: dict[str, dict[int, State]] | None = None,
    stop: int | dict[str, int] | None = None,
    device: str = "cpu",
    impl: str | None = None,
    dtype: torch.dtype = torch.float32,
    record: bool = True,
    progress: Callable[[int], Any] | None = None,
    watch: Callable[[Trace], Any] | None = None,
    group: Group | None = None,
    graphs: bool = True,
    reserve: bool | None = None,
    ahead: bool | None = None,
    built: Callable[[int], Any] | None = None,
) -> list[Result]:
    """Train jobs side by side; one result a job, in order.

    enter: run_id to (step, state) to go on from. keep: run_id to steps whose state, before the step,
    is returned. earlier: run_id to states of steps before it was entered, for changes that look back.
    stop: train up to this step only, or run_id to it. impl: of the kernels, by the rule of
    `trainwreck.kernels.selection` where None. progress: called with the run-steps just done.
    watch: called with what each run recorded in the steps just done, block by block.
    group: the ranks of which this process is one; where it is None, jobs of several ranks are trained
    by processes started for them. graphs: on a CUDA device, steps that can be are captured as CUDA graphs, which
    changes no number. reserve: bundles have a slot for every run that will have their program (`slots`); on a device
    where None. ahead: the inputs of a block are sampled while the one before it trains; on a device where None, which
    changes no number. built: called with the number of bundles that were built.
    Numbers of a run don't depend on the other jobs, on where it was entered or on `stop`, nor on how many threads this
    process had: it is left with one.
    """
    prepare()
    enter, keep, earlier = enter or {}, keep or {}, earlier or {}
    if group is None and any(job.setup.distributed.ranks > 1 for job in jobs):
        from trainwreck.scenarios.training.distributed.launch import train_apart

        options = {"earlier": earlier, "stop": stop, "device": device, "impl": impl, "dtype": dtype, "record": record}
        return train_apart(train, jobs, enter, keep, options, progress, watch)
    ahead = device != "cpu" if ahead is None else ahead
    place = Place(torch.device(device), dtype, impl, group, graphs and device.startswith("cuda"), ahead)
    runs = []
    for job in jobs:
        entered, state = enter.get(job.run_id) or (0, fresh_state(job, dtype))
        state = state if group is None else group.own(state)
        wanted = set(keep.get(job.run_id, ())) | job.snapshots()
        until = stop.get(job.run_id) if isinstance(stop, dict) else stop
        last = job.setup.steps if until is None else min(job.setup.steps, until)
        if last <= entered:
            raise ValueError(
                f"stop: {last} is not allowed for a run entered at {entered}; allowed: {entered + 1} or more"
            )
        given = (id(enter[job.run_id][1]), id(earlier.get(job.run_id))) if job.run_id in enter else ()
        origin = (job.seed, json.dumps(as_dict(job.setup), sort_keys=True), entered, *given)
        runs.append(Run(job, state, entered, last, wanted, origin, kept=dict(earlier.get(job.run_id, {}))))
    cuts = sorted(
        {r.entered for r in runs}
        | {r.stop for r in runs}
        | {s.start for r in runs for s in r.job.segments}
        | {s for r in runs for s in r.keep}
    )
    late = _is_read_late(place)
    slots = Slots(runs, place, place.device.type != "cpu" if reserve is None else reserve)
    under_way: list[_Block] = []
    step = min(r.entered for r in runs)
    while True:
        for run in runs:
            if run.entered <= step <= run.stop and _is_due(run, step):
                slots.take(run)
                before = run.state
                _arrive(run, step, place)
                run.edited = run.edited or run.state is not before
        live = [r for r in runs if r.entered <= step < r.stop]
        if not live and all(r.entered <= step for r in runs):
            break
        slots.arrange(live, step)
        until = min([c for c in cuts if c > step])
        while step < until and slots.active():
            steps, begun = range(step, min(step + BLOCK, until)), []
            following = range(steps.stop, min(steps.stop + BLOCK, until))
            for members in slots.active():
                read = start_block(members.bundle, steps, record, following)
                block = _Block(steps, members.present(), read)
                if late:
                    begun.append(block)
                else:
                    _collect(block, record, watch)
                if progress:
                    progress(sum(len(runs) for _, runs in block.runs) * len(steps))
            for block in under_way:
                _collect(block, record, watch)
            under_way, step = begun, steps.stop
            if step < until and any(r.stop <= step for r in live):
                live = [r for r in live if r.stop > step]
                slots.arrange(live, step)
        step = until
    for block in under_way:
        _collect(block, record, watch)
    if built:
        built(slots.built)
    return [_result(run, record) for run in runs]


@dataclass
class _Block:
    """Steps that were asked for: of which runs each slot is, and what waits for their numbers."""

    steps: range
    runs: list[tuple[int, list[Run]]]
    read: Callable[[], Recorded]


def _is_read_late(place: Place) -> bool:
    """Whether a block is read when the next one is asked for, while a device computes."""
    return place.device.type != "cpu"


def _is_due(run: Run, step: int) -> bool:
    """Whether a run's state is asked for or changed before a step."""
    if run.job.resumes(step) or (step in run.keep and step not in run.kept):
        return True
    within = run.entered < step < run.job.setup.steps
    return within and run.job.segment(step - 1).setup.model != run.job.segment(step).setup.model


def _arrive(run: Run, step: int, place: Place) -> None:
    """Another model's weights, resumes and snapshots due before a step.

    All ranks resume from one checkpoint, which the first one saved.
    """
    if run.entered < step < run.job.setup.steps:
        before, model = (run.job.segment(at).setup.model for at in (step - 1, step))
        run.state = refitted(run.state, before, model, run.job.seed)
    for at in run.job.resumes(step):
        if step > run.entered or step == 0:
            if place.group is not None and at.change.resume:
                run.state = place.group.first(run.state, place.device)
            saved = load_tensors(save_tensors({k: v.contiguous() for k, v in run.state.items()}))
            earlier = {s: {k: v.cpu() for k, v in state.items()} for s, state in {step: run.state, **run.kept}.items()}
            run.state = at.change.state(saved, earlier, step)
    if step in run.keep and step not in run.kept:
        run.kept[step] = {k: v.clone() for k, v in run.state.items()}
        if place.group is not None:
            run.kept[step] = place.group.whole(run.kept[step], place.device)


def refitted(state: State, before: ModelConfig, model: ModelConfig, seed: int) -> State:
    """A state in the layout of another model: what is new in it starts as it does at step 0.

    New rows of a table start at the mean of the old ones, or are drawn with the spread that the model says.
    """
    old, new = layout(before), layout(model)
    if old.shapes == new.shapes:
        return state
    spread, held = model.init.new_rows_std, state["parameters"]
    init = dataclasses.replace(model.init, embedding_std=spread, head_std=spread) if spread else model.init
    drawn = dataclasses.replace(model, init=init)
    fresh = initial_parameters(drawn, [seed], held.dtype)[0].to(held.device)
    state = dict(state)
    for name in state.keys() & {"parameters", "average"}:
        state[name] = carried_over(state[name], old, new, fresh)
        state[name] = state[name] if spread else at_the_mean(state[name], model, before.vocab_size)
    for name in state.keys() & {"first", "second", "carried", "held"}:
        none = fresh.new_zeros(*state[name].shape[:-1], new.size)
        state[name] = carried_over(state[name], old, new, none)
    if norm_names(before) != norm_names(model):
        state.pop("running", None)
    if before.layers != model.layers:
        state.pop("amax_history", None)
    return state


def _collect(block: _Block, record: bool, watch: Callable[[Trace], Any] | None) -> None:
    """Wait for a block, and give each run its part."""
    signals, evaluated = block.read()
    first = block.steps.start
    for index, runs in block.runs:
        for run in runs:
            if signals:
                run.parts.append(signals[index])
                _end_after_nonfinite(run)
            run.evaluations.update({s: v[index] for s, v in evaluated.items()})
        for run in runs:
            if watch and record and first < run.stop:
                watch(_recorded(run, [signals[index]], first, min(block.steps.stop, run.stop)))


def _end_after_nonfinite(run: Run) -> None:
    """Stop a run once its loss has not been finite for `tail` + 1 steps in a row, wherever blocks end."""
    bad = ~np.isfinite(np.concatenate([p["loss"] for p in run.parts]))
    step = np.arange(1, len(bad) + 1)
    spell = step - np.maximum.accumulate(np.where(bad, 0, step))  # steps in a row, up to and with each
    ended = np.flatnonzero(spell > run.job.setup.tail)
    if len(ended):
        run.stop = min(run.stop, run.entered + int(ended[0]) + 1)


def _result(run: Run, record: bool) -> Result:
    trace = _recorded(run, run.parts if record else [], run.entered, run.stop)
    kept = {step: state for step, state in run.kept.items() if step <= run.stop}
    objective = run.job.setup.objective.value
    return Result(Trace(run.job.run_id, trace.signals, trace.evaluated, objective=objective), run.entered, kept)


def logged(job: Job, columns: Mapping[str, np.ndarray], first: int) -> dict[str, np.ndarray]:
    """Signals of a run from step `first` on, [S] or [S, K], as a job that edits its log has them logged."""
    rows: list[Row] = []
    for index in range(len(next(iter(columns.values())))):
        row = {name: values[index] for name, values in columns.items()}
        rows.append(job.logged(row, rows, first + index))
    return {name: np.stack([row[name] for row in rows]).astype(np.float32) for name in columns}


def _recorded(run: Run, parts: list[dict[str, np.ndarray]], first: int, stop: int) -> Trace:
    """Telemetry from step `first` to before `stop`, of blocks that begin there; no signal where there are none."""
    count = max(stop - first, 0)
    if parts and run.job.edits_log:
        columns = {name: np.concatenate([part[name] for part in run.parts]) for name in run.parts[0]}
        until = {name: values[: stop - run.entered] for name, values in columns.items()}
        parts = [{name: v[first - run.entered :] for name, v in logged(run.job, until, run.entered).items()}]
    evaluated = np.zeros(count, bool)
    signals: dict[str, np.ndarray] = {}
    if parts:
        for signal in SIGNALS:
            if signal.name not in EVALUATIONS:
                joined = np.concatenate([p[signal.name] for p in parts])
                signals[signal.name] = joined[:count].astype(np.float32)
        losses = np.full((len(EVALUATIONS), count), np.nan, np.float32)
        for step, values in run.evaluations.items():
            if first <= step < stop:
                losses[: len(values), step - first] = values
                evaluated[step - first] = True
        signals.update(zip(EVALUATIONS, losses, strict=True))
    return Trace(run.job.run_id, signals, evaluated, np.arange(first, first + count))
