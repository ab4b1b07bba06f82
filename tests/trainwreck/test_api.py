"""What `import trainwreck` offers."""

import ast
import doctest
import inspect
from dataclasses import fields

import click
import pytest

import trainwreck
from trainwreck import dataset
from trainwreck.cli import cli
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.leaderboard.cache import scores_of
from trainwreck.evaluation.leaderboard.run import Scorecard
from trainwreck.evaluation.replay.oracles import ORACLES
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.scoring.scorecard import HEADLINES
from trainwreck.scenarios.spec.scenario import Scenario


@pytest.mark.parametrize("name", trainwreck.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert inspect.getdoc(getattr(trainwreck, name))


def test_the_examples_of_the_docstring_run():
    modules = (trainwreck, dataset)
    assert all(doctest.testmod(module, raise_on_error=True).attempted > 0 for module in modules)


def test_the_checker_is_told_the_same_names():
    (block,) = [node for node in ast.parse(inspect.getsource(trainwreck)).body if isinstance(node, ast.If)]
    typed = {alias.name: node.module for node in block.body for alias in node.names}
    assert typed == {name: f"trainwreck.{home}" for name, home in trainwreck._HOMES.items()}
    assert set(trainwreck.__all__) == {*typed, "scenarios"}


def test_scenarios_is_the_catalogue_and_the_package():
    catalogue = trainwreck.scenarios()
    assert all(isinstance(entry, Scenario) and entry.id == name for name, entry in catalogue.items())
    assert trainwreck.scenarios.__name__ == "trainwreck.scenarios"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'scenario'"):
        trainwreck.scenario  # noqa: B018


def test_a_detector_is_scored_on_a_loaded_data_set(data_set):
    class Late(trainwreck.Detector):
        """Alarms from step 7 on."""

        name = "late"

        def update(self, row):
            return trainwreck.Verdict(row["step"], row["step"] >= 7, ("mask_missing",))

    data = trainwreck.load(data_set)
    card = trainwreck.score(Late, data)
    assert isinstance(data, DataSet)
    assert isinstance(card, Scorecard)
    assert {alarms.first_alarm for alarms in card.alarms} == {7}
    board = trainwreck.leaderboard(data, [Late], profiles=["full"])
    assert board.to_frame()["detector"].tolist() == ["late"]


def test_a_wrong_data_set_is_an_input_error(tmp_path):
    with pytest.raises(trainwreck.InputError, match="not a folder"):
        trainwreck.load(tmp_path / "nowhere")


def test_dir_lists_the_names():
    assert set(trainwreck.__all__) <= set(dir(trainwreck))
    assert {name for name in dir(trainwreck) if not name.startswith("_")} == set(trainwreck.__all__)


def defaults(function):
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("name", ["score", "leaderboard", "submit"])
def test_a_function_has_the_defaults_of_its_command(name):
    command = cli.get_command(click.Context(cli), name)
    options = {option.name: option for option in command.params}
    function = defaults(getattr(trainwreck, name))
    shared = {"profile": "profile", "profiles": "profiles", "track": "track", "detector_seeds": "seeds"}
    compared = 0
    for option, parameter in shared.items():
        if option in options and parameter in function:
            assert options[option].default == function[parameter], parameter
            compared += 1
    assert compared
    limits = {field.name: field.default for field in fields(Limits)}
    assert all(options[option].default == value for option, value in limits.items() if option in options)
    assert function.get("limits") is None  # which is Limits()


@pytest.mark.parametrize(("name", "function"), [("import", "import_logs"), ("diagnose", "diagnose")])
def test_a_reader_of_logs_has_the_limits_of_its_command(name, function, tmp_path):
    options = {option.name: option.default for option in cli.get_command(click.Context(cli), name).params}
    limits = {option: value for option, value in options.items() if option.startswith("log_")}
    assert set(limits) == {"log_mb", "log_columns", "log_line_kb"}
    assert limits.items() <= defaults(getattr(trainwreck, function)).items()
    log = tmp_path / "log.csv"
    log.write_text("step,loss,grad_norm\n" + "".join(f"{i},{3 - i / 100},1\n" for i in range(60)))
    more = {"out": tmp_path / "made"} if name == "import" else {}
    for limit, value in {"log_mb": 0.001, "log_columns": 1, "log_line_kb": 0.001}.items():
        with pytest.raises(trainwreck.InputError, match=f"more with --{limit.replace('_', '-')}"):
            getattr(trainwreck, function)(log, **more, **{limit: value})
        with pytest.raises(trainwreck.InputError, match=f"^{limit}: -1 is not allowed"):
            getattr(trainwreck, function)(log, **more, **{limit: -1})
    assert not (tmp_path / "made").exists()
    getattr(trainwreck, function)(log, **more, log_columns=3, log_mb=1, log_line_kb=1)


def test_the_board_of_a_data_set_is_the_commands(data_set):
    extra = trainwreck.leaderboard(data_set, extra=["zclip"], profiles=["minimal"])
    assert {card.detector for card in extra.cards} == {*trainwreck.detectors(), *ORACLES}
    rows = [extra.to_dict()["rows"], scores_of(trainwreck.load(data_set), profiles=["minimal"])["rows"]]
    for row in (*rows[0], *rows[1]):
        del row["update_us"]  # which is measured
    assert rows[0] == rows[1]
    assert len(repr(extra).splitlines()) <= 30
    with pytest.raises(trainwreck.InputError, match="extra: not allowed beside detectors"):
        trainwreck.leaderboard(data_set, ["zclip"], extra=["nonfinite_loss"])


def test_a_data_set_is_given_by_word_by_folder_or_open():
    data = trainwreck.load("sample")
    assert trainwreck.load(data) is data
    assert trainwreck.load(trainwreck.sample()).path == data.path
    cards = [trainwreck.score("nonfinite_loss", given) for given in ("sample", trainwreck.sample(), data)]
    assert cards[0].in_time_recall == cards[1].in_time_recall == cards[2].in_time_recall


def test_a_detector_of_a_file_is_scored_and_put_on_a_board(data_set, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "class Mine:\n    def reset(self, context): pass\n    def update(self, row): return row['step'] >= 7\n"
    )
    card = trainwreck.score(f"{file}:Mine", data_set)
    assert {alarms.first_alarm for alarms in card.alarms} == {7}
    board = trainwreck.leaderboard(data_set, [f"{file}:Mine", "nonfinite_loss"])
    assert set(board.to_frame()["detector"]) == {"mine.py:Mine", "nonfinite_loss"}


def test_a_scorecard_has_attributes_a_table_and_a_short_form():
    card = trainwreck.score("zclip", "sample")
    assert card.in_time_recall == card.recall["0.05"]
    assert card.healthy_stopped == card.in_time_recall.stopped
    table = card.to_frame()
    assert table.index.tolist() == list(HEADLINES)
    for name in HEADLINES:
        assert tuple(table.loc[name, ["value", "low", "high"]]) == tuple(getattr(card, name)[:3])
        assert name == "lead" or inspect.getdoc(getattr(type(card), name))
    assert len(repr(card).splitlines()) <= 30
    assert repr(card).startswith("zclip on ")


def test_two_detectors_are_compared_by_paired_tests():
    found = trainwreck.compare("zclip", ["nonfinite_loss", "any_zscore"], "sample")
    assert set(found["detector"]) == {"nonfinite_loss", "any_zscore"}
    cards = {name: trainwreck.score(name, "sample") for name in ("zclip", "any_zscore")}
    row = found.set_index("detector").loc["any_zscore"]
    assert row["ahead_0.05"] == cards["zclip"].in_time_recall.value - cards["any_zscore"].in_time_recall.value
    with pytest.raises(trainwreck.InputError, match="'zclip' is named twice"):
        trainwreck.compare("zclip", ["zclip"], "sample")
    with pytest.raises(trainwreck.InputError, match="others: none"):
        trainwreck.compare("zclip", [], "sample")


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (trainwreck.verify, "ids: none"),
        (lambda: trainwreck.verify("high_lr", quick=True, seeds=8), "seeds: 8 is not allowed with quick"),
        (lambda: trainwreck.verify("high_lr", severity="sever"), "severity: 'sever' is not allowed; did you mean"),
        (lambda: trainwreck.generate("demoo", out="nowhere"), "plan: 'demoo' is not allowed; did you mean 'demo'"),
        (lambda: trainwreck.label("sample", visible=True), "a release is never changed"),
        (lambda: trainwreck.label("sample", visible=True, splits=["test"]), "splits: not allowed beside visible"),
        (lambda: trainwreck.import_logs("nowhere.csv", out="made"), "nowhere.csv"),
        (lambda: trainwreck.export("sample", "excel", "made"), "'excel' is not allowed"),
        (lambda: trainwreck.learn("sample", "weights.txt"), "a file that ends in .npz"),
        (lambda: trainwreck.gallery("sample", detectors=["zclip"], alarms=["kept"]), "detectors: not allowed beside"),
        (lambda: trainwreck.preflight("mine.py"), "factory: 'mine.py' is not allowed"),
        (lambda: trainwreck.run("mine.py:Mine"), r"scenario mine\.py: no such file"),
        (lambda: trainwreck.show("hi_lr"), "did you mean 'high_lr'"),
    ],
)
def test_bad_input_is_one_line(call, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(trainwreck.InputError, match=why) as found:
        call()
    assert "\n" not in str(found.value)
