"""Which checks catch which scenarios, and that twins and look-alikes pass."""

import pytest

from trainwreck.scenarios.preflight.table import examine, markdown, record
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.scenario import Severity

SHORT = ("steps=24", "evaluation.rows=8")
QUICK = (
    "labels_aligned", "token_ids_in_range", "future_is_hidden", "loss_at_init_is_log_vocab", "fp32_versus_mixed",
    "every_row_is_scored", "end_is_scored", "tied_weights_are_one", "gradients_match_differences",
    "adapters_get_gradients",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "caught"),
    [
        ("corrupt_tokens", ["token_ids_in_range"]),
        ("mask_missing", ["future_is_hidden"]),
        ("mask_off_by_one", ["future_is_hidden"]),
        ("eos_masked_as_padding", ["end_is_scored"]),
        ("prompt_scored", ["end_is_scored"]),
        ("head_untied_at_resume", ["tied_weights_are_one"]),
        ("fused_loss_wrong_gradient", ["gradients_match_differences"]),
        ("lora_gets_no_gradient", ["adapters_get_gradients"]),
        ("lora_scale_wrong", []),
        ("high_lr", []),  # nothing is wrong with model and batch
    ],
)
def test_a_fault_of_model_or_batch_is_caught_at_its_onset(name, caught):
    found = examine(name, overrides=SHORT, names=QUICK)
    assert found.failed("faulty") == caught, found.faulty
    assert found.failed("twin") == [], found.twin
    assert found.step == scenario(name).onset_step(0, 24)


def test_rows_without_labels_are_caught_whatever_else_is():
    found = examine("targets_all_masked", overrides=SHORT, names=QUICK, severity=Severity.SUBTLE)
    assert "every_row_is_scored" in found.failed("faulty")
    assert found.failed("twin") == [], found.twin


# Their data come from another source, with ids that the base's own tokenizer never emits.
ANOTHER_SOURCE = {"benign_huge_transient", "benign_late_drop", "benign_mixture_change", "benign_spike_recovers"}


@pytest.mark.parametrize("name", [name for name, entry in scenarios().items() if entry.look_alike])
def test_no_look_alike_fails(name):
    found = examine(name, overrides=SHORT, names=QUICK)
    assert found.failed("faulty") == (["token_ids_in_range"] if name in ANOTHER_SOURCE else [])
    assert found.failed("twin") == []


@pytest.mark.slow
@pytest.mark.parametrize("name", scenarios())
def test_every_twin_passes_every_check(name):
    found = examine(name)
    assert found.failed("twin") == [], found.twin


def test_the_record(tmp_path):
    found = [examine("corrupt_tokens", overrides=SHORT, names=QUICK[:2])]
    record(found, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "result.json", "environment.json"}
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert text.endswith(markdown(found))
    row = next(line for line in text.splitlines() if line.startswith("| `corrupt_tokens`, clear"))
    assert "| token_ids_in_range | inputs: " in row
    assert row.endswith("| - |")
    assert text.count("`corrupt_tokens`") == 2  # as a row, and where the check names what it catches
