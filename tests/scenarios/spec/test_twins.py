"""Every catalogue entry: the faulty run is bitwise its twin before the onset, and differs from then on."""

import numpy as np
import pytest

from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.sizes import healthy
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.spec.faults import Clock, FaultKind
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.loop import train

pytestmark = pytest.mark.catalogue

STEPS = 24
SHORT = (f"steps={STEPS}", "data.rows=4", "evaluation.every=10", "evaluation.rows=4", "schedule.warmup_steps=10")

# The fault is in force from the onset on, and what a run records shows it a little later.
LATER = {
    "benign_bimodal_loss": "the first batch may be of the usual kind",
    "benign_older_index": "at the next evaluation",
    "benign_epoch_staircase": "the first epoch is the twin's",
    "ddp_loss_scale_inconsistent": "from the first overflow on",
    "diffusion_no_ema": "at the next evaluation",
    "ema_misused": "at the next evaluation",
    "retrieval_stale_index": "at the next time that the index would be made",
    "gradients_not_cleared": "the onset's gradient is still there a step later",
    "kv_cache_leak": "at the next evaluation",
    "kv_cache_off_by_one": "at the next evaluation",
    "kv_cache_stale": "at the next evaluation",
    "kv_cache_truncated": "at the next evaluation",
    "log_nan_as_zero": "from the first loss that is not finite on",
    "log_rows_missing": "from the first row that is missing on",
    "momentum_too_high": "the first update from an empty moment is the same",
    "schedule_floor_early": "after the warm-up",
    "schedule_wrong_total": "the first step's rate is the same",
}

# Cures that show one step later.
CURED_LATER = {"fp8_scale_stale": "the scales of a step are of the steps before it"}


def short(name, steps=STEPS):
    """Overrides of a short run of a scenario; two groups of answers are sixteen rows."""
    entry = scenarios()[name]
    grouped = entry.base(healthy(entry.sizes[0])).objective is ObjectiveKind.POLICY
    return (f"steps={steps}", "data.rows=16" if grouped else SHORT[1], *SHORT[2:])


def first_difference(a, b) -> int | None:
    """The first step at which some signal is not bitwise the same."""
    count = min(len(a.trace), len(b.trace))
    steps = [
        int(np.flatnonzero(differs)[0])
        for name, values in a.trace.signals.items()
        for differs in [
            ~((values[:count] == b.trace[name][:count]) | (np.isnan(values[:count]) & np.isnan(b.trace[name][:count])))
            .reshape(count, -1)
            .all(1)
        ]
        if differs.any()
    ]
    return min(steps) if steps else None


@pytest.mark.parametrize("name", scenarios())
def test_twin_before_the_onset_and_not_from_it_on(name):
    entry = scenarios()[name]
    specs = {spec.role: spec for spec in family_of(name, [3], overrides=short(name))}
    results = dict(zip(specs, train([spec.job() for spec in specs.values()]), strict=True))
    faulty = results[Role.FAULTY]
    if entry.own_twin:
        assert specs[Role.FAULTY].job().changes == ()
        assert Role.TWIN not in specs
        return
    differs = first_difference(faulty, results[Role.TWIN])
    if name in LATER:
        # In a short run no overflow need come.
        assert (differs is None) == (name in ("ddp_loss_scale_inconsistent", "log_nan_as_zero"))
        assert differs is None or differs > specs[Role.FAULTY].onset
        return
    assert differs == specs[Role.FAULTY].onset
    if Role.CURED in specs:
        cure_step = specs[Role.CURED].cure_step + (name in CURED_LATER)
        parts = first_difference(results[Role.CURED], faulty)
        assert parts == (cure_step if cure_step < len(faulty.trace) else None)


# Steps from the onset on in which severities part, where that hangs on rare draws or on what is seldom done.
RARELY = {"targets_all_masked": 20, "speech_noisy_transcripts": 18, "retrieval_stale_index": 55}
LONGER = {"retrieval_stale_index": 80}  # steps of a run, where the usual ones are too few


@pytest.mark.parametrize("name", [name for name, entry in scenarios().items() if entry.severities])
def test_severities_part_at_the_onset(name):
    entry = scenarios()[name]
    steps = LONGER.get(name, STEPS)
    specs = [
        family_of(name, [3], severity=level, overrides=short(name, steps), roles=(Role.FAULTY,))[0]
        for level in entry.severities
    ]
    assert len({spec.onset for spec in specs}) == 1
    stop = min(steps, specs[0].onset + RARELY.get(name, 8))
    results = train([spec.job() for spec in specs], stop=stop)
    assert all(len(result.trace) == stop for result in results)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        parts = first_difference(results[a], results[b])
        assert parts is not None
        assert parts >= specs[0].onset


FIELDS = ("inputs", "targets", "weights", "documents")


def equal_batches(a, b) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in FIELDS)


# Where batches are not the whole fault, it begins with the rest of it.
@pytest.mark.parametrize(
    "name",
    [name for name, entry in scenarios().items() if entry.kinds == (FaultKind.DATA,) and name not in LATER],
)
def test_the_onset_is_the_first_damaged_batch_whatever_is_drawn(name):
    for level in scenarios()[name].severities or (None,):
        for spec in family_of(name, range(12), severity=level, overrides=short(name), roles=(Role.FAULTY,)):
            job, step = spec.job(), spec.onset
            if any(isinstance(at.change, Clock) for at in job.changes):
                continue  # late batches, but the same
            for s in range(max(0, step - 1), step + 1):
                planned = Job("", job.seed, job.setup).segment(s).setup  # pairs may have taken the place of text
                own = training_block(planned, job.seed, range(s, s + 1))
                same = equal_batches(job.batches(range(s, s + 1)), own)
                assert same == (s < step)


@pytest.mark.parametrize("name", scenarios())
def test_onset_lies_in_the_documented_window(name):
    entry = scenarios()[name]
    steps = entry.base(healthy(entry.sizes[0])).steps
    onsets = [entry.onset_step(seed, steps) for seed in range(300)]
    assert onsets == [entry.onset_step(seed, steps) for seed in range(300)]
    if entry.onset is None:
        assert set(onsets) == {0}
        return
    low, high = int(entry.onset.earliest * steps), int(entry.onset.latest * steps)
    assert low <= min(onsets) <= max(onsets) <= high
    # An even draw from at most 120 steps leaves out the ends' fifths with probability .8 ** 300.
    assert min(onsets) < low + (high - low) / 5
    assert max(onsets) > high - (high - low) / 5
