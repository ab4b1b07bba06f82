"""Two scenarios in one run: what the run is, what its label says, and which pairs are refused."""

import itertools
import json
import random

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.datasets.generate import generate, injected_facts
from trainwreck.scenarios.datasets.plans import resolve
from trainwreck.scenarios.datasets.reproduce import reproduce
from trainwreck.scenarios.proof.verify import verify
from trainwreck.scenarios.spec import compound as module
from trainwreck.scenarios.spec.compound import Compound
from trainwreck.scenarios.spec.faults import FaultKind, Scaled, Setting, Undo
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.pages import page
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, family_of
from trainwreck.scenarios.spec.scenario import MidRun, Scenario
from trainwreck.scenarios.training.loop import train

SMALL = (
    "steps=40", "model.layers=2", "model.width=16", "model.heads=2", "model.context=32", "data.rows=3",
    "evaluation.rows=4",
)  # fmt: skip


def specs_of(name, seed=0, overrides=SMALL):
    return {spec.role: spec for spec in family_of(name, [seed], overrides=overrides)}


def traces_of(specs):
    return {role: r.trace for role, r in zip(specs, train([s.job() for s in specs.values()]), strict=True)}


def test_a_pair_is_the_same_in_either_order():
    one, other = scenario("high_lr+corrupt_tokens"), scenario("corrupt_tokens+high_lr")
    assert one is other
    assert one.id == "corrupt_tokens+high_lr"
    a, b = (specs_of(name)[Role.FAULTY] for name in ("high_lr+corrupt_tokens", "corrupt_tokens+high_lr"))
    assert a == b
    assert a.run_id == b.run_id


def test_both_faults_at_their_own_onsets_and_neither_in_the_twin():
    specs = specs_of("corrupt_tokens+high_lr", seed=4)
    runs = traces_of(specs)
    faulty, twin = runs[Role.FAULTY], runs[Role.TWIN]
    onsets = {name: scenario(name).onset_step(4, 40) for name in ("high_lr", "corrupt_tokens")}
    assert scenario("corrupt_tokens+high_lr").causes(4, 40) == onsets
    assert list(onsets.values()) == sorted(onsets.values())
    first, second = onsets.values()
    assert specs[Role.FAULTY].onset == first < second
    for name in ("loss", "lr", "grad_norm", "token_entropy"):
        assert np.array_equal(faulty[name][:first], twin[name][:first])
    assert (faulty["lr"][first:] > twin["lr"][first:]).all()
    entropy = faulty["token_entropy"] != twin["token_entropy"]
    assert np.flatnonzero(entropy)[0] == second
    assert specs[Role.TWIN].job().changes == ()


def test_until_the_second_begins_it_is_a_run_of_the_first():
    pair, one = specs_of("corrupt_tokens+mask_missing", seed=1), specs_of("mask_missing", seed=1)
    assert pair[Role.TWIN].run_id == one[Role.TWIN].run_id  # both keep to the usual base
    (first, early), (_, late) = scenario("corrupt_tokens+mask_missing").causes(1, 40).items()
    runs = [specs[Role.FAULTY] for specs in (pair, specs_of(first, seed=1))]
    both, alone = (result.trace["loss"] for result in train([run.job() for run in runs]))
    assert early < late
    assert np.array_equal(both[:late], alone[:late])
    assert both[late] != alone[late]


def test_the_cured_run_has_both_cures():
    spec = specs_of("corrupt_tokens+high_lr", seed=4, overrides=(*SMALL, "fault.high_lr.factor=20"))[Role.CURED]
    parts = [scenario(name) for name in ("corrupt_tokens", "high_lr")]
    own = {p.id: p.cure_step(getattr(spec.knobs, p.id), 4, 40) for p in parts}
    assert spec.cure_step == max(own.values())
    starts = [at.step for at in spec.job().changes]
    assert starts == sorted(starts)
    assert set(own.values()) <= set(starts)
    assert spec.job().learning_rate(39) < 1.01 * specs_of("high_lr", seed=4)[Role.TWIN].job().learning_rate(39)


def test_knobs_are_grouped_by_scenario():
    spec = specs_of("corrupt_tokens+high_lr", overrides=(*SMALL, "fault.high_lr.factor=20"))[Role.FAULTY]
    assert spec.knobs.high_lr.factor == 20
    assert spec.knobs.corrupt_tokens.rows == 0.4
    assert page("corrupt_tokens+high_lr")["knobs"] == ["corrupt_tokens", "high_lr"]
    with pytest.raises(InputError, match="did you mean 'factor'"):
        _ = specs_of("corrupt_tokens+high_lr", overrides=("fault.high_lr.facto=20",))[Role.FAULTY].knobs


def label_of(name, seed=0, role=Role.FAULTY):
    spec = specs_of(name, seed)[role]
    return injected_facts(spec, train([spec.job()])[0].trace, "file")


def test_two_failures_are_both_labelled():
    row = label_of("high_lr+corrupt_tokens", 4)
    assert row["kind"] == "compound"
    assert row["scenario"] == row["cause"] == "corrupt_tokens+high_lr"
    assert row["family"] == "data+optimisation"
    assert list(json.loads(row["causes"])) == ["high_lr", "corrupt_tokens"]  # the earliest first
    assert row["onset_step"] == min(json.loads(row["causes"]).values())
    cured = label_of("high_lr+corrupt_tokens", 4, Role.CURED)
    assert cured["kind"] == "cured"
    assert cured["cause"] == row["cause"]
    assert label_of("high_lr+corrupt_tokens", 4, Role.TWIN)["causes"] == "{}"


@pytest.mark.parametrize("seed", range(3))
def test_a_look_alike_beside_a_failure_is_no_cause(seed):
    row = label_of("benign_single_spike+mask_missing", seed)
    onset = scenario("mask_missing").onset_step(seed, 40)
    assert row["kind"] == "compound"
    assert row["scenario"] == "benign_single_spike+mask_missing"
    assert row["cause"] == "mask_missing"
    assert row["family"] == "attention and position"
    assert json.loads(row["causes"]) == {"mask_missing": onset}
    assert row["onset_step"] == onset


def test_two_look_alikes_are_one():
    row = label_of("benign_clean_resume+benign_single_spike")
    assert row["kind"] == "look-alike"
    assert row["cause"] == ""
    assert row["causes"] == "{}"
    assert Role.CURED not in specs_of("benign_clean_resume+benign_single_spike")


def test_a_data_set_of_pairs_is_generated_labelled_and_reproduced(tmp_path):
    words = [
        "scenario=high_lr+corrupt_tokens",
        "seed=range(2)",
        *SMALL,
        "fault.corrupt_tokens.rows=1.0",
        "fault.high_lr.factor=300",
        "fault.high_lr.ramp_steps=2",
    ]
    name, specs = resolve(words)
    dataset = generate(specs, tmp_path / "data", name=name)
    runs = dataset.runs[dataset.runs["scenario"] == "corrupt_tokens+high_lr"]
    assert set(runs["kind"]) <= {"compound", "latent", "cured"}
    assert (runs["visible_step"] >= runs["onset_step"]).all()
    run_id = runs.index[0]
    spec = RunSpec.from_json(json.loads(runs.loc[run_id, "spec"]))
    assert spec.run_id == run_id
    assert reproduce(tmp_path / "data", run_id).identical
    again = resolve([str(tmp_path / "data" / "plan.json")])[1]
    assert [spec.run_id for spec in again] == [spec.run_id for spec in specs]


PAIRS = random.Random(0).sample(list(itertools.combinations(scenarios(), 2)), 12)


@pytest.mark.catalogue
@pytest.mark.parametrize("names", PAIRS, ids="+".join)
def test_a_sample_of_pairs_trains_or_is_refused_in_one_line(names):
    entry, message = None, ""
    try:
        entry = scenario("+".join(names))
    except InputError as refusal:
        message = str(refusal)
    if entry is None:
        assert "\n" not in message
        assert names[0] in message
        assert names[1] in message
        return
    steps = 24
    specs = specs_of(entry.id, overrides=(f"steps={steps}", "evaluation.rows=4"))
    try:
        runs = traces_of(specs)
    except InputError as refusal:  # of what shows in the batches alone, as ids that the token table has no row for
        message = str(refusal)
    if message:
        assert "\n" not in message
        return
    first = min(part.onset_step(0, steps) for part in entry.parts)
    for signal in ("loss", "grad_norm", "lr"):
        a, b = (runs[role][signal] for role in (Role.FAULTY, Role.TWIN))
        assert np.array_equal(a[:first], b[:first])
    facts = injected_facts(specs[Role.FAULTY], runs[Role.FAULTY], "file")
    wanted = sorted(part.id for part in entry.parts if not part.look_alike)
    assert facts["cause"] == "+".join(wanted)
    assert sorted(json.loads(facts["causes"])) == wanted
    assert len(facts["family"].split("+")) == max(1, len(wanted))
    assert page(entry.id)["sections"]["Failure"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("high_lr+high_lr", ["names one scenario twice"]),
        ("high_lr+mask_missing+corrupt_tokens", ["names 3 scenarios", "two joined by +"]),
        ("high_lr+", ["scenario: ''"]),
        ("high_lr+corupt_tokens", ["did you mean 'corrupt_tokens'?"]),
        ("high_lr+post_ln_depth", ["no size in common", "micro", "deep"]),
        ("high_lr+benign_entropy_floor", ["benign_entropy_floor changes nothing"]),
        (
            "high_lr+fp16_attention_overflow",
            ["optimizer.lr is 0.08 in the base of fp16_attention_overflow and 0.005 in that of high_lr"],
        ),
        ("mask_missing+mask_off_by_one", ["undo", "allowed_NTS"]),
        ("rope_on_keys_only+rope_wrong_offset", ["undo", "rotary_q_NTK"]),
        ("mask_zeroed+fp16_attention_overflow", ["undo", "scale_N"]),
        ("high_lr+benign_warm_restart", ["benign_warm_restart coming second", "the learning rate"]),
        ("no_warmup+post_ln_depth", ["post_ln_depth sets is so in the base of the other"]),
        (
            "norm_eps_zero+benign_epoch_staircase",  # of two settings, each of one base
            ["'benign_epoch_staircase+norm_eps_zero' is not allowed", "data.rare_words: 12", "data.padding_every=5"],
        ),
    ],
)
def test_a_pair_that_can_not_be_is_refused_with_the_reason(name, parts):
    with pytest.raises(InputError) as refusal:
        scenario(name)
    message = str(refusal.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_a_pair_is_not_proven(tmp_path):
    with pytest.raises(InputError, match="'corrupt_tokens\\+high_lr' can't be proven; allowed: single scenarios"):
        verify(["corrupt_tokens+high_lr"], tmp_path)


def entry_of(name, changes, base=lambda setup: setup, begin=True, cures=()):
    class One(Scenario):
        id = name
        family = scenario("high_lr").family
        sizes = (Size.MICRO,)
        kinds = tuple({change.kind for change in changes})
        sources = ("document",)
        telling = "loss"
        onset = MidRun() if begin else None

        def base(self, setup: Setup) -> Setup:
            return base(setup)

        def fault(self, knobs, setup):
            return changes

        def cure(self, knobs, setup):
            return list(cures) or [Undo()]

    return One()


def test_bases_are_laid_over_each_other():
    first = entry_of("a", [Setting("dropout", 0.1)], lambda s: replaced(s, optimizer__lr=1e-3, dropout=0.2))
    second = entry_of("b", [Setting("z_loss", 0.1)], lambda s: replaced(s, optimizer__lr=1e-3, model__layers=3))
    base = Compound([first, second]).base(healthy(Size.MICRO))
    assert (base.optimizer.lr, base.dropout, base.model.layers) == (1e-3, 0.2, 3)


def test_a_setting_that_both_faults_set_is_refused_and_one_that_both_scale_is_not():
    lr = "optimizer.lr"
    with pytest.raises(InputError, match="b coming second would undo what a does to optimizer"):
        Compound([entry_of("a", [Setting(lr, 0.1)]), entry_of("b", [Setting(lr, 0.2)])])
    pair = Compound([entry_of("a", [Scaled(lr, 2.0)]), entry_of("b", [Scaled(lr, 3.0)])])
    assert pair.kinds == (FaultKind.SETTING,)


def test_a_cure_that_would_undo_the_other_fault_is_refused():
    first, second = [Setting("optimizer.clip", 0.5)], [Scaled("optimizer.beta2", 0.9)]
    assert Compound([entry_of("a", first), entry_of("b", second)]).id == "a+b"
    wide = entry_of("a", first, cures=(Undo(), Setting("optimizer.beta2", 0.95)))
    with pytest.raises(InputError, match=r"the cure of a would undo what b does to optimizer\.beta2"):
        Compound([wide, entry_of("b", second)])


def test_each_cure_ends_its_own_fault_at_its_own_step():
    pair = Compound([entry_of("a", [Scaled("optimizer.lr", 2.0)]), entry_of("b", [Scaled("optimizer.lr", 3.0)])])
    a, b = pair.parts
    a.cure_after, b.cure_after = 4, 200
    setup = pair.base(healthy(Size.MICRO))
    job = Job("run", 0, setup, pair.changes(pair.knobs, setup, 0, cured=True))
    lr = {step: job.segment(step).setup.optimizer.lr / setup.optimizer.lr for step in range(setup.steps)}
    for step, found in lr.items():
        factors = {2.0: (a, a.knobs), 3.0: (b, b.knobs)}
        wanted = [
            factor
            for factor, (part, knobs) in factors.items()
            if part.onset_step(0, setup.steps) <= step < part.cure_step(knobs, 0, setup.steps)
        ]
        assert found == pytest.approx(np.prod(wanted))
    assert {round(x) for x in lr.values()} > {1, 3}


def test_what_is_there_from_step_0_never_comes_second():
    whole = entry_of("a", [Setting("optimizer.lr", 0.1)], begin=False)
    pair = Compound([whole, entry_of("b", [Setting("optimizer.clip", 0.5)])])
    assert pair.onset_step(0, 40) == 0
    later = entry_of("b", [Setting("optimizer.lr", 0.2)])
    with pytest.raises(InputError, match="b coming second"):
        Compound([whole, later])


def test_effects_are_compared_as_a_whole():
    assert module._same(None, None)
    assert not module._same(None, np.zeros(2))
    assert module._same(np.arange(2), np.arange(2))
