"""What the shell completes, and that the names written down for it are those of the package."""

import os
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from trainwreck.cli import COMMANDS, cli
from trainwreck.commands import choices
from trainwreck.evaluation.detectors.registry import known_detectors
from trainwreck.evaluation.leaderboard.columns import BY_NAME, HEADLINE
from trainwreck.evaluation.leaderboard.run import TRACKS
from trainwreck.evaluation.live.sources import FOLLOWED
from trainwreck.evaluation.logs.blanks import READINGS
from trainwreck.evaluation.logs.exporters import EXPORTERS
from trainwreck.evaluation.logs.limits import LogLimits
from trainwreck.evaluation.logs.readers import FORMATS
from trainwreck.evaluation.replay.profiles import ALL_PROFILES, PROFILES
from trainwreck.kernels.selection import IMPLS
from trainwreck.scenarios.bench import measurements
from trainwreck.scenarios.config import sizes
from trainwreck.scenarios.datasets import engines, plans
from trainwreck.scenarios.datasets.engines.slurm import POLLS
from trainwreck.scenarios.spec import registry, run_spec, scenario
from trainwreck.scenarios.training import backend


def values(enumeration):
    return tuple(member.value for member in enumeration)


@pytest.mark.parametrize(
    ("written", "names"),
    [
        (choices.PROFILES, PROFILES),
        (choices.ALL_PROFILES, ALL_PROFILES),
        (choices.TRACKS, TRACKS),
        (choices.AT, BY_NAME),
        (choices.SPLITS, values(run_spec.Split)),
        (choices.SEVERITIES, values(scenario.Severity)),
        (choices.SIZES, values(sizes.Size)),
        (choices.FAMILIES, values(scenario.Family)),
        (choices.DEVICES, backend.DEVICES),
        (choices.IMPLS, IMPLS),
        (choices.ENGINES, engines.ENGINES),
        (choices.SLURM_CLUSTERS, POLLS),
        (choices.PLANS, plans.NAMES),
        (choices.PRODUCTS, plans.PRODUCTS),
        (choices.LOG_FORMATS, FORMATS),
        (choices.BLANKS, READINGS),
        (choices.FOLLOWED_FORMATS, FOLLOWED),
        (choices.EXPORT_FORMATS, EXPORTERS),
        (choices.MEASUREMENTS, measurements.MEASUREMENTS),
        (choices.scenario_ids(), registry.scenarios()),
        (choices.detector_names(), known_detectors()),
    ],
)
def test_names_are_those_of_the_package(written, names):
    assert sorted(written) == sorted(names)
    assert len(set(written)) == len(written)


def test_limits_of_logs_are_those_of_the_reader():
    assert LogLimits(choices.LOG_MB, choices.LOG_COLUMNS, choices.LOG_LINE_KB) == LogLimits()


def test_a_board_shows_the_headline_first():
    assert BY_NAME[choices.AT[0]].point == HEADLINE


def completed(*words):
    """Type and value of what is suggested for the last word."""
    shell = ShellComplete(cli, {}, "trainwreck", "_TRAINWRECK_COMPLETE")
    return [(item.type, item.value) for item in shell.get_completions(list(words[:-1]), words[-1])]


def plain(*names):
    return [("plain", name) for name in names]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("",), plain(*COMMANDS)),
        (("re",), plain("reproducer", "report", "rescore", "reproduce", "release", "rescue")),
        (("show", "high_"), plain("high_lr", "high_lr_masked_by_decay")),
        (("run", "high_lr+mask_mi"), plain("high_lr+mask_missing")),
        (("verify", "high_lr", "mask_mi"), plain("mask_missing")),
        (("preflight", "start.p"), [("file", "start.p")]),
        (("run", "high_lr", "--severity", ""), plain("subtle", "clear", "severe")),
        (("run", "high_lr", "--size", "m"), plain("micro")),
        (("leaderboard", "sample", "--at", ""), plain("5%", "1%", "default", "none")),
        (("run", "high_lr", "--device", "c"), plain("cpu", "cuda")),
        (("run", "high_lr", "--impl", ""), plain("reference", "triton", "cpp")),
        (("score", "sample", "--detector", "zc"), plain("zclip")),
        (("score", "sample", "--detector", "mine.p"), [("file", "mine.p")]),
        (("score", "sample", "--profile", ""), plain(*choices.ALL_PROFILES)),
        (("quiz", "--profile", ""), plain(*choices.PROFILES)),
        (("leaderboard", "sample", "--profile", "fi"), plain("filtered")),
        (("score", "sample", "--track", "i"), plain("informed")),
        (("compare", "sample", "zclip", "playb"), plain("playbook")),
        (("score", "sa"), [("dir", "sa"), ("plain", "sample")]),
        (("score", ""), [("dir", "")]),
        (("generate", "sta"), plain("standard")),
        (("generate", "demo", "--engine", ""), plain(*choices.ENGINES)),
        (("label", "data", "--split", "cal"), plain("calibration")),
        (("list", "--family", "look"), plain("look-alikes")),
        (("export", "sample", "--to", "t"), plain("tensorboard", "trackio", "timeeval")),
        (("import", "log.csv", "--format", "js"), plain("jsonl")),
        (("watch", "log.csv", "--on-alarm", "st"), plain("stop")),
        (("bench", "fid"), plain("fidelity")),
        (("quiz", "gr"), plain("grade")),
        (("quiz", "--speed", "5", "--see"), plain("--seed")),
        (("quiz", "--see"), plain("--seed")),
        (("quiz", "grade", "answers", "--ke"), plain("--key")),
        (("quiz", "--family", "num"), plain("numerics")),
        (("scor", "--"), plain("--version", "--help")),
    ],
    ids=str,
)
def test_what_is_suggested(words, found):
    assert completed(*words) == found


@pytest.mark.parametrize(
    "words", ["trainwreck ", "trainwreck show high_", "trainwreck score sample --detector zc", "trainwreck bench "]
)
def test_completion_loads_nothing_heavy(words):
    """As the shell asks for it, in a process of its own."""
    code = (
        "import sys\nfrom trainwreck.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('loaded', sorted({'torch', 'numpy', 'pandas', 'rich', 'hydra', 'sklearn'} & {*sys.modules}))"
    )
    typed = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    environment = os.environ | typed | {"_TRAINWRECK_COMPLETE": "bash_complete"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    *suggested, loaded = done.stdout.splitlines()
    assert suggested
    assert all(line.startswith("plain,") for line in suggested)
    assert loaded == "loaded []"
