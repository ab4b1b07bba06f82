"""Runs that are the same until they part are trained once until then, and come out as if each were alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import At, Scaled, Setting, StateEdit
from trainwreck.scenarios.training import loop
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.loop import train


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Run-steps that were in fact computed, block by block."""
    done: list[int] = []
    start = loop.start_block

    def counted(bundle: Bundle, steps: range, *options: Any) -> Any:
        done.append(len(bundle.jobs) * len(steps))
        return start(bundle, steps, *options)

    monkeypatch.setattr(loop, "start_block", counted)
    return done


def poison(state: dict[str, torch.Tensor], earlier: object) -> dict[str, torch.Tensor]:
    return {**state, "parameters": torch.full_like(state["parameters"], torch.nan)}


def trained(jobs: list[Any], **options: Any) -> tuple[list[Any], int]:
    steps: list[int] = []
    results = train(jobs, keep={job.run_id: [job.setup.steps] for job in jobs}, progress=steps.append, **options)
    return results, sum(steps)


def test_twin_faulty_and_cured_share_their_past(tiny, make_job, differing, equal_states, work) -> None:
    fault, cure = At(8, Scaled("optimizer.lr", 30.0)), At(14, Scaled("optimizer.lr", 1 / 30.0))
    jobs = [
        make_job(1, tiny, name="twin"),
        make_job(1, tiny, fault, name="faulty"),
        make_job(1, tiny, fault, cure, name="cured"),
        make_job(2, tiny, name="of another seed"),
        make_job(1, replaced(tiny, optimizer__lr=2e-3), name="of another setup"),
    ]
    together, steps = trained(jobs)
    assert steps == 5 * tiny.steps  # progress is in runs, however they were made
    assert sum(work) == 8 * 3 + (14 - 8) * 4 + (20 - 14) * 5
    for job, result in zip(jobs, together, strict=True):
        alone = trained([job])[0][0]
        assert differing(alone, result) == []
        assert alone.trace.evaluated.tolist() == result.trace.evaluated.tolist()
        assert equal_states(alone.states[20], result.states[20])
    assert differing(together[0], together[1], 0, 8) == []
    assert differing(together[0], together[1], 8)


def test_a_run_whose_change_has_ended_is_not_its_twin(tiny, make_job, differing, work) -> None:
    fault = At(4, Scaled("optimizer.lr", 30.0))
    faulty, cured = make_job(1, tiny, fault, name="faulty"), make_job(1, tiny, At(4, fault.change, 9), name="cured")
    together, _ = trained([make_job(1, tiny, name="twin"), faulty, cured])
    assert sum(work) == 4 + (9 - 4) * 2 + (20 - 9) * 3
    assert differing(trained([cured])[0][0], together[2]) == []
    assert differing(together[1], together[2], 0, 9) == []
    assert (together[2].trace["lr"][9:] == together[0].trace["lr"][9:]).all()
    assert differing(together[0], together[2], 9)


def test_each_run_is_watched(tiny, make_job) -> None:
    seen: dict[str, int] = {}

    def watch(block: Trace) -> None:
        seen[block.run_id] = seen.get(block.run_id, 0) + len(block)

    train([make_job(1, tiny, name="a"), make_job(1, tiny, At(5, Scaled("optimizer.lr", 2.0)), name="b")], watch=watch)
    assert seen == {"a": 20, "b": 20}


def test_runs_that_end_early_end_together_and_leave_the_others(tiny, make_job, differing) -> None:
    dies = At(4, StateEdit(poison))
    jobs = [make_job(1, tiny, dies, At(12, Setting("dropout", 0.1)), name="a"), make_job(1, tiny, dies, name="b")]
    first, second, healthy = train([*jobs, make_job(1, tiny, name="c")])
    assert len(first.trace) == len(second.trace) == 4 + tiny.tail + 1
    assert len(healthy.trace) == 20
    assert differing(train([jobs[1]])[0], second) == []


def test_the_same_changes_from_other_states_are_not_the_same(tiny, make_job, equal_states, work) -> None:
    states = [train([make_job(seed, tiny)], keep={f"run-{seed}": [10]}, stop=11)[0].states[10] for seed in (1, 2)]
    del work[:]
    jobs = [make_job(1, tiny, name="a"), make_job(1, tiny, name="b"), make_job(1, tiny, name="c")]
    enter = {"a": (10, states[0]), "b": (10, states[1]), "c": (10, states[0])}
    (a, b, c), _ = trained(jobs, enter=enter)
    assert sum(work) == 2 * 10
    assert equal_states(a.states[20], c.states[20])
    assert not equal_states(a.states[20], b.states[20])


def test_changes_that_cannot_be_compared_are_trained_apart(tiny, make_job, differing, work) -> None:
    class Uncomparable(Scaled):
        __hash__: Callable[[], int] = None  # type: ignore[assignment]

    jobs = [make_job(1, tiny, At(0, Uncomparable("optimizer.lr", 1.0)), name=name) for name in ("a", "b")]
    first, second = train(jobs)
    assert sum(work) == 2 * 20
    assert differing(first, second) == []
