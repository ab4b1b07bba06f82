"""Detectors by name and from files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainwreck.evaluation.detectors import registry
from trainwreck.evaluation.detectors.base import Detector
from trainwreck.evaluation.detectors.registry import (
    SWITCH,
    AllowedCauses,
    builtin_causes,
    builtin_detectors,
    is_builtin,
    known_detector,
    known_detectors,
    load_detector,
    missing_detectors,
    register,
    without_libraries,
)
from trainwreck.evaluation.errors import InputError

PUBLISHED = {
    "nonfinite_loss", "loss_over_minimum", "grad_norm_zscore", "any_zscore", "olmo_stability",
    "llm_foundry_kill_loss_spike", "megatron_spiky", "megatron_nan", "composer_nan_monitor",
    "terminate_on_nan", "zclip", "axolotl_watchdog", "wandb_zscore", "metaseq_skip_spike", "playbook",
    "nonfinite_or_plateau", "never", "always", "clock", "periodic", "random", "step_fraction",
}  # fmt: skip


def test_every_promised_detector_is_there() -> None:
    assert set(builtin_detectors()) >= PUBLISHED


def test_each_says_what_it_is() -> None:
    for name, detector in builtin_detectors().items():
        assert detector.name == name
        assert detector.rule, name
        assert "\n" not in detector.rule, name
        assert detector.source, name
        assert detector.blind_spots, name
        assert set(detector.causes) <= builtin_causes(), name


def test_a_name_that_is_taken_is_refused() -> None:
    class Impostor(Detector):
        name = "zclip"

    known_detector("zclip")
    with pytest.raises(ValueError, match=r"'zclip' is taken by trainwreck\.evaluation\.detectors\.published\.zclip\.Z"):
        register(Impostor)
    assert builtin_detectors()["zclip"] is not Impostor


@pytest.mark.parametrize("name", ["", "Shouting", "two words"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="snake case"):
        register(type("Odd", (Detector,), {"name": name}))


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(InputError, match=r"detector: 'zlcip' is not allowed; did you mean 'zclip'\?"):
        load_detector("zlcip")


GOOD = """
from dataclasses import dataclass
from trainwreck.evaluation.detectors.base import Detector

@dataclass
class Mine(Detector):
    name = "mine"
    limit: float = 5.0
    def update(self, row):
        return row["loss"] > self.limit

class Duck:
    def reset(self, context): pass
    def update(self, row): return False

class Lame:
    def update(self, row): return False

class Base(Detector): pass

number = 3
"""


def test_a_class_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GOOD)
    mine = load_detector(f"{file}:Mine")
    assert mine().update({"loss": 6.0}) is True
    assert load_detector(f"{file}:Duck").__name__ == "Duck"


@pytest.mark.parametrize(
    ("content", "suffix", "complaint"),
    [
        (None, ":Mine", "no such file"),
        (GOOD, ":Nobody", "has no class 'Nobody'"),
        (GOOD, ":number", "number is not a class"),
        (GOOD, ":Lame", "Lame is not a detector, it has no reset"),
        (GOOD, ":Detector", "Detector is not a detector, it has no update of its own"),
        (GOOD, "", "allowed: a built-in name or file.py:Class"),
        (GOOD, ":not a name", "allowed: a built-in name or file.py:Class"),
        ("import nowhere_to_be_found", ":Mine", "does not import (ModuleNotFoundError: No module named"),
        ("def broken(:", ":Mine", "does not import (SyntaxError"),
        ("import sys\nsys.exit(3)", ":Mine", "does not import (SystemExit: 3; line 2)"),
        ("raise RuntimeError('two\\nlines')", ":Mine", "does not import (RuntimeError: two lines; line 1)"),
    ],
)
def test_a_file_that_is_no_detector(tmp_path: Path, content: str | None, suffix: str, complaint: str) -> None:
    file = tmp_path / "mine.py"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError) as caught:
        load_detector(f"{file}{suffix}")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "mine.py" in str(caught.value)


def test_a_name_is_found_in_its_module_as_among_all() -> None:
    known = known_detectors()
    assert set(registry._modules()) == set(known)
    for name, detector in known.items():
        assert detector.__module__ == registry._modules()[name]
        assert known_detector(name) is detector
        assert is_builtin(name) == (name in builtin_detectors())
    assert known_detector("nobody") is None
    assert not is_builtin("nobody")


def test_looking_one_up_imports_no_other() -> None:
    code = (
        "import sys; from trainwreck.evaluation.detectors.registry import _modules, load_detector;"
        "load_detector('terminate_on_nan'); print(sorted({*_modules().values()} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    home = "trainwreck.evaluation.detectors"  # the one derives from the other
    assert run.stdout.strip() == str([f"{home}.frameworks.terminate_on_nan", f"{home}.sanity.nonfinite_loss"])


def test_allowed_causes_are_some_and_those_of_the_built_in_detectors() -> None:
    allowed = AllowedCauses(["mine"])
    assert set(allowed) == {"mine"} | builtin_causes()
    assert len(allowed) == 1 + len(builtin_causes())
    assert "mine" in allowed
    assert "high_lr" in allowed
    assert "nobody" not in allowed


def test_importing_the_board_loads_nothing_heavy() -> None:
    code = (
        "import sys, trainwreck.evaluation.leaderboard.run as s;"
        "from trainwreck.evaluation.detectors.registry import builtin_detectors; builtin_detectors();"
        "heavy = {'torch', 'scipy', 'statsmodels', 'sklearn', 'lifelines', 'matplotlib'} & set(sys.modules);"
        "ours = {m for m in sys.modules if m.startswith(('trainwreck.kernels', 'trainwreck.models', 'trainwreck.sc'))};"
        "print(sorted(heavy | ours))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("before", [None, "on"])
def test_in_a_block_without_libraries_none_that_needs_one_stands(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SWITCH) if before is None else monkeypatch.setenv(SWITCH, before)
    needy = {name for name, detector in known_detectors().items() if detector.requires}
    assert needy
    with without_libraries():
        assert missing_detectors().keys() == needy
        assert not needy & builtin_detectors().keys()
    assert os.environ.get(SWITCH) == before
