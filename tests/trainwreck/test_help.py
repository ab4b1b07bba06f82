"""Help, usage and the nearest name: what the command line says where nothing has run yet."""

import re

import click
import pytest

from trainwreck.cli import COMMANDS, GROUPS, cli
from trainwreck.commands.choices import DataSetFolder
from trainwreck.evaluation.dataset.sample import sample

CONTEXT = click.Context(cli)


def commands():
    """Every command by the words that name it."""
    for name in COMMANDS:
        command = cli.get_command(CONTEXT, name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {word}", one) for word, one in command.commands.items())
        else:
            yield name, command


EVERY = dict(commands())


@pytest.mark.parametrize("words", [(), ("bench",)], ids=str)
def test_without_words_the_help_is_printed_as_it_is_laid_out(words, call):
    alone, with_help = call(*words), call(*words, "--help")
    assert (alone.code, alone.err) == (0, "")
    assert alone.out == with_help.out
    assert len(alone.out.splitlines()) > 15


def test_every_command_stands_below_its_heading(call):
    page = call("--help").out
    places = [page.index(f"\n{heading}:\n") for heading in GROUPS]
    assert places == sorted(places)
    for heading, commands in GROUPS.items():
        section = page.partition(f"\n{heading}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  (\S+)  ", section, re.MULTILINE) == list(commands)
    assert list(GROUPS) == ["Explore", "Score", "Data", "Live", "Develop"]
    assert "..." not in page.partition("\nExplore:")[2]  # no line is cut off


@pytest.mark.parametrize("name", EVERY)
def test_every_command_has_json_and_help(name, call):
    assert "--json" in {option for parameter in EVERY[name].params for option in parameter.opts}
    assert EVERY[name].help
    assert f"trainwreck {name}" in call(*name.split(), "--help").out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_of_a_command_is_the_first_of_its_help(name):
    command = cli.get_command(CONTEXT, name)
    assert command.name == name
    assert command.help.splitlines()[0] == COMMANDS[name][1]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("scor",), "unknown command 'scor'; did you mean 'score'?"),
        (("xyzzy",), "unknown command 'xyzzy'; `trainwreck --help` lists them"),
        (("class", "answers"), "unknown command 'class'; it is now 'quiz grade'"),
        (("--versoin",), "unknown option '--versoin'; did you mean '--version'?"),
        (("run", "high_lr", "--sede", "1"), "unknown option '--sede'; did you mean '--seed'?"),
        (("quiz", "grade", "a", "--kye", "b"), "unknown option '--kye'; did you mean '--key'?"),
        (("list", "--xyzzy"), "unknown option '--xyzzy'; `trainwreck list --help` lists them"),
        (("score", "sample"), "Missing option '--detector'."),
        (("score", "sample", "--detector", "zclip", "--profile", "ful"),
         "profile: 'ful' is not allowed; did you mean 'full'?; allowed: full, common, standard, minimal, filtered"),
        (("submit", "sample", "--track", "blnd"), "track: 'blnd' is not allowed; did you mean 'blind'?"),
        (("run", "high_lr", "--device", "gpu"), "device: 'gpu' is not allowed; did you mean 'cpu'?; allowed: "),
        (("run", "high_lr", "--impl", "tritn"), "impl: 'tritn' is not allowed; did you mean 'triton'?"),
        (("export", "sample", "--to", "wandbb", "--out", "o"), "to: 'wandbb' is not allowed; did you mean 'wandb'?"),
        (("bench", "trian"), "what: 'trian' is not allowed; did you mean 'train'?"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_word_is_one_line(words, line, call, here):
    result = call(*words)
    assert (result.code, result.out) == (2, "")
    (message,) = result.err.splitlines()
    assert message.startswith(f"trainwreck: {line}")
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "usage", "missing"),
    [
        (("run",), "trainwreck run [OPTIONS] ID [KEY=VALUE ...]", "ID"),
        (("score", "--detector", "zclip"), "trainwreck score [OPTIONS] DIR", "DIR"),
        (("reproduce", "sample"), "trainwreck reproduce [OPTIONS] DIR RUN_ID", "RUN_ID"),
        (("compare", "sample"), "trainwreck compare [OPTIONS] DIR DETECTOR [OTHER ...]", "DETECTOR"),
        (("equivalence",), "trainwreck equivalence [OPTIONS] DIR ...", "DIR ..."),
        (("gallery",), "trainwreck gallery [OPTIONS] DIRS...", "DIRS..."),
        (("quiz", "grade"), "trainwreck quiz grade [OPTIONS] EXPORTS...", "EXPORTS..."),
    ],
    ids=str,
)
def test_a_missing_argument_shows_the_usage(words, usage, missing, call):
    result = call(*words)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"Usage: {usage}\ntrainwreck: Missing argument '{missing}'.\n"


def test_playing_is_the_quiz_where_nothing_else_is_named(call):
    group = call("quiz", "--help").out
    assert [re.search(rf"^  {name}  ", group, re.MULTILINE) is not None for name in ("play", "grade")] == [True, True]
    for words in (("quiz", "nowhere"), ("quiz", "play", "nowhere")):
        call(*words).refused("data set: 'nowhere' is not a folder")
    for words in (("quiz", "--runs", "3"), ("quiz", "play", "--runs", "3"), ("quiz", "sample", "--runs", "3")):
        call(*words).refused("runs: 3 is not allowed")


def test_every_command_with_a_data_set_takes_the_sample(call):
    taking = {
        name
        for name, command in EVERY.items()
        if any(isinstance(parameter.type, DataSetFolder) for parameter in command.params)
    }
    assert taking == {
        "gallery", "quiz play", "quiz grade", "score", "leaderboard", "compare", "report", "submit", "confirm",
        "rescore", "rescue", "label", "reproduce", "diff", "export", "release", "audit", "equivalence", "learn",
    }  # fmt: skip
    folders = {"dir", "dirs", "other", "data", "source", "parts"}
    for name, command in EVERY.items():
        for parameter in command.params:
            assert isinstance(parameter.type, DataSetFolder) == (parameter.name in folders), (name, parameter.name)
            if parameter.name in folders:
                assert parameter.type.convert("sample", parameter, None) == sample()


def test_what_is_written_into_is_not_the_sample(call):
    before = {path: path.stat().st_mtime_ns for path in sample().rglob("*")}
    for words in ((), ("--visible",), ("--from", "sample")):
        call("label", "sample", *words).refused("dir: 'sample' is not allowed, since labels are written into it")
    call("label", "sample", "--check").refused("no base has enough to check labels")
    assert {path: path.stat().st_mtime_ns for path in sample().rglob("*")} == before
