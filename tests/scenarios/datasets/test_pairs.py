"""The pairs of `standard`: both faults are in force together, and each cure ends its own fault alone.

Whether a fault is in force at a step is read off the numbers of a few training steps from there on: they are compared
with those of the same run without that fault, from the same state but for what the fault itself does to states.
"""

import dataclasses
import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from trainwreck.kernels.random import generator
from trainwreck.scenarios.datasets.draws import pairs
from trainwreck.scenarios.datasets.standard_plan import FIRST_SEED, pair_cases
from trainwreck.scenarios.spec.faults import StateEdit
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.run_spec import Role, Split, family_of
from trainwreck.scenarios.training.loop import fresh_state, refitted, train

pytestmark = pytest.mark.catalogue

SMALL = ("model.width=32", "model.heads=2", "model.context=16", "data.rows=8", "evaluation.rows=8")
SEEDS = (3000, 3001)  # of all pairs; those of `standard` have seeds of their own as well
LENGTH = 2  # steps: what is kept of a gradient tells in the second
WAIT = 4  # steps from the later onset to the cure of either
OFF, FAULTY, CURED = "off", "faulty", "cured"


def moving(job, made={}):  # noqa: B006
    """Two states of a run with moments in motion: now and earlier. Equal setups have the same ones."""
    key = job.seed, repr(job.segment(0).setup)
    if key not in made:
        fresh, draw = fresh_state(job), generator(job.seed, "test/states")
        noise = torch.from_numpy(draw.standard_normal((6, *fresh["parameters"].shape))).float()
        # Between ranks whose gradients overflow and ranks whose do not.
        several = job.setup.distributed.ranks > 1 and job.setup.precision.dynamic
        scale = {"loss_scale": torch.tensor(2.0**17.6)} if several else {}
        made[key] = [
            {
                **fresh,
                "parameters": fresh["parameters"] + 0.02 * parameters,
                "first": 0.01 * first,
                "second": (0.02 * second).square(),
                "count": torch.tensor(20.0),
                **scale,
            }
            for parameters, first, second in (noise[:3], noise[3:])
        ]
    return made[key]


def state_at(job, step, left_out):
    """A state, and what the state edits until a step make of it, but for those at some steps."""
    states, before = moving(job), job.segment(0).setup.model

    def refit(at):
        nonlocal states, before
        model = job.segment(at).setup.model
        states, before = [refitted(state, before, model, job.seed) for state in states], model

    for at in job.changes:
        if isinstance(at.change, StateEdit) and at.step <= step and at.step not in left_out:
            refit(at.step)
            state, other = states
            states[0] = at.change.state(state, dict.fromkeys(at.change.needs(at.step), other), at.step)
    refit(step)
    return states[0]


@dataclass
class Case:
    """A pair at a seed.

    jobs, numbers: of the runs that were asked for, by their name. The rest has runs to compare by the fault that they
    differ in: together, beside the other fault; alone, beside the other one cured; acts, cured and not; healed, cured
    and without it, by itself and beside the other fault.
    """

    id: str
    seed: int
    jobs: dict[str, tuple[Job, int, dict]] = field(default_factory=dict)
    numbers: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    together: dict[str, list] = field(default_factory=dict)
    alone: dict[str, list] = field(default_factory=dict)
    acts: dict[str, list] = field(default_factory=dict)
    healed: dict[str, list] = field(default_factory=dict)

    def __post_init__(self):
        (self.spec,) = family_of(self.id, [self.seed], overrides=SMALL, roles=(Role.FAULTY,))
        setup, parts, self.steps = self.spec.setup, self.spec.entry.parts, self.spec.setup.steps
        self.onset = {part.id: part.onset_step(self.seed, self.steps) for part in parts}
        self.both = max(self.onset.values())
        self.cure, self.own = {}, {}
        for part in parts:
            knobs = getattr(self.spec.knobs, part.id)
            at_once = part.onset is None and part.cure_delay(knobs) == 0
            self.cure[part.id] = 0 if at_once else self.both + WAIT
            cured = part.changes(knobs, setup, self.seed, cured=True, cure_at=self.cure[part.id])
            self.own[part.id] = {OFF: (), FAULTY: part.changes(knobs, setup, self.seed), CURED: cured}
        self.ask()

    def job(self, roles):
        if set(roles.values()) == {FAULTY}:
            return self.spec.job()
        changes = [at for id, role in roles.items() for at in self.own[id][role]]
        return Job("", self.seed, self.spec.setup, tuple(sorted(changes, key=lambda at: at.step)))

    def windows(self, start):
        """Where a few steps begin: at the start of a stretch, its middle and its end; none that a change cuts."""
        cuts = {at.step for roles in self.own.values() for at in roles[CURED]}
        wanted = (start, (start + self.steps) // 2, self.steps - LENGTH)
        return [s for s in wanted if not cuts & set(range(s + 1, s + LENGTH + 1))]

    def ask(self):
        """What has to be trained."""
        for id, other in (tuple(self.onset), tuple(self.onset)[::-1]):
            self.together[id] = [  # also from a state that the other one has not made useless
                (self.run({id: FAULTY, other: FAULTY}, t, leave), self.run({id: OFF, other: FAULTY}, t, leave))
                for t in self.windows(self.both)
                for leave in (None, other)
            ]
            self.alone[id] = [
                (self.run({id: FAULTY, other: CURED}, t, leave), self.run({id: OFF, other: CURED}, t, leave))
                for t in self.windows(max(self.both, self.cure[other]))
                for leave in (None, other)
            ]
            after = self.windows(max(self.both, self.cure[id]))[:2]
            self.acts[id] = [
                (self.run({id: CURED, other: FAULTY}, t, leave), self.run({id: FAULTY, other: FAULTY}, t, leave))
                for t in after
                for leave in (None, other)
            ]
            self.healed[id] = [
                (
                    (self.run({id: CURED, other: OFF}, t, id), self.run({id: OFF, other: OFF}, t)),
                    (self.run({id: CURED, other: FAULTY}, t, id), self.run({id: OFF, other: FAULTY}, t)),
                )
                for t in after
            ]

    def run(self, roles, step, leave=None):
        """The name of a run that is entered at a step. leave: a part whose state edits are not made."""
        edits = {at.step for at in self.own[leave][roles[leave]] if isinstance(at.change, StateEdit)} if leave else {}
        name = f"{self.id} {self.seed} {sorted(roles.items())} {step} {leave if edits else None}"
        if name not in self.jobs:
            job = dataclasses.replace(self.job(roles), run_id=name)
            self.jobs[name] = job, step, state_at(job, step, edits)
        return name

    def apart(self, names):
        """Whether any number of two runs is further apart than rounding."""
        one, other = (self.numbers[name] for name in names)
        return any(
            one[k].shape != other[k].shape or not np.allclose(one[k], other[k], rtol=1e-3, atol=1e-7, equal_nan=True)
            for k in one.keys() & other.keys()
        )


def trained(asked):
    """Numbers of runs by name, from (job, step, state) by name."""
    results = train(
        [job for job, _, _ in asked.values()],
        enter={name: (step, state) for name, (_, step, state) in asked.items()},
        earlier={name: dict.fromkeys(job.snapshots(), state) for name, (job, _, state) in asked.items()},
        stop={name: step + LENGTH for name, (_, step, _) in asked.items()},
        keep={name: [step + LENGTH] for name, (_, step, _) in asked.items()},
    )
    found = {}
    for result, (job, step, _) in zip(results, asked.values(), strict=True):
        state = {name: value.numpy() for name, value in result.states[step + LENGTH].items()}
        batches = [vars(job.batches(range(t, t + 1))) for t in range(step, step + LENGTH)]
        inputs = {f"{name} {i}": value for i, batch in enumerate(batches) for name, value in batch.items()}
        found[job.run_id] = result.trace.signals | state | inputs
    return found


@pytest.fixture(scope="module")
def cases():
    """Each pair at its seeds in `standard` and at two more, once in every order of onsets."""
    crossed = [(one.id, FIRST_SEED[Split.TEST] + i) for one in pair_cases() for i in one.numbers(one.count)]
    made = [Case(id, seed) for id, seed in (*crossed, *itertools.product(pairs(), SEEDS))]
    made = list({(case.id, *sorted(case.onset, key=case.onset.get)): case for case in made}.values())
    numbers = trained({name: one for case in made for name, one in case.jobs.items()})
    for case in made:
        case.numbers = numbers
    return made


def unmoved(cases, which):
    """Pairs and faults whose runs are nowhere apart."""
    return [(c.id, part) for c in cases for part, runs in getattr(c, which).items() if not any(map(c.apart, runs))]


def test_from_the_later_onset_on_both_faults_are_in_force(cases):
    assert unmoved(cases, "together") == []


def test_one_cure_leaves_the_other_fault(cases):
    assert unmoved(cases, "alone") == []


def test_a_fault_whose_cure_came_is_gone(cases):
    assert unmoved(cases, "acts") == []
    whole = [
        (one.id, part, any(map(one.apart, beside)))
        for one in cases
        for part, runs in one.healed.items()
        for by_itself, beside in [zip(*runs, strict=True)]
        if not any(map(one.apart, by_itself))
    ]
    assert [(id, part) for id, part, left in whole if left] == []
    assert len(whole) > len(cases)  # most cures leave nothing of the fault
