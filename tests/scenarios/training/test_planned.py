"""What a setup has planned for mid-run: a token table that grows, and adapters on a frozen base."""

import numpy as np
import pytest
import torch

from trainwreck.evaluation.errors import InputError
from trainwreck.models.parameters import layout
from trainwreck.scenarios.config.settings import as_dict, check, essence, replaced
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.spec.planned import adapter_step, growth_step
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.training.loop import train

STEPS = 20


@pytest.fixture
def grown(tiny):
    return replaced(tiny, steps=STEPS, growth__rows=2 * tiny.model.vocab_size, growth__share=0.3)


@pytest.fixture
def adapted(tiny):
    return replaced(tiny, steps=STEPS, adapters__rank=4)


def states(job, *steps):
    return train([job], keep={job.run_id: steps})[0]


def test_new_rows_are_at_the_mean_of_the_old_ones_and_the_rest_goes_on(grown, make_job):
    job, old = make_job(3, grown), grown.model.vocab_size
    step = growth_step(3, STEPS)
    assert step == job.segments[1].start
    result = states(job, step, step + 1)
    before = states(make_job(3, replaced(grown, growth__rows=0)), step).states[step]
    plans = layout(grown.model), layout(job.segment(step).setup.model)
    for part in ("parameters", "first", "second"):
        a, b = (plan.views(s[part][None]) for plan, s in zip(plans, (before, result.states[step]), strict=True))
        for name, was in a.items():
            now = b[name][0]
            kept = now[tuple(map(slice, was[0].shape))]
            assert torch.equal(kept, was[0]), name
        for new, of in ((b["embedding.weight"][0, old:], a["embedding.weight"][0]),
                        (b["head.weight"][0].T[old:], a["head.weight"][0].T),
                        (b["head.bias"][0, old:], a["head.bias"][0])):  # fmt: skip
            expected = of.mean(0) if part == "parameters" else torch.zeros(())
            torch.testing.assert_close(new, expected.expand(new.shape))
    moved = plans[1].views(result.states[step + 1]["parameters"][None])["embedding.weight"][0, old:]
    assert len(moved.unique(dim=0)) > 1  # those that were read have got a gradient


def test_rows_of_another_spread_are_drawn(grown, make_job):
    entry = scenario("new_rows_random")
    knobs = entry.knobs_of(entry.default_severity())
    job, step = make_job(3, grown, *entry.changes(knobs, grown, 3)), growth_step(3, STEPS)
    plan, old = layout(job.segment(step).setup.model), grown.model.vocab_size
    state = states(job, step).states[step]
    w = plan.views(state["parameters"][None])
    for new in (w["embedding.weight"][0, old:], w["head.weight"][0, :, old:]):
        assert new.std() == pytest.approx(knobs.std, rel=0.1)
    healed = entry.cure(knobs, grown)[0].edit(state, state)
    rows = plan.views(healed["parameters"][None])["embedding.weight"][0]
    torch.testing.assert_close(rows[old:], rows[:old].mean(0).expand(old, -1))


def test_a_share_of_the_tokens_has_new_ids_from_then_on(grown, make_job):
    job, step, old = make_job(3, grown), growth_step(3, STEPS), grown.model.vocab_size
    for s in (step - 1, step, STEPS - 1):
        batch, plain = job.batches(range(s, s + 1)), training_block(grown, 3, range(s, s + 1))
        new = batch.inputs >= old
        assert new.any() == (s >= step)
        assert new.mean() < 0.5
        np.testing.assert_array_equal(np.where(new, batch.inputs - old, batch.inputs), plain.inputs)
        np.testing.assert_array_equal(batch.inputs[..., 1:], batch.targets[..., :-1])


def test_adapters_and_the_last_norm_train_and_nothing_else(adapted, make_job):
    job, step = make_job(3, adapted), adapter_step(3, STEPS)
    result = states(job, step, STEPS - 1, STEPS)
    plan = layout(job.segment(step).setup.model)
    first, last = (plan.views(result.states[s]["parameters"][None]) for s in (step, STEPS))
    for name in plan.shapes:
        trains = ".lora_" in name or name.startswith("final_norm")
        assert torch.equal(first[name], last[name]) != trains, name
        assert not (name.endswith(".lora_b") and first[name].any())
    norm = result.trace["adapter_norm"]
    assert np.isnan(norm[:step]).all()
    assert norm[step] == 0 < norm[step + 1]
    before = plan.views(result.states[STEPS - 1]["parameters"][None])
    total = sum(float(w.square().sum()) for k, w in before.items() if k.endswith(".lora_b"))
    assert norm[-1] == pytest.approx(total**0.5, rel=1e-5)
    batch = job.batches(range(step, step + 1))
    other = replaced(adapted, data__language_seed=1)
    np.testing.assert_array_equal(batch.inputs, training_block(other, 3, range(step, step + 1)).inputs)


@pytest.mark.parametrize("which", ["grown", "adapted"])
def test_a_run_beside_others_is_the_run_alone(which, request, tiny, make_job, differing):
    setup = request.getfixturevalue(which)
    jobs = [make_job(seed, setup) for seed in (1, 2, 3)]
    assert len({job.segments[1].start for job in jobs}) > 1  # they part and meet again
    together = train([*jobs, make_job(3, replaced(tiny, steps=STEPS))])
    for job, result in zip(jobs, together, strict=False):
        assert not differing(train([job])[0], result)


@pytest.mark.parametrize("which", ["grown", "adapted"])
def test_a_run_entered_after_it_is_the_same(which, request, make_job):
    setup = request.getfixturevalue(which)
    job = make_job(3, setup)
    step = job.segments[1].start
    whole = states(job, step - 1, step + 2)
    for entered in (step - 1, step + 2):
        late = train([job], enter={job.run_id: (entered, whole.states[entered])})[0]
        assert late.trace["loss"].tolist() == whole.trace["loss"][entered:].tolist()


def test_a_setup_without_a_plan_has_the_names_that_it_had(tiny):
    assert not {"growth", "adapters"} & set(essence(tiny))
    assert not {"lora_rank", "lora_alpha"} & set(essence(tiny.model))
    assert {"growth", "adapters"} <= set(as_dict(tiny))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"growth__rows": 16}, r"growth.rows: 16 is not allowed; allowed: 0, or model.vocab_size, \d+, and more"),
        ({"model__lora_rank": 4}, r"model.lora_rank: 4 is not allowed without a frozen base; allowed: adapters.rank=4"),
        ({"adapters__rank": 1000}, r"adapters.rank: 1000 is not allowed; allowed: 0 to model.width, \d+"),
    ],
)
def test_what_can_not_be_is_refused(tiny, settings, message):
    with pytest.raises(InputError, match=message):
        check(replaced(tiny, **settings))


@pytest.mark.parametrize("name", ["lora_gets_no_gradient", "lora_scale_wrong", "new_rows_random"])
def test_a_fault_without_what_it_is_in_is_refused(tiny, name):
    entry = scenario(name)
    with pytest.raises(InputError, match="0 is not allowed for this fault; allowed: 1 or more"):
        entry.fault(entry.knobs_of(entry.default_severity()), tiny)
