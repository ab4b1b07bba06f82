"""One run as the training loop takes it: a healthy setup, a seed, and the changes to it."""

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import torch

from trainwreck.models.config import Format, OptimizerKind
from trainwreck.models.optim import Storage
from trainwreck.models.parametrization import Parametrization, Updates
from trainwreck.models.tables import Tables, healthy_tables
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.schedule import learning_rate
from trainwreck.scenarios.config.settings import LossForm, Reduction, Setup, check, essence, fingerprint
from trainwreck.scenarios.data.batch import Batch, stacked
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.data.sources.selection import end_token
from trainwreck.scenarios.spec.exchange import Exchange
from trainwreck.scenarios.spec.faults import At, LogEdit, Row, StateEdit
from trainwreck.scenarios.spec.planned import planned


@dataclass(frozen=True)
class Program:
    """What runs must share to be stepped as one: shapes, modules and which work there is to do."""

    model: str  # fingerprint of the model's structure
    format: Format
    optimizer: OptimizerKind
    storage: Storage
    loss: LossForm
    rows: int
    evaluation: tuple[int, int, int, bool]  # when, on how many rows, the last step, and whether on fresh rows too
    evaluated: tuple[bool, bool]  # with dropout, the average of the weights
    leaky: bool
    causal: bool
    extras: tuple[str, ...]  # optional tensors that steer the model or its updates
    dropout: bool
    z_loss: bool
    smoothed: bool
    reduction: Reduction
    scaled: bool
    coupled: bool
    update_clip: bool
    ranks: int
    late: bool
    end: int | None  # the token that ends an answer, of data with answers
    objective: ObjectiveKind
    scheduled_sampling: bool  # training reads some tokens of the model's own
    flush: bool  # nothing is cached from one evaluation to the next
    pairs: bool  # training is on pairs of answers, against a reference
    rewarded: int  # answers to a prompt, where training is by their rewards; else 0
    bonus: bool  # the entropy of the policy has a coefficient


@dataclass(frozen=True)
class Segment:
    """A stretch of steps in which nothing about a run changes but its learning rate and its data."""

    start: int
    setup: Setup
    tables: Tables  # leading axis 1, as in the next two
    parametrization: Parametrization
    updates: Updates
    exchange: Exchange
    program: Program


@dataclass(frozen=True)
class Job:
    """A run to train. `changes` are in order; a later one acts on what an earlier one left.

    What the setup itself has planned for mid-run is made before all of them.
    """

    run_id: str
    seed: int
    setup: Setup
    changes: tuple[At, ...] = ()

    @cached_property
    def made(self) -> tuple[At, ...]:
        """Every change of the run: those that its setup has planned, and its own."""
        return (*planned(self.setup, self.seed), *self.changes)

    @cached_property
    def segments(self) -> list[Segment]:
        """From step 0, one for every step at which a change starts or ends. InputError for a bad setting."""
        cuts = {0}.union(*({at.step, at.until or 0} for at in self.made))
        return [self._segment(start) for start in sorted(cuts) if start < self.setup.steps]

    def segment(self, step: int) -> Segment:
        """The segment that a step is in."""
        return [s for s in self.segments if s.start <= step][-1]

    def active(self, step: int) -> list[At]:
        """The changes in force at a step."""
        return [at for at in self.made if at.step <= step and (at.until is None or step < at.until)]

    def past(self, step: int) -> list[At]:
        """The changes made up to a step, each with its end where that has come."""
        begun = [at for at in self.made if at.step <= step]
        return [dataclasses.replace(at, until=None) if (at.until or 0) > step else at for at in begun]

    def resumes(self, step: int) -> list[At]:
        """The state edits made at a step."""
        return [at for at in self.made if at.step == step and isinstance(at.change, StateEdit)]

    def seconds(self, seconds: float, step: int) -> float:
        """What a step takes on the modelled clock, changes included; `seconds` is what the work itself takes."""
        for at in self.active(step):
            seconds = at.change.seconds(seconds, step, at.step)
        return seconds

    def snapshots(self) -> set[int]:
        """Steps whose state some state edit wants to see."""
        return {s for at in self.made for s in at.change.needs(at.step)}

    def batches(self, steps: range) -> Batch:
        """The batches of a range of steps within a segment, arrays [S, B, T], data faults applied."""
        active, places = self.active(steps.start), self.places(steps)
        block = self.sampled(self.segment(steps.start).setup, places)
        if not active:
            return block
        changed = []
        for index, step in enumerate(places):
            batch = block.at(index)
            for at in active if places == steps else self.active(step):
                batch = at.change.batch(batch, step, at.step, self.seed)
            changed.append(batch)
        return stacked(changed)

    def places(self, steps: range) -> range:
        """The steps whose data a range of steps within a segment has."""
        first = steps.start
        for at in self.active(first):
            first = at.change.data_step(first)
        return range(first, first + len(steps))

    def sampled(self, setup: Setup, steps: range) -> Batch:
        """What `batches` is made of: the batches that a setup has at some steps, [S, B, T]."""
        return training_block(setup, self.seed, steps)

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step, changes included."""
        setup = self.segment(step).setup
        rate = learning_rate(setup, step)
        for at in self.active(step):
            rate = at.change.learning_rate(rate, step, at.step, setup)
        return rate

    @cached_property
    def edits_log(self) -> bool:
        """Whether what is logged of some step is not what happened."""
        return any(isinstance(at.change, LogEdit) for at in self.made)

    def logged(self, row: Row, before: list[Row], step: int) -> Row:
        """What is logged of a step; before: the rows logged so far, of the steps up to it."""
        for at in self.active(step):
            row = at.change.logged(row, before, step, at.step)
        return row

    def _segment(self, start: int) -> Segment:
        setup = self.setup
        for at in self.active(start):
            setup = at.change.setup(setup)
        check(setup)
        tables, parametrization, updates = healthy_tables(setup.model, 1), Parametrization(), Updates()
        exchange = Exchange.healthy(setup.distributed.ranks)
        for at in self.active(start):
            tables = at.change.tables(tables, setup)
            parametrization = at.change.parametrization(parametrization, setup)
            updates = at.change.updates(updates, setup)
            exchange = at.change.exchange(exchange)
        work = program(setup, tables, parametrization, updates, exchange)
        return Segment(start, setup, tables, parametrization, updates, exchange, work)


def program(
    setup: Setup,
    tables: Tables,
    parametrization: Parametrization | None = None,
    updates: Updates | None = None,
    exchange: Exchange | None = None,
) -> Program:
    """What a setup needs done at each step."""
    structure = {k: v for k, v in essence(setup.model).items() if k not in ("init", "rope_base")}
    precision = setup.precision
    return Program(
        model=fingerprint(structure),
        format=precision.format,
        optimizer=setup.optimizer.kind,
        storage=Storage(precision.weights, precision.second_moments),
        loss=setup.loss,
        rows=setup.data.rows,
        evaluation=(setup.evaluation.every, setup.evaluation.rows, setup.steps, setup.evaluation.fresh),
        evaluated=(setup.evaluation.dropout and setup.dropout > 0, setup.evaluation.average > 0),
        leaky=leaks(tables, setup.model.causal),
        causal=is_causal(tables),
        extras=tuple(name for part in (tables, parametrization, updates) for name in extras(part)),
        dropout=setup.dropout > 0,
        z_loss=setup.z_loss > 0,
        smoothed=setup.label_smoothing > 0,
        reduction=setup.reduction,
        scaled=precision.dynamic or precision.loss_scale != 1.0,
        coupled=setup.optimizer.coupled,
        update_clip=setup.optimizer.update_clip is not None,
        ranks=setup.distributed.ranks,
        late=exchange is not None and exchange.is_late,
        end=end_token(setup.data),
        objective=setup.objective,
        scheduled_sampling=setup.decoding.scheduled_sampling > 0,
        flush=setup.decoding.flush,
        pairs=setup.preferences.begun,
        rewarded=setup.policy.group if setup.policy.begun else 0,
        bonus=setup.policy.entropy != 0,
    )


def extras(part: Tables | Parametrization | Updates | None) -> list[str]:
    """The optional tensors that are there, by name."""
    if part is None:
        return []
    optional = [f.name for f in dataclasses.fields(part) if f.default is None]
    return [name for name in optional if getattr(part, name) is not None]


def leaks(tables: Tables, is_decoder: bool = True) -> bool:
    """Whether a query can see the future, where that is to be hidden, or another document.

    One that may not even see itself has nothing allowed at a document's start, and so sees all.
    """
    allowed = tables.allowed_NTS
    if not is_decoder:
        return not bool(tables.documents_N.all()) or not bool(allowed.all())
    causal = not bool(allowed.triu(1).any()) and bool(allowed.diagonal(dim1=1, dim2=2).all())
    return not causal or not bool(tables.documents_N.all())


def is_causal(tables: Tables) -> bool:
    """Whether the mask is the causal one, no more and no less, and documents are kept apart."""
    allowed = tables.allowed_NTS
    return bool((allowed == torch.ones_like(allowed[0]).tril()).all()) and bool(tables.documents_N.all())
