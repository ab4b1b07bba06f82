"""What `import trainwreck` offers."""

import ast
import doctest
import inspect

import pytest

import trainwreck
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.leaderboard.run import Scorecard
from trainwreck.scenarios.spec.scenario import Scenario


@pytest.mark.parametrize("name", trainwreck.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert inspect.getdoc(getattr(trainwreck, name))


def test_the_examples_of_the_docstring_run():
    assert doctest.testmod(trainwreck, raise_on_error=True).attempted > 0


def test_the_checker_is_told_the_same_names():
    (block,) = [node for node in ast.parse(inspect.getsource(trainwreck)).body if isinstance(node, ast.If)]
    told = {alias.name: node.module for node in block.body for alias in node.names}
    assert told == {name: f"trainwreck.{home}" for name, home in trainwreck._HOMES.items()}
    assert set(trainwreck.__all__) == {*told, "scenarios"}


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

    dataset = trainwreck.load(data_set)
    card = trainwreck.score(Late, dataset)
    assert isinstance(dataset, DataSet)
    assert isinstance(card, Scorecard)
    assert {alarms.first_alarm for alarms in card.alarms} == {7}
    board = trainwreck.leaderboard(dataset, [Late], profiles=["full"])
    assert board["detector"].tolist() == ["late"]


def test_a_wrong_data_set_is_an_input_error(tmp_path):
    with pytest.raises(trainwreck.InputError, match="not a folder"):
        trainwreck.load(tmp_path / "nowhere")
