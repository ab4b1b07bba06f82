"""Every scenario's program as text; and a few of them, some steps long, beside the lab's own runs."""

import ast
import builtins
import dis
import subprocess
import sys
import types

import numpy as np
import pytest

from trainwreck.evaluation.dataset.schema import EVALUATIONS, REWARDED
from trainwreck.scenarios.reproducers import margin
from trainwreck.scenarios.reproducers.program import Program
from trainwreck.scenarios.reproducers.text import LONGEST
from trainwreck.scenarios.reproducers.text import text as program_text
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.spec.scenario import Severity
from trainwreck.scenarios.training.loop import train

# One of each kind of change, in force within thirty steps, but for the last five.
KINDS = (
    "adam_eps_wrong", "batchnorm_in_transformer", "benign_loss_scale_backoff", "degenerate_batches",
    "document_mask_missing", "dropout_too_high", "frozen_parameters", "loss_detached", "overfit_small_set",
    "padding_attended", "post_ln_depth", "shuffle_correlated", "unshuffled_epochs", "vanishing_depth",
    "packed_positions_not_reset", "recompute_mask_differs", "microbatches_dropped",
)  # fmt: skip
OF_REWARDS = (
    "rlhf_kl_too_weak", "rlhf_kl_too_strong", "rl_reward_hacked", "ppo_too_many_epochs", "rl_entropy_runs_away",
    "ppo_value_weight_too_high",
)  # fmt: skip
OF_PAIRS = ("dpo_chosen_falls", "dpo_stuck_at_log2", "benign_hard_pairs")
STEPS = 30


@pytest.fixture(scope="module")
def texts():
    return {id: program_text(Program(id)) for id in scenarios()}


def loaded(code: types.CodeType) -> set[str]:
    """Names that code looks up outside of functions."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(loaded(part) for part in code.co_consts if isinstance(part, types.CodeType)))


def given(tree: ast.Module) -> set[str]:
    """Names that a module gives to something."""
    found = set(dir(builtins)) | {"__name__"}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        else:
            found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found


def test_every_scenario_has_a_program_that_is_short_plain_and_whole(texts):
    for id, text in texts.items():
        lines = text.splitlines()
        assert len(lines) <= LONGEST < 250, id
        assert max(map(len, lines)) <= 120, id
        assert text.startswith(f'"""{id}: '), id
        tree = ast.parse(text)
        modules = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
        modules |= {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
        foreign = {m.split(".")[0] for m in modules} - set(sys.stdlib_module_names)
        assert foreign == {"numpy", "torch"}, id
        assert "trainwreck" not in text, id
        for section in ("Failure:", "Mechanism:", "References:"):
            assert f"\n{section}" in text, (id, section)
        missing = loaded(compile(tree, id, "exec")) - given(tree)
        assert not missing, (id, missing)


def test_ruff_has_nothing_to_say(texts, tmp_path):
    pytest.importorskip("ruff", reason="ruff is of the extra `dev`")
    for id, text in texts.items():
        (tmp_path / f"{id}.py").write_text(text, encoding="utf-8")
    words = ["check", "--isolated", "--line-length", "120", "--select", "E,F,W,I", "--output-format", "concise", "."]
    command = [sys.executable, "-m", "ruff", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_is_written_is_the_same_each_time(texts):
    assert program_text(Program("corrupt_tokens")) == texts["corrupt_tokens"]


def test_seed_and_severity_are_in_the_program():
    mild = program_text(Program("high_lr", 3, Severity.SUBTLE))
    assert "\nSEED = 3\n" in mild
    assert "(6.0 - 1)" in mild
    assert "severity subtle" in mild
    assert mild != program_text(Program("high_lr", 3, Severity.SEVERE))


def ran(id: str, kind: str, steps: int) -> dict[str, np.ndarray]:
    """What a program's run does in its first steps."""
    loop = "for step in range(HEALTHY.steps):"
    text = program_text(Program(id))
    assert loop in text
    return margin.loaded(text.replace(loop, f"for step in range({steps}):"))["train"](kind)


@pytest.mark.parametrize("id", KINDS)
def test_the_faulty_run_is_the_labs(id):
    (spec,) = family_of(id, [0], roles=(Role.FAULTY,))
    trace = train([spec.job()], stop=STEPS)[0].trace
    run = ran(id, "faulty", STEPS)
    assert np.abs(run["loss"] - trace["loss"]).max() < 1e-3  # how far rounding moves it hangs on the processor
    signals = [name for name in run if name not in ("validation_loss", "fresh_loss")]
    for name in signals:
        assert np.allclose(run[name], trace[name], rtol=2e-2, atol=1e-3, equal_nan=True), name


@pytest.mark.parametrize("id", ["lora_gets_no_gradient", "lora_scale_wrong", "new_rows_random", *OF_PAIRS])
def test_what_is_planned_for_mid_run_is_in_every_run(id):
    short = ("steps=40", "data.rows=4", "evaluation.rows=4", "schedule.warmup_steps=5")
    specs = {spec.role: spec for spec in family_of(id, [0], overrides=short)}
    program = Program(id, overrides=short)
    assert 0 < program.planned <= program.onset
    plain = margin.loaded(program_text(program))["train"]
    for (role, spec), result in zip(specs.items(), train([s.job() for s in specs.values()]), strict=True):
        run = plain(role.value)
        assert len(result.trace) == 40
        for name in run:
            wanted = result.trace[name]
            first = -1 if name in EVALUATIONS else 0
            assert np.allclose(run[name][first:], wanted[first:],
                               rtol=2e-2, atol=2e-3, equal_nan=True), (spec.role, name)  # fmt: skip


@pytest.mark.parametrize("id", OF_REWARDS)
def test_answers_and_rewards_are_the_labs(id):
    short = ("steps=32", "data.rows=16", "evaluation.rows=4", "schedule.warmup_steps=5")
    specs = {spec.role: spec for spec in family_of(id, [0], overrides=short)}
    program = Program(id, overrides=short)
    assert 0 < program.planned < program.onset
    plain = margin.loaded(program_text(program))["train"]
    for (role, spec), result in zip(specs.items(), train([s.job() for s in specs.values()]), strict=True):
        run = plain(role.value)
        assert set(REWARDED[:4]) < set(run)
        for name in run:
            first = -1 if name in EVALUATIONS else 0
            wanted = result.trace[name][first:]
            assert np.allclose(run[name][first:], wanted, rtol=2e-2, atol=2e-3, equal_nan=True), (spec.role, name)


def test_a_run_of_another_seed_is_not():
    (spec,) = family_of("adam_eps_wrong", [1], roles=(Role.FAULTY,))
    trace = train([spec.job()], stop=STEPS)[0].trace
    assert np.abs(ran("adam_eps_wrong", "faulty", STEPS)["loss"] - trace["loss"]).max() > 0.01


def test_the_cured_run_is_the_labs():
    (spec,) = family_of("frozen_parameters", [0], roles=(Role.CURED,))
    trace = train([spec.job()], stop=45)[0].trace  # the cure is at 40
    run = ran("frozen_parameters", "cured", 45)
    assert np.abs(run["loss"] - trace["loss"]).max() < 1e-3  # how far rounding moves it hangs on the processor
    assert run["layer_grad_norm"][39, 1] == 0
    assert run["layer_grad_norm"][41, 1] > 0


@pytest.mark.parametrize(
    ("id", "kind", "steps"),
    [("head_untied_at_resume", "cured", 124), ("fused_loss_wrong_gradient", "faulty", 40)],
)
def test_so_it_is_where_the_fault_comes_later(id, kind, steps):
    (spec,) = family_of(id, [0], roles=(Role(kind),))
    assert (spec.cure_step if kind == "cured" else spec.onset) < steps - 3
    trace, run = train([spec.job()], stop=steps)[0].trace, ran(id, kind, steps)
    assert np.abs(run["loss"] - trace["loss"]).max() < 1e-2  # how far rounding moves it hangs on the processor
    for name in ("grad_norm", *(name for name in ("output_max", "layer_update_ratio") if name in run)):
        assert np.allclose(run[name], trace[name], rtol=2e-2, atol=1e-3), name


def test_settings_of_a_program_are_in_no_other_run():
    id = "fp16_attention_overflow"
    program, own = Program(id), Program(id, overrides=())
    assert (program.base.optimizer.lr, program.base.steps) == (0.06, 700)
    assert " lr=0.06," in program_text(program)
    assert (own.base.optimizer.lr, own.base.steps) == (0.08, 400)
    assert [spec.run_id for spec in own.specs.values()] == [spec.run_id for spec in family_of(id, [0])]
    assert {spec.run_id for spec in program.specs.values()}.isdisjoint(spec.run_id for spec in own.specs.values())


def test_settings_of_a_program_are_said_on_the_page():
    for id, entry in scenarios().items():
        words = entry.page().get("Realism", "")
        assert not entry.program or "exported program" in words, id
        for setting in entry.program:
            assert setting.partition("=")[2] in words, (id, setting)
