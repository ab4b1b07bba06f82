"""The training loop: runs, from step 0 or from checkpoints, to traces.

Time is cut wherever something about some run changes. Between two cuts, runs of one program form bundles, each
stepped as one. Runs that have been the same so far, such as a run and its twin before the onset, are trained once
until they part. The loop knows no scenario: it asks each change what it does.

Jobs of several ranks are handed to as many processes, each of which runs this same loop over them.
"""

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
from trainwreck.models.parameters import carried_over, initial_parameters, layout, norm_names
from trainwreck.scenarios.config.settings import as_dict
from trainwreck.scenarios.spec.faults import State
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.block import run_block
from trainwreck.scenarios.training.bundle import BLOCK, Bundle, Place, bundle_width
from trainwreck.scenarios.training.distributed.group import Group
from trainwreck.scenarios.training.environment import prepare


@dataclass
class Result:
    """What a run left: its telemetry from the step it was entered at, and the states asked for."""

    trace: Trace
    first_step: int
    states: dict[int, State] = field(default_factory=dict)


@dataclass
class _Run:
    """A run under way."""

    job: Job
    state: State
    entered: int
    stop: int
    keep: set[int]
    origin: tuple[object, ...]  # what decides its numbers besides its changes
    parts: list[dict[str, np.ndarray]] = field(default_factory=list)
    evaluations: dict[int, np.ndarray] = field(default_factory=dict)
    kept: dict[int, State] = field(default_factory=dict)
    same: list["_Run"] = field(default_factory=list)  # runs that this one is trained for as well, until the next cut

    def all(self) -> "list[_Run]":
        return [self, *self.same]


def fresh_state(job: Job, dtype: torch.dtype = torch.float32) -> State:
    """Parameters, zero moments and the initial loss scale of a run at step 0."""
    setup = job.segment(0).setup
    parameters = initial_parameters(setup.model, [job.seed], dtype)[0]
    zero = torch.zeros((), dtype=dtype)
    return {
        "parameters": parameters,
        "first": torch.zeros_like(parameters),
        "second": torch.zeros_like(parameters),
        "count": zero,
        "loss_scale": torch.full((), setup.precision.loss_scale, dtype=dtype),
        "good_steps": zero.clone(),
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
    graphs: bool = False,
) -> list[Result]:
    """Train jobs side by side; one result a job, in order.

    enter: run_id to (step, state) to go on from. keep: run_id to steps whose state, before the step,
    is returned. earlier: run_id to states of steps before it was entered, for changes that look back.
    stop: train up to this step only, or run_id to it. impl: of the kernels, by the rule of
    `trainwreck.kernels.selection` where None. progress: called with the run-steps just done.
    watch: called with what each run recorded in the steps just done, block by block.
    group: the ranks of which this process is one; where it is None, jobs of several ranks are trained
    by processes started for them. graphs: on a CUDA device, steps that can be are captured as CUDA graphs.
    Numbers of a run don't depend on the other jobs, on where it was entered or on `stop`, nor on how many threads
    this process had: it is left with one.
    """
    prepare()
    enter, keep, earlier = enter or {}, keep or {}, earlier or {}
    if group is None and any(job.setup.distributed.ranks > 1 for job in jobs):
        from trainwreck.scenarios.training.distributed.launch import train_apart

        options = {"earlier": earlier, "stop": stop, "device": device, "impl": impl, "dtype": dtype, "record": record}
        return train_apart(train, jobs, enter, keep, options, progress, watch)
    place = Place(torch.device(device), dtype, impl, group, graphs)
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
        runs.append(_Run(job, state, entered, last, wanted, origin, kept=dict(earlier.get(job.run_id, {}))))
    cuts = sorted(
        {r.entered for r in runs}
        | {r.stop for r in runs}
        | {s.start for r in runs for s in r.job.segments}
        | {s for r in runs for s in r.keep}
    )
    step = min(r.entered for r in runs)
    while True:
        for run in runs:
            if run.entered <= step <= run.stop:
                _arrive(run, step, place)
        live = [r for r in runs if r.entered <= step < r.stop]
        waiting = [r for r in runs if r.entered > step]
        if not live and not waiting:
            break
        until = min([c for c in cuts if c > step])
        bundles = _bundles(_distinct(live, step), step, place)
        while step < until and bundles:
            steps = range(step, min(step + BLOCK, until))
            for members, bundle in bundles:
                signals, evaluated = run_block(bundle, steps, record)
                _collect(members, steps, signals, evaluated)
                if watch and record:
                    for leader, part in zip(members, signals, strict=True):
                        for run in leader.all():
                            watch(_recorded(run, [part], step, min(steps.stop, run.stop)))
                if progress:
                    progress(sum(len(leader.all()) for leader in members) * len(steps))
            step = steps.stop
            bundles = _without_ended(bundles, step, place)
        for members, bundle in bundles:
            _take_states(members, bundle)
        step = until
    return [_result(run, record) for run in runs]


def _arrive(run: _Run, step: int, place: Place) -> None:
    """Another model's weights, resumes and snapshots due before a step.

    All ranks resume from one checkpoint, which the first one saved.
    """
    if run.entered < step < run.job.setup.steps:
        _refit(run, step, place)
    for at in run.job.resumes(step):
        if step > run.entered or step == 0:
            if place.group is not None and at.change.resume:
                run.state = place.group.first(run.state, place.device)
            saved = load_tensors(save_tensors({k: v.contiguous() for k, v in run.state.items()}))
            run.state = at.change.state(saved, {step: run.state, **run.kept}, step)
    if step in run.keep and step not in run.kept:
        run.kept[step] = {k: v.clone() for k, v in run.state.items()}
        if place.group is not None:
            run.kept[step] = place.group.whole(run.kept[step], place.device)


def _refit(run: _Run, step: int, place: Place) -> None:
    """The state in the layout of the model from a step on: what is new in it starts as it does at step 0."""
    before, model = (run.job.segment(at).setup.model for at in (step - 1, step))
    old, new = layout(before), layout(model)
    if old.shapes == new.shapes:
        return
    fresh = initial_parameters(model, [run.job.seed], place.dtype)[0].to(run.state["parameters"].device)
    state = dict(run.state)
    for name in state.keys() & {"parameters", "average"}:
        state[name] = carried_over(state[name], old, new, fresh)
    for name in state.keys() & {"first", "second", "carried", "held"}:
        none = fresh.new_zeros(*state[name].shape[:-1], new.size)
        state[name] = carried_over(state[name], old, new, none)
    if norm_names(before) != norm_names(model):
        state.pop("running", None)
    run.state = state


def _distinct(live: list[_Run], step: int) -> list[_Run]:
    """One of each set of runs that have been the same until a step, and are up to the next cut; it has the others.

    The same seed, setup and changes so far, from the same state: then every number is the same. Changes are compared
    by value, closures by identity; where that takes equal ones for different, a run is trained for itself.
    """
    leaders: dict[object, _Run] = {}
    for run in live:
        run.same = []
        key = (*run.origin, *run.job.past(step))
        try:
            leader = leaders.setdefault(key, run)
        except TypeError:  # of a change that can't be hashed
            leader = leaders.setdefault(id(run), run)
        if leader is not run:
            leader.same.append(run)
    return list(leaders.values())


def _bundles(live: list[_Run], step: int, place: Place) -> list[tuple[list[_Run], Bundle]]:
    groups: dict[Any, list[_Run]] = {}
    for run in live:
        groups.setdefault(run.job.segment(step).program, []).append(run)
    chunks = []
    for group in groups.values():
        setup = group[0].job.segment(step).setup
        width = bundle_width(setup.data.rows, setup.model, place.device.type)
        chunks += [group[i : i + width] for i in range(0, len(group), width)]
    return [(c, Bundle([r.job for r in c], [r.state for r in c], step, place)) for c in chunks]


def _collect(
    group: list[_Run], steps: range, signals: list[dict[str, np.ndarray]], evaluated: dict[int, np.ndarray]
) -> None:
    for i, leader in enumerate(group):
        for run in leader.all():
            if signals:
                run.parts.append(signals[i])
                _end_after_nonfinite(run)
            run.evaluations.update({s: v[i] for s, v in evaluated.items() if s in steps})


def _take_states(group: list[_Run], bundle: Bundle) -> None:
    for leader, state in zip(group, bundle.states(), strict=True):
        for run in leader.all():
            run.state = state  # nothing writes into a state


def _end_after_nonfinite(run: _Run) -> None:
    """Stop a run once its loss has not been finite for `tail` + 1 steps in a row, wherever blocks end."""
    bad = ~np.isfinite(np.concatenate([p["loss"] for p in run.parts]))
    step = np.arange(1, len(bad) + 1)
    spell = step - np.maximum.accumulate(np.where(bad, 0, step))  # steps in a row, up to and with each
    ended = np.flatnonzero(spell > run.job.setup.tail)
    if len(ended):
        run.stop = min(run.stop, run.entered + int(ended[0]) + 1)


def _without_ended(
    bundles: list[tuple[list[_Run], Bundle]], step: int, place: Place
) -> list[tuple[list[_Run], Bundle]]:
    """Bundles without the runs that have stopped by now."""
    result = []
    for group, bundle in bundles:
        alive = [r for r in group if r.stop > step]
        if len(alive) < len(group):
            _take_states(group, bundle)
            if not alive:
                continue
            bundle = Bundle([r.job for r in alive], [r.state for r in alive], step, place)
        result.append((alive, bundle))
    return result


def _result(run: _Run, record: bool) -> Result:
    trace = _recorded(run, run.parts if record else [], run.entered, run.stop)
    return Result(Trace(run.job.run_id, trace.signals, trace.evaluated), run.entered, run.kept)


def _recorded(run: _Run, parts: list[dict[str, np.ndarray]], first: int, stop: int) -> Trace:
    """Telemetry from step `first` to before `stop`, of blocks that begin there; no signal where there are none."""
    count = max(stop - first, 0)
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
