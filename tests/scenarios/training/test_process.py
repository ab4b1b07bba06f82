"""What a training process says of where it runs."""

import json
import re
import subprocess
from importlib.metadata import version

import pytest
import torch

from trainwreck.scenarios.training import environment


def test_one_thread():
    environment.prepare()
    assert torch.get_num_threads() == 1


def test_environment_is_plain_json_and_the_same_twice():
    facts = environment.environment()
    assert json.loads(json.dumps(facts)) == facts == environment.environment()
    assert facts["packages"]["torch"] == version("torch")
    assert facts["trainwreck"] == version("trainwreck")


def test_environment_names_no_path_and_no_user():
    text = json.dumps(environment.environment())
    assert str(environment.Path.home()) not in text
    assert str(environment.Path.cwd()) not in text


@pytest.mark.parametrize(
    ("name", "flags", "kind"),
    [
        ("AMD EPYC", {"avx2", "avx512f"}, "amd-epyc-avx512"),
        ("Intel(R) Xeon(R) Processor", {"avx2", "avx512f", "amx_tile"}, "intel-xeon-amx"),
        ("Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", {"avx2"}, "intel-core-i7-9750h-avx2"),
        ("Apple M2", set(), "apple-m2-neon"),
    ],
)
def test_the_kind_of_a_processor_names_a_folder(monkeypatch, name, flags, kind):
    monkeypatch.setattr(environment, "processor", lambda: name)
    monkeypatch.setattr(environment, "processor_flags", lambda: flags)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "NEON")
    assert environment.processor_kind() == kind


class Git:
    """Stands in for subprocess.run: a commit, and what git status prints."""

    def __init__(self, commit, changed):
        self.commit, self.changed = commit, changed

    def __call__(self, command, **options):
        out = self.commit if "rev-parse" in command else self.changed
        return subprocess.CompletedProcess(command, 0, stdout=out + "\n")


@pytest.mark.parametrize(("changed", "revision"), [("", "abc123"), (" M models/gpt.py", "abc123+")])
def test_revision_marks_changes(changed, revision, monkeypatch):
    monkeypatch.setattr(environment.subprocess, "run", Git("abc123", changed))
    assert environment.revision() == revision


@pytest.mark.parametrize("error", [FileNotFoundError("git"), subprocess.CalledProcessError(128, "git")])
def test_revision_is_empty_outside_a_checkout(error, monkeypatch):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(environment.subprocess, "run", fail)
    assert environment.revision() == ""


def test_revision_is_a_commit_or_nothing():
    assert re.fullmatch(r"([0-9a-f]{40}\+?)?", environment.revision())


def test_processor_is_named_once(monkeypatch, tmp_path):
    listing = "processor : 0\nmodel name\t: A: B\nflags : avx2 fma\n\nprocessor : 1\nmodel name\t: A: B\nflags : avx2\n"
    (tmp_path / "cpuinfo").write_text(listing)
    monkeypatch.setattr(environment, "Path", lambda name: tmp_path / "cpuinfo")
    assert environment.processor() == "A: B"
    assert environment.processor_flags() == {"avx2", "fma"}


def test_without_a_listing(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "Path", lambda name: tmp_path / "missing")
    assert environment.processor()
    assert environment.processor_flags() == set()


def test_cores_are_at_least_one():
    assert environment.cores() >= 1
