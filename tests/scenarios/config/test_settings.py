"""Settings: bad values are refused with one line; paths, copies, JSON and fingerprints."""

import dataclasses
import json
import math
from enum import Enum

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.models.config import Format, ModelConfig, Norm, OptimizerKind, Recompute
from trainwreck.scenarios.config.experts import BalanceAxis
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import (
    LARGEST,
    OPTIONAL,
    RANGES,
    WITH_RARE_WORDS,
    Decay,
    Dialect,
    Setup,
    SourceKind,
    as_dict,
    check,
    fingerprint,
    get,
    replace,
    replaced,
)
from trainwreck.scenarios.data.sources.language import Language
from trainwreck.scenarios.data.sources.selection import SPECS

NAN, INF = math.nan, math.inf
REFUSED = {
    "steps": (0, -1, 10**7 + 1, None, NAN),
    "tail": (-1, 10**6 + 1, None),
    "dropout": (-0.1, 0.96, 1.0, None, NAN),
    "z_loss": (-1e-9, 1.1, None, NAN),
    "model.init.embedding_std": (-0.1, None, NAN, INF),
    "model.init.matrix_std": (-0.1, None, NAN, INF),
    "model.init.head_std": (-0.1, None, NAN, INF),
    "model.init.new_rows_std": (-0.1, None, NAN, INF),
    "adapters.rank": (-1, 2**16 + 1, None),
    "adapters.language_seed": (-1, 2**62 + 1, None),
    "growth.rows": (-1, 2**22 + 1, None),
    "growth.share": (-0.1, 1.1, None, NAN),
    "modalities.picture_weight": (-0.1, 1e6 + 1, None, NAN),
    "transcription.noise": (-0.1, 1e3 + 1, None, NAN),
    "retrieval.refresh": (-1, 10**6 + 1, None),
    "decoding.scheduled_sampling": (-0.1, 1.1, None, NAN),
    "model.init.router_std": (-0.1, 1e3 + 1, None, NAN, INF),
    "routing.balance_loss": (-1e-9, 1e3 + 1, None, NAN),
    "routing.router_z_loss": (-1e-9, 1e3 + 1, None, NAN),
    "preferences.beta": (0, -0.1, 1e3 + 1, None, NAN, INF),
    "preferences.anchor": (-0.1, 1e3 + 1, None, NAN, INF),
    "diffusion.emphasis": (-0.1, 101, None, NAN),
    "policy.kl": (-0.1, 1e3 + 1, None, NAN, INF),
    "policy.clip": (-0.1, 1.1, None, NAN),
    "policy.clip_high": (-0.1, 1e3 + 1, None, NAN, INF),
    "policy.entropy": (-1e3 - 1, 1e3 + 1, None, NAN, INF),
    "policy.updates": (0, 10**5 + 1, None),
    "policy.group": (1, 10**4 + 1, None),
    "policy.temperature": (0, -1.0, 1e3 + 1, None, NAN, INF),
    "policy.sync": (0, 10**6 + 1, None),
    "policy.comparisons": (0, 10**6 + 1, None),
    "policy.length_bias": (-1e3 - 1, 1e3 + 1, None, NAN, INF),
    "policy.offset": (-0.1, 1e3 + 1, None, NAN, INF),
    "policy.value_weight": (-0.1, 1e6 + 1, None, NAN, INF),
    "policy.gae_lambda": (-0.1, 1.1, None, NAN),
    "policy.value_clip": (0, -0.1, 1e6 + 1, None, NAN, INF),
    "data.rows": (0, -4, 10**5 + 1, None),
    "data.language_seed": (-1, 2**62 + 1, None),
    "data.pool": (-1, 10**6 + 1, None, NAN),
    "data.longest": (-1, 10**6 + 1, None, NAN),
    "data.one_token_every": (-1, 10**6 + 1, None, NAN),
    "data.padding_every": (-1, 10**6 + 1, None, NAN),
    "data.short_every": (-1, 10**5 + 1, None, NAN),
    "data.rare_words": (-1, 2**15 + 1, None, NAN),
    "label_smoothing": (-0.1, 1.1, None, NAN),
    "model.init.residual_std": (-0.1, 1e5 + 1, None, NAN, INF),
    "model.init.mlp_bias": (-1e3 - 1, 1e3 + 1, None, NAN, INF),
    "distributed.ranks": (0, 65, None),
    "optimizer.lr": (-1e-9, 1e4 + 1, None, NAN, INF, -INF),
    "optimizer.beta1": (-0.1, 1.0, None, NAN),
    "optimizer.beta2": (-0.1, 1.0, None, NAN),
    "optimizer.eps": (-1e-9, 1e3 + 1, None, NAN),
    "optimizer.weight_decay": (-1e-9, 1e4 + 1, None, NAN),
    "optimizer.clip": (0, -1.0, 1e13, NAN, INF),
    "optimizer.update_clip": (0, -1.0, 1e13, NAN, INF),
    "schedule.warmup_steps": (-1, 10**7 + 1, None),
    "schedule.final_fraction": (-0.1, 1.1, None, NAN),
    "schedule.total_steps": (0, -1, 10**7 + 1),
    "schedule.calls": (0, -1, 10**4 + 1, None),
    "precision.loss_scale": (0, -1.0, 2.0**41, None, NAN, INF),
    "precision.growth_interval": (0, -1, 10**7 + 1, None),
    "precision.smallest_scale": (0, -1.0, 2.0**41, None, NAN),
    "precision.largest_scale": (0, -1.0, 2.0**41, None, NAN),
    "evaluation.every": (0, -1, 10**7 + 1, None),
    "evaluation.rows": (0, -1, 10**5 + 1, None),
    "evaluation.average": (-0.1, 1.1, None, NAN),
    "evaluation.sample": (-1, 10**5 + 1, None, NAN),
}
ACCEPTED = {
    "steps": (1, 10**7), "tail": (0,), "dropout": (0, 0.95), "z_loss": (0, 1), "data.rows": (1,),
    "data.language_seed": (0, 2**62), "distributed.ranks": (2,), "optimizer.lr": (0, 1e4),
    "optimizer.beta1": (0, 0.999), "optimizer.beta2": (0,), "optimizer.eps": (0,),
    "optimizer.weight_decay": (0,), "optimizer.clip": (None, 1e-30, 1e12),
    "optimizer.update_clip": (None, 1e-30), "schedule.total_steps": (None, 1), "schedule.calls": (1,),
    "schedule.warmup_steps": (0, 500), "schedule.final_fraction": (0, 1), "precision.loss_scale": (1e-9, 2.0**40),
    "precision.growth_interval": (1,), "evaluation.every": (1, 10**7), "evaluation.rows": (1,),
    "evaluation.average": (0, 1),
    "evaluation.sample": (0, 1),
}  # fmt: skip


def leaves(node, prefix=""):
    """Dotted path and value of every setting."""
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if dataclasses.is_dataclass(value):
            yield from leaves(value, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}", value


COUNTS = ("layers", "width", "heads", "mlp_ratio", "vocab_size", "context")
LEAVES = dict(leaves(Setup()))


@pytest.mark.parametrize(("path", "value"), [(path, value) for path, values in REFUSED.items() for value in values])
def test_a_bad_value_is_refused_in_one_line(path, value):
    with pytest.raises(InputError) as error:
        check(replace(Setup(), path, value))
    line = str(error.value)
    low, high, inclusive = RANGES[path]
    allowed = f"{low:g}" if inclusive else f"over {low:g}"
    assert line == f"{path}: {value!r} is not allowed; allowed: {allowed} to {high:g}"
    assert "\n" not in line


@pytest.mark.parametrize(("path", "value"), [(path, value) for path, values in ACCEPTED.items() for value in values])
def test_a_good_value_is_not(path, value):
    check(replace(Setup(), path, value))


def test_short_rows_of_exchanges_are_refused():
    with pytest.raises(InputError) as error:
        check(replaced(Setup(), data__short_every=2, data__dialect=Dialect.CHAT))
    assert str(error.value) == "data.short_every: 2 is not allowed with data.dialect=chat; allowed: 0"
    check(replaced(Setup(), data__dialect=Dialect.CHAT))


RARE = {"data__rare_words": 12}
NOT_WITH_RARE_WORDS = {
    "objective": ObjectiveKind.DECODING, "data.source": SourceKind.TEXT, "data.dialect": Dialect.CHAT, "data.pool": 40,
    "data.padded": True, "data.one_token_every": 3, "data.padding_every": 3, "growth.rows": 160, "adapters.rank": 4,
}  # fmt: skip


@pytest.mark.parametrize("path", WITH_RARE_WORDS)
def test_what_does_not_go_with_rare_words_is_refused(path):
    value = NOT_WITH_RARE_WORDS[path]
    setup, refrain = replaced(Setup(), **RARE), {"data__dialect": Dialect.REFRAIN}
    check(setup)
    with pytest.raises(InputError) as error:
        check(replace(replaced(setup, **refrain) if path == "objective" else setup, path, value))
    assert str(error.value) == f"data.rare_words: 12 is not allowed with {path}={as_dict(value)}; allowed: 0"


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"model__vocab_size": 48}, "12 is not allowed with model.vocab_size=48; allowed: 0, or a table over 60"),
        ({"model__context": 16}, "12 is not allowed; allowed: 0 to half of model.context, 8"),
    ],
)
def test_rare_words_need_ids_and_room(values, line):
    with pytest.raises(InputError) as error:
        check(replaced(Setup(), **RARE | values))
    assert str(error.value) == f"data.rare_words: {line}"


def test_no_dialect_has_more_ids_than_rare_words_leave_it():
    assert max(Language(spec(0)).vocabulary for spec in SPECS.values()) == LARGEST
    assert set(SPECS) == set(WITH_RARE_WORDS["data.dialect"])


EXPERTS = {"model__experts": 16, "model__expert_units": 16}
NOT_WITH_EXPERTS = {
    "model.expert_units": (24, "multiples of 16"),
    "model.experts": (24, "multiples of 16"),
    "model.experts_per_token": (17, "1 to model.experts, 16"),
    "precision.format": (Format.FP8, "'fp32', 'bf16', 'fp16'"),
    "optimizer.kind": (OptimizerKind.MUON, "'adamw', 'sgd', 'lion'"),
    "model.recompute": (Recompute.SAME_MASKS, "'none'"),
    "distributed.ranks": (2, "1"),
    "adapters.rank": (4, "0"),
}


@pytest.mark.parametrize("path", NOT_WITH_EXPERTS)
def test_what_a_model_with_experts_does_not_support_is_refused(path):
    value, allowed = NOT_WITH_EXPERTS[path]
    setup = replaced(Setup(), **EXPERTS)
    check(setup)
    with pytest.raises(InputError) as error:
        check(replace(setup, path, value))
    line = str(error.value)
    assert line.startswith(f"{path}: {(value.value if isinstance(value, Enum) else value)!r} is not allowed")
    assert line.endswith(f"; allowed: {allowed}")


def test_a_run_that_decodes_has_no_experts():
    setup = replaced(Setup(), objective=ObjectiveKind.DECODING, data__dialect=Dialect.REFRAIN)
    check(setup)
    with pytest.raises(InputError, match=r"^objective: 'decoding' is not allowed with model.experts=16"):
        check(replaced(setup, **EXPERTS))


@pytest.mark.parametrize(
    ("path", "value", "only"),
    [
        ("model.experts_per_token", 2, "1"),
        ("model.expert_units", 16, "64"),
        ("model.capacity", 2.0, "1.25"),
        ("routing.balance_loss", 0.05, "0.01"),
        ("routing.balance_axis", BalanceAxis.EXPERTS, "'tokens'"),
        ("routing.router_z_loss", 0.001, "0.0"),
    ],
)
def test_settings_of_experts_are_refused_without_any(path, value, only):
    shown = value.value if isinstance(value, Enum) else value
    line = f"{path}: {shown!r} is not allowed without experts; allowed: {only}, or model.experts"
    with pytest.raises(InputError) as error:
        check(replace(Setup(), path, value))
    assert str(error.value) == line
    check(replace(replaced(Setup(), **EXPERTS), path, value))


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("experts", -1, "0 to 4096"), ("experts", 4097, "0 to 4096"), ("experts_per_token", 0, "1 or more"),
        ("expert_units", 0, "1 or more"), ("capacity", 0.2, "0.25 to 64"), ("capacity", math.nan, "0.25 to 64"),
    ],
)  # fmt: skip
def test_sizes_of_experts_are_refused(name, value, allowed):
    with pytest.raises(ValueError, match=rf"^model\.{name}: {value} is not allowed; allowed: {allowed}$"):
        ModelConfig(**{name: value})


def test_every_number_that_the_model_does_not_check_itself_has_a_range():
    own = {f"model.{field.name}" for field in dataclasses.fields(ModelConfig)}
    numbers = {path for path, value in LEAVES.items() if type(value) in (int, float) and path not in own}
    assert set(RANGES) == set(REFUSED) == numbers | set(OPTIONAL)


@pytest.mark.parametrize("path", ["model.width", "model.context", "model.vocab_size"])
def test_shapes_whose_sums_depend_on_the_bundle_are_refused(path):
    with pytest.raises(InputError, match=rf"^{path}: 40 is not allowed; allowed: multiples of 16$"):
        check(replace(Setup(), path, 40))
    check(replace(Setup(), path, 48 if path != "model.width" else 80))


@pytest.mark.parametrize(
    ("values", "line"),
    [
        *(({name: 0}, f"model.{name}: 0 is not allowed; allowed: 1 or more") for name in COUNTS),
        ({"width": 20, "heads": 4}, "model.width: 20 is not allowed with 4 heads; allowed: multiples of 8"),
        ({"norm_eps": -1e-9}, "model.norm_eps: -1e-09 is not allowed; allowed: 0 or more"),
    ],
)  # fmt: skip
def test_a_bad_model_is_refused_in_one_line(values, line):
    with pytest.raises(ValueError, match=r"^model\.[^\n]*; allowed: [^\n]*$") as error:
        ModelConfig(**values)
    assert str(error.value).startswith(line)


def other(path):
    """A value that the setting does not have, and that the model, which checks itself, takes."""
    value = LEAVES[path]
    if isinstance(value, Enum):
        return next(member for member in type(value) if member is not value)
    if path in NEIGHBOURS:
        return NEIGHBOURS[path]
    if isinstance(value, bool):
        return not value
    return f"{value}x" if isinstance(value, str) else value + 1


NEIGHBOURS = {
    "model.width": 128,
    "model.heads": 2,
    "model.attention": "fp16_scores",
    "optimizer.clip": None,
    "optimizer.update_clip": 1.0,
    "schedule.total_steps": 100,
}


@pytest.mark.parametrize("path", LEAVES)
def test_replace_changes_a_copy_in_one_place(path):
    setup, mark = Setup(), other(path)
    changed = replace(setup, path, mark)
    assert get(changed, path) == mark
    assert dict(leaves(setup)) == LEAVES
    assert {p for p, v in leaves(changed) if v != LEAVES[p]} == {path}
    group = path.split(".")[0]
    assert all(getattr(changed, f.name) is getattr(setup, f.name) for f in dataclasses.fields(Setup) if f.name != group)


def test_a_value_that_the_model_refuses_is_bad_input():
    """A fault may set a width that goes with its own base's heads, and not with a user's."""
    six = replaced(Setup(), model__width=48, model__heads=6)
    with pytest.raises(InputError, match=r"^model\.width: 16 is not allowed with 6 heads; allowed: multiples of 12$"):
        replace(six, "model.width", 16)


def test_replaced_takes_several_paths():
    setup = replaced(Setup(), optimizer__lr=0.5, steps=7, model__init__head_std=1.0)
    assert (setup.optimizer.lr, setup.steps, setup.model.init.head_std) == (0.5, 7, 1.0)


@pytest.mark.parametrize(
    "path", ["optimizer.lrr", "optimiser.lr", "", "steps.more", "optimizer.lr.more", "model.init.std"]
)
@pytest.mark.parametrize("call", [get, lambda setup, path: replace(setup, path, 1)])
def test_a_path_that_is_not_there(path, call):
    with pytest.raises(InputError) as error:
        call(Setup(), path)
    assert repr(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_near_miss_is_named():
    with pytest.raises(InputError, match=r"did you mean 'warmup_steps'\?"):
        get(Setup(), "schedule.warm_up_steps")


def test_as_dict_is_json():
    content = as_dict(replaced(Setup(), schedule__decay=Decay.LINEAR, model__norm=Norm.RMS, optimizer__clip=None))
    assert json.loads(json.dumps(content)) == content
    assert (content["schedule"]["decay"], content["model"]["norm"], content["optimizer"]["clip"]) == (
        "linear",
        "rms",
        None,
    )


@pytest.mark.parametrize("path", LEAVES)
def test_every_setting_is_in_the_fingerprint(path):
    assert fingerprint(replace(Setup(), path, other(path))) != fingerprint(Setup())
    assert fingerprint(replace(Setup(), path, LEAVES[path])) == fingerprint(Setup())


def test_a_fingerprint_knows_values_and_not_their_order():
    assert fingerprint({"a": 1, "b": [None]}) == fingerprint({"b": [None], "a": 1})
    assert fingerprint([1, 2]) != fingerprint([2, 1])
