"""Settings of one's own on the command line: knobs, kinds and counts as they are printed, lengths that are refused."""

import json

import pytest

from trainwreck.evaluation.dataset.dataset import load

WEAK = ("corrupt_tokens", "fault.rows=0.01", "steps=60", "model.width=16", "model.heads=2", "model.context=16")
WEAK += ("data.rows=2", "evaluation.rows=4")


@pytest.fixture(scope="module")
def made(call, tmp_path_factory):
    out = tmp_path_factory.mktemp("altered") / "data"
    return call("generate", f"scenario={WEAK[0]}", *WEAK[1:], "--out", out, "--workers", "1"), out


def test_generate_says_how_many_runs_of_each_kind_there_are(made, call):
    result, out = made
    assert result.code == 0, result.err
    first, second = result.out.splitlines()
    assert first == f"{out}: 11 runs (9 healthy, 1 not shown, 1 cured)"
    assert second == "1 run under a fault: 0 failing, 0 latent, 1 not shown; the signature holds in 0 of 1"
    again = json.loads(call("generate", f"scenario={WEAK[0]}", *WEAK[1:], "--out", out, "--json").out)
    assert again["kinds"] == {"healthy": 9, "not shown": 1, "cured": 1}


def test_label_keeps_what_generate_found(made, call):
    _, out = made
    before = (out / "runs.parquet").read_bytes()
    rows = json.loads(call("label", out, "--visible", "--json").out)
    assert [row["kind"] for row in rows if row["kind"] not in ("healthy", "cured")] == ["not shown"]
    assert (out / "runs.parquet").read_bytes() == before
    assert call("label", out, "--workers", "1").code == 0  # nothing fails, so nothing is branched
    assert load(out).runs["no_return_step"].isna().all()


def test_run_says_on_which_side_it_ended_and_what_kind_it_is(call, here):
    result = call("run", *WEAK)
    assert result.code == 0, result.err
    (line,) = (line for line in result.out.splitlines() if line.startswith("harm: "))
    assert line.startswith("harm: ended ")
    assert line.endswith(" the twin (a failing run of it ends above); kind: not shown")
    facts = json.loads(call("run", *WEAK, "--json").out)
    assert (facts["kind"], facts["harm"], facts["signature"]) == ("not shown", "above", False)
    leak = json.loads(call("run", "mask_missing", *WEAK[2:], "--json").out)
    assert leak["harm"] == "below"
    benign = call("run", "benign_single_spike", *WEAK[2:])
    assert "kind:" not in benign.out


def test_run_says_what_the_losses_of_runs_on_rewards_are_in(call, here):
    result = call("run", "rl_entropy_runs_away", "steps=60", "evaluation.every=20", "evaluation.rows=4")
    assert "final loss (1 less the mean reward)" in result.out
    assert " of mean reward " in next(line for line in result.out.splitlines() if line.startswith("harm: "))
    tokens = call("run", *WEAK)
    assert "final loss (nats per token)" in tokens.out
    assert " nats " in next(line for line in tokens.out.splitlines() if line.startswith("harm: "))


def test_show_prints_knobs_as_they_are_set(call):
    def knobs(id):
        return " ".join(call("show", id).out.split()).partition("Knobs: ")[2]

    assert knobs("high_lr") == (
        "fault.factor (6.0 subtle, 9.0 clear, 13.0 severe), fault.ramp_steps (150). "
        "Set one as in trainwreck run high_lr fault.factor=6.0."
    )
    assert knobs("corrupt_tokens+high_lr").startswith("fault.corrupt_tokens.rows (0.32 subtle, 0.4 clear, 0.9 severe),")
    assert knobs("fp16_attention_overflow").startswith("fault.scaled (false). Set one")
    assert knobs("ddp_gradients_not_averaged").startswith("fault.how (summed). Set one")
    assert knobs("mask_zeroed") == "none."


@pytest.mark.parametrize("id", ["high_lr", "corrupt_tokens+high_lr", "fp16_attention_overflow"])
def test_what_show_says_can_be_set(id, call):
    """The command that it gives is the run of the mildest severity, or of the default one."""
    from trainwreck.scenarios.spec.run_spec import Role, family_of
    from trainwreck.scenarios.spec.scenario import Severity

    word = call("show", id).out.split()[-1].removesuffix(".")
    assert word.startswith("fault.")
    scaled = None if "fp16" in id else Severity.SUBTLE
    (shown,) = family_of(id, [0], severity=scaled, overrides=[word], roles=(Role.FAULTY,))
    (plain,) = family_of(id, [0], severity=scaled, roles=(Role.FAULTY,))
    assert shown.run_id == plain.run_id


def test_too_short_a_run_is_refused_before_anything_is_trained(call, here):
    complaint = "steps: 40 is not allowed for high_lr; on seed 0 its cure is at step 47; allowed: 59 or more"
    call("run", "high_lr", "steps=40").refused(complaint)
    call("generate", "scenario=high_lr", "steps=40", "--out", "o").refused(complaint)
    call("verify", "high_lr", "steps=40", "--quick", "--out", "o").refused(complaint)
    call("run", "high_lr", "fault.factor=3", "steps=100").refused("allowed: 231 or more")
    assert list(here.iterdir()) == []


def test_a_plan_file_with_too_short_a_run_is_refused(call, here):
    run = {"scenario": "high_lr", "role": "cured", "seed": 0, "size": "micro", "severity": "clear", "split": "test"}
    plan = {"format": "trainwreck-plan", "runs": [run | {"overrides": ["steps=40"]}]}
    (here / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    call("generate", "plan.json", "--out", "o").refused("steps: 40 is not allowed for high_lr")
    assert not (here / "o").exists()


def test_reproduce_refuses_a_run_that_an_earlier_version_made_too_short(made, call, tmp_path, monkeypatch):
    from trainwreck.scenarios.spec.run_spec import RunSpec

    _, out = made
    (cured,) = load(out).runs.query("kind == 'cured'")["run_id"]
    monkeypatch.setattr(RunSpec, "cure_step", 60)
    monkeypatch.setattr(RunSpec, "run_id", cured)
    call("reproduce", out, cured).refused(
        "steps: 60 is not allowed for corrupt_tokens; on seed 0 its cure is at step 60"
    )
