"""A scenario's page shows its setup and its fault: the settings apply, the lines are those of the program."""

import dataclasses
import inspect
import json

import pytest

from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.reproducers.lines import lines
from trainwreck.scenarios.reproducers.program import Program
from trainwreck.scenarios.reproducers.text import text as program_text
from trainwreck.scenarios.spec.overrides import compose
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import Role, RunSpec
from trainwreck.scenarios.spec.scenario import Knobs
from trainwreck.scenarios.views.page import (
    base_in_words,
    difference,
    injected,
    lines_of,
    onset_in_words,
    page,
    recorded,
)

BASES = [
    f for _, f in inspect.getmembers(bases, inspect.isfunction) if list(inspect.signature(f).parameters) == ["setup"]
]


def written(value):
    """A setting's value in Hydra's syntax."""
    return value if isinstance(value, str) else json.dumps(value)


def own_setup(id):
    entry = scenario(id)
    return RunSpec(id, Role.FAULTY, 0, entry.sizes[0], entry.default_severity()).setup


@pytest.fixture(scope="module")
def texts():
    return {id: program_text(Program(id)) for id, entry in scenarios().items() if not entry.own_twin}


@pytest.mark.parametrize("id", scenarios())
def test_the_settings_applied_to_the_default_are_the_setup(id):
    rows = injected(id)["settings"]
    assert all(row["default"] != row["here"] for row in rows)
    default = healthy(scenario(id).sizes[0])
    applied, _ = compose(default, Knobs(), [f"{row['setting']}={written(row['here'])}" for row in rows])
    assert applied == own_setup(id)
    back, _ = compose(applied, Knobs(), [f"{row['setting']}={written(row['default'])}" for row in rows])
    assert back == default


def test_a_difference_has_what_differs_and_no_more():
    default = healthy(Size.MICRO)
    assert difference(default, default) == []
    here = replaced(default, optimizer__clip=None, model__init=dataclasses.replace(default.model.init, head_std=1.0))
    assert difference(default, here) == [
        {"setting": "model.init.head_std", "default": 0.02, "here": 1.0},
        {"setting": "optimizer.clip", "default": 1.0, "here": None},
    ]


@pytest.mark.parametrize("id", scenarios())
def test_the_base_in_words_is_that_of_the_setup(id):
    words = base_in_words(scenario(id))
    assert words[0].isupper()
    assert words.endswith(".")
    assert "`" not in words
    same = {" ".join(f.__doc__.split("\n\n")[0].split()) for f in BASES if f(healthy(Size.MICRO)) == own_setup(id)}
    assert not same or words in same


def test_no_two_bases_are_one_setup_or_have_the_same_words():
    assert len(BASES) > 20
    setups = [json.dumps(difference(healthy(Size.MICRO), f(healthy(Size.MICRO)))) for f in BASES]
    assert len(set(setups)) == len(BASES)
    assert len({f.__doc__.split("\n\n")[0] for f in BASES}) == len(BASES)


def test_the_recorded_lines_are_those_of_the_programs(texts):
    """After a change of a fault: `python -m trainwreck.scenarios.views.page`."""
    assert list(recorded()) == sorted(texts)
    stale = [id for id, text in texts.items() if recorded()[id] != lines(id, text)]
    assert stale == []


def test_every_line_is_of_the_exported_program(texts):
    for id, text in texts.items():
        whole, settings = {line.strip() for line in text.splitlines()}, " ".join(text.split())
        shown = [line for line in recorded()[id] if line]
        assert any(line.startswith("+ ") for line in shown), id
        for line in shown:
            assert line[:2] in ("+ ", "- ", "  "), (id, line)
            name, _, value = line[2:].partition(" = ")
            if line.startswith("- c."):
                assert f"{name.removeprefix('c.')}={value}," in settings, (id, line)
            else:
                assert line[2:].strip() in whole, (id, line)


def test_each_changed_setting_has_both_values_and_a_line_that_reads_it():
    for id in recorded():
        shown = recorded()[id]
        goes = {line[2:].partition(" = ")[0] for line in shown if line.startswith("- c.")}
        comes = {line[2:].partition(" = ")[0] for line in shown if line.startswith("+ c.")}
        assert goes == comes, id
        rest = "\n".join(line for line in shown if line[2:4] != "c.").replace("setup.", "c.")
        assert all(name in rest for name in goes), id


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("softmax_unshifted", ["- probs = torch.softmax(scores, -1)"]),
        ("mask_off_by_one", ["- c.diagonal = 0", "+ c.diagonal = 1"]),
        ("schedule_restarted", ["- rate = learning_rate(c, step)", "+ rate = learning_rate(c, step - ONSET)"]),
        ("overfit_small_set", ["+ return taken(rows, np.concatenate(orders)[index - epoch * setup.pool])"]),
        ("poisoned_checkpoint", ["+ if fault and step == ONSET:  # THE FAULT"]),
    ],
)  # fmt: skip
def test_what_a_line_replaces_goes(id, expected):
    assert set(expected) <= set(recorded()[id])


def test_one_that_changes_no_line_says_why():
    own = [id for id, entry in scenarios().items() if entry.own_twin]
    assert own
    for id in own:
        facts = injected(id)
        assert facts["lines"] == []
        assert "its own twin" in facts["no_lines"]
        assert facts["settings"]
    assert all(not injected(id)["no_lines"] for id in recorded())


def test_the_onset_in_words_holds_the_onset():
    assert onset_in_words(scenario("mask_zeroed")).startswith("from a step between")
    for id, entry in scenarios().items():
        steps = {entry.onset_step(seed, 1000) for seed in range(20)}
        if entry.onset is None:
            assert (onset_in_words(entry), steps) == ("from step 0 on", {0}), id
        else:
            low, high = (int(word.rstrip("%")) * 10 for word in onset_in_words(entry).split() if word.endswith("%"))
            assert low - 10 <= min(steps) <= max(steps) <= high + 10, id


def test_a_pair_has_the_lines_of_both():
    facts = page("corrupt_tokens+high_lr")
    assert facts["lines"] == [*recorded()["corrupt_tokens"], "", *recorded()["high_lr"]]
    assert facts["settings"]
    assert facts["sections"]["Failure"]


def test_a_scenario_of_a_file_gets_its_lines_when_asked(tmp_path):
    from trainwreck.scenarios.catalogue.optimisation import high_lr

    source = inspect.getsource(high_lr).replace('"high_lr"', '"mine"').replace("HighLr", "Mine").replace("9.0", "7.0")
    (tmp_path / "mine.py").write_text(source, encoding="utf-8")
    name = next(
        line.split()[1].partition("(")[0]
        for line in source.splitlines()
        if line.startswith("class ") and "Knobs" not in line
    )
    found, why = lines_of(f"{tmp_path}/mine.py:{name}")
    assert (why, "+     return rate * (1 + (7.0 - 1) * min(1.0, (since + 1) / 150))" in found) == ("", True)
