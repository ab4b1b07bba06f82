"""Nothing loads that a command does not need: which modules a fresh interpreter has after it."""

import json
import os
import pkgutil
import subprocess
import sys

import pytest

from trainwreck import evaluation

HEAVY = ("torch", "pandas", "hydra", "omegaconf", "matplotlib", "pyarrow", "numpy", "scipy", "rich", "jinja2")
REPORT = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
OURS = "trainwreck."
# Modules with code that `score sample --detector NAME` may run, besides the command line's own.
AT_MOST = 41  # modules of evaluation, without the packages that they lie in


def modules(code: str) -> set[str]:
    """The modules of a fresh interpreter after the code."""
    done = subprocess.run([sys.executable, "-c", code + REPORT], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def loaded(code: str) -> set[str]:
    """Which heavy packages a fresh interpreter has loaded after the code."""
    return modules(code) & set(HEAVY)


def command(*words: str) -> str:
    return (
        f"import sys\nsys.argv = ['trainwreck', *{words!r}]\nfrom trainwreck.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code"
    )


def under(names: set[str], *packages: str) -> set[str]:
    """Those of the names that are one of these packages of ours or lie in one."""
    return {name for name in names for package in packages if f"{name}.".startswith(f"{OURS}{package}.")}


def imported(*words: str) -> set[str]:
    """The modules that the import statements of a command load, as `python -X importtime` lists them."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "trainwreck", *words], capture_output=True, text=True, check=True
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize("words", [("--help",), ("score", "--help"), ("generate", "--help"), ("--version",)], ids=str)
def test_help_loads_nothing(words):
    found = modules(command(*words))
    assert not found & set(HEAVY)
    assert not under(found, "kernels", "models", "evaluation.detectors", "scenarios.catalogue", "scenarios.training")


def test_completing_a_command_loads_nothing():
    shell = {"_TRAINWRECK_COMPLETE": "bash_complete", "COMP_WORDS": "trainwreck sc", "COMP_CWORD": "1"}
    code = (
        "import sys\nfrom trainwreck.cli import cli\n"
        "try:\n    cli.main(prog_name='trainwreck')\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + REPORT], capture_output=True, text=True, check=True, env=os.environ | shell
    )
    *words, names = done.stdout.splitlines()
    assert "plain,score" in words
    assert not set(json.loads(names)) & set(HEAVY)


def test_help_loads_no_command():
    code = command("--help") + "\nassert not [name for name in sys.modules if name.startswith('trainwreck.commands')]"
    assert loaded(code) == set()


def test_importing_the_package_loads_nothing():
    assert loaded("import trainwreck\nimport trainwreck.scenarios") == set()


# What trains, with all that it is made of.
ENGINE = (
    "kernels.attention", "kernels.norms", "kernels.rotary", "kernels.cross_entropy", "models.gpt", "models.optim",
    "scenarios.training", "scenarios.datasets", "scenarios.spec.job", "scenarios.spec.compound", "scenarios.proof",
)  # fmt: skip


@pytest.mark.parametrize("words", [("list",), ("show", "high_lr"), ("show", "mask_missing")], ids=str)
def test_the_catalogue_is_read_without_what_trains(words):
    found = modules(command(*words, "--json"))
    assert found & {"numpy"}  # the question can be answered with yes
    assert not found & {"torch", "triton", "pandas", "hydra", "omegaconf", "matplotlib", "pyarrow", "scipy"}
    assert not under(found, *ENGINE)


def test_the_import_statements_of_list_name_no_torch():
    found = imported("list")
    assert "trainwreck.scenarios.spec.faults" in found  # the listing is read
    assert not found & {"torch", "hydra", "omegaconf", "pandas", "pyarrow"}
    assert not under(found, *ENGINE)


def test_one_scenario_imports_its_own_file():
    families = under(modules(command("show", "high_lr", "--json")), "scenarios.catalogue")
    files = {name for name in families if name.count(".") == 4}
    assert files == {"trainwreck.scenarios.catalogue.optimisation.high_lr"}


def test_the_registry_imports_what_trains_for_a_pair_alone():
    registry = "from trainwreck.scenarios.spec.registry import scenario, scenarios\n"
    assert not under(modules(registry + "scenarios()"), *ENGINE)
    assert under(modules(registry + "scenario('high_lr+corrupt_tokens')"), "scenarios.spec.compound")


def test_scoring_a_detector_imports_that_detector():
    found = modules(command("score", "sample", "--detector", "zclip", "--json"))
    assert not found & {"torch", "hydra", "matplotlib", "statsmodels", "sklearn", "joblib", "jinja2", "rich"}
    files = {name for name in under(found, "evaluation.detectors") if name.count(".") == 4}
    assert files == {"trainwreck.evaluation.detectors.published.zclip"}
    assert not under(
        found, "scenarios", "models", "kernels", "evaluation.pages", "evaluation.logs", "evaluation.live",
        "evaluation.learning", "evaluation.audits", "evaluation.release", "evaluation.labels",
        "evaluation.leaderboard.ranking", "evaluation.leaderboard.rescore", "evaluation.replay.sandbox.process",
        "evaluation.replay.sandbox.opening", "evaluation.replay.sandbox.isolated",
    )  # fmt: skip
    packages = {name.rpartition(".")[0] for name in found}
    assert len(under(found, "evaluation") - packages) <= AT_MOST


def test_a_detector_of_a_file_is_scored_in_the_sandbox(tmp_path):
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    def reset(self, context): pass\n    def update(self, row): return False\n"
    )
    found = modules(command("score", "sample", "--detector", f"{tmp_path}/mine.py:Mine", "--json"))
    assert under(found, "evaluation.replay.sandbox.process")  # which the test above can so tell
    assert "torch" not in found


def test_no_module_of_evaluation_loads_torch_or_hydra():
    names = [module.name for module in pkgutil.walk_packages(evaluation.__path__, "trainwreck.evaluation.")]
    assert len(names) > 30
    found = loaded("\n".join(f"import {name}" for name in names))
    assert "numpy" in found  # the question can be answered with yes
    assert not found & {"torch", "hydra", "omegaconf", "matplotlib"}


def test_the_names_of_the_interface_load_no_torch():
    names = ("load", "score", "leaderboard", "Detector", "Scorecard", "DataSet", "InputError", "Verdict", "scenarios")
    assert "torch" not in loaded("import trainwreck\n" + "\n".join(f"trainwreck.{name}" for name in names))


def test_the_learned_policy_loads_no_training():
    found = loaded("from trainwreck.rescue import with_weights")
    assert not found & {"torch", "sklearn", "hydra", "pandas"}
