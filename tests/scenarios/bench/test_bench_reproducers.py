"""`bench reproducers`: a record a processor and setting, none over another's, and one table over them."""

import dataclasses

import pytest
import torch

from trainwreck.evaluation.files import read_json
from trainwreck.scenarios.bench.claims import reproducers, starts
from trainwreck.scenarios.reproducers.agreement import Agreement, Beside
from trainwreck.scenarios.reproducers.margin import Starts
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.training import environment

ONE = Agreement("high_lr", 240, 0, 0.25, True, 12.5, "aaaa", "bbbb", Beside("float", 400, 400, 1e-6, 1e-7))


@pytest.fixture
def machine(monkeypatch):
    for name in reproducers.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(environment, "processor", lambda: "AMD EPYC (R)")
    monkeypatch.setattr(environment, "processor_flags", lambda: {"fma", "avx2", "avx512f"})
    return monkeypatch


def test_a_setting_has_processor_instructions_and_limits(machine):
    assert reproducers.setting() == "amd-epyc-avx512"
    machine.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert reproducers.setting() == "amd-epyc-avx512-onednn-avx2"


def test_two_processors_under_one_limit_are_two_settings(machine):
    """PyTorch gives the limit in the place of what the processor has."""
    machine.setenv("ATEN_CPU_CAPABILITY", "default")
    machine.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    assert reproducers.setting() == "amd-epyc-avx512-aten-default"
    machine.setattr(environment, "processor_flags", lambda: {"fma", "avx2"})
    assert reproducers.setting() == "amd-epyc-avx2-aten-default"
    machine.setattr(environment, "processor_flags", set)
    assert reproducers.setting() == "amd-epyc-default-aten-default"


def test_records_of_two_settings_stand_side_by_side(tmp_path):
    other = dataclasses.replace(ONE, exit_code=1, gap=None, steady=False, printed="cccc", lab=None)
    second = dataclasses.replace(ONE, scenario="mask_missing")
    reproducers.table("a-avx512", [ONE, second], 139).record(tmp_path)
    reproducers.table("a-default", [other], 139, "`ATEN_CPU_CAPABILITY=default`").record(tmp_path)
    moved = {"high_lr": Starts(12, 11, None, None), "mask_missing": Starts(4, 4, 0.25, 1e-6)}
    starts.table("a-avx512", moved).record(tmp_path)
    starts.table("b-avx2", {"high_lr": Starts(4, 4, 0.1, 1e-5)}).record(tmp_path)
    reproducers.write_index(tmp_path / "reproducers")
    text = (tmp_path / "reproducers" / "README.md").read_text(encoding="utf-8")
    assert "| program | a-avx512 | a-default | starts |" in text
    assert "| high_lr | exit 0, gap 0.25 | exit 1, gap -, not steady | 15 of 16 |" in text
    assert "| mask_missing | exit 0, gap 0.25 | not run | 4 of 4 |" in text
    assert "measured: [a-avx512](starts/a-avx512/README.md), [b-avx2](starts/b-avx2/README.md). `" in text
    assert "| [a-avx512](a-avx512/README.md) | all | 2 | 2 | 0 | 0.25 (mask_missing) | - |" in text
    assert "| [a-default](a-default/README.md) | `ATEN_CPU_CAPABILITY=default` | 1 | 0 | 1 | - | 0 of 1 |" in text
    assert f"has {len(scenarios())} programs, of which {len(scenarios()) - 2} have not been run yet." in text
    page = (tmp_path / "reproducers" / "a-avx512" / "README.md").read_text(encoding="utf-8")
    assert "2 of 2 exit with 0 (137 of 139 were not run)" in page
    result = read_json(tmp_path / "reproducers" / "a-default" / "result.json")
    assert result["command"].startswith("ATEN_CPU_CAPABILITY=default trainwreck bench")
    assert result["rows"][0]["agreement"] == ""


def test_what_was_run_under_another_setting_is_run_again(machine, tmp_path):
    machine.chdir(tmp_path)
    seen = []
    machine.setattr(reproducers, "check", lambda _, kept, **__: seen.append(kept) or ONE)
    reproducers.every_program(lambda *of: None, ["high_lr"])
    machine.setenv("ATEN_CPU_CAPABILITY", "default")
    reproducers.every_program(lambda *of: None, ["high_lr"])
    assert len(set(seen)) == 2


def test_a_record_of_starts_says_which_programs_are_chaotic():
    moved = {"high_lr": Starts(12, 11, None, None), "mask_missing": Starts(4, 4, 0.25, 1.2e-6)}
    table = starts.table("a-avx512", moved)
    every = len(scenarios())
    assert f"on a-avx512: 1 of 2 exit with 0 from every start ({every - 2} of {every} were not" in table.title
    assert table.rows == (("high_lr", 12, 11, "-", "-"), ("mask_missing", 4, 4, "0.25", "1e-06"))
    assert table.limit.rows == ((1, 12, 11, "0.917 [0.615, 0.998]"),)
    assert "up to 0.26 that" in table.limit.text
    assert starts.table("a-avx512", {"mask_missing": moved["mask_missing"]}).limit.rows == ((0, 0, 0, "-"),)
