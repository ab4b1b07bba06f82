"""Which column is which signal."""

import pytest

from trainwreck.evaluation.dataset.schema import BY_NAME
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.names import SYNONYMS, Target, choose, parse_mapping, plain

TRAINERS = {
    "Transformers": ("global_step", ["loss", "eval_loss", "grad_norm", "learning_rate", "epoch"]),
    "Transformers in TensorBoard": (None, ["train/loss", "eval/loss", "train/grad_norm", "train/learning_rate"]),
    "Lightning": ("step", ["train_loss", "val_loss", "grad_2.0_norm_total", "lr-AdamW"]),
    "nanoGPT": ("iter", ["train/loss", "val/loss", None, "lr", "mfu"]),
    "LLM Foundry": (None, ["loss/train/total", "metrics/eval/LanguageCrossEntropy", "l2_norm/grad/global",
                           "lr-DecoupledAdamW/group0"]),
    "OLMo": ("_step", ["train/CrossEntropyLoss", "validation_loss", "optim/total_grad_norm",
                       "optim/learning_rate_group0"]),
    "fairseq": ("train_num_updates", ["train_loss", "valid_loss", "train_gnorm", "train_lr"]),
    "Megatron": ("iteration", ["lm loss", "lm loss validation", "grad-norm", "learning-rate"]),
    "Keras style": ("step", ["Loss/train", "Loss/val", None, "Learning Rate"]),
}  # fmt: skip


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_names_that_trainers_give(trainer: str) -> None:
    step, names = TRAINERS[trainer]
    columns = [name for name in (step, *names) if name is not None]
    choice = choose(columns, {}, "a log", has_step=step is not None)
    signals = ("loss", "validation_loss", "grad_norm", "lr")
    known = {name: Target(signal) for name, signal in zip(names, signals, strict=False) if name is not None}
    assert choice.step == step
    assert choice.signals == known
    assert set(choice.ignored) == set(columns) - set(known) - {step}


TRL = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "lr",
    "reward": "reward",
    "kl": "kl",
    "completions/mean_length": "answer_length",
    "frac_reward_zero_std": "groups_without_variance",
    "sampling/sampling_logp_difference/mean": "sampler_log_ratio",
    "rewards/accuracies": "preference_accuracy",
    "loss/value_avg": "value_loss",
    "explained_variance": "explained_variance",
}
OTHER_QUANTITIES = (
    "entropy", "clip_ratio/region_mean", "clip_ratio", "rewards/margins", "rewards/chosen", "logps/chosen",
    "logps/rejected", "reward_std", "completions/clipped_ratio", "sampling/sampling_logp_difference/max",
    "eval_rewards/accuracies", "eval_reward", "eval_kl", "rewards/length_reward/mean", "train/value_loss",
)  # fmt: skip


@pytest.mark.parametrize("prefix", ["", "train/"])
def test_of_trls_columns_those_are_read_that_are_the_same_quantity(prefix: str) -> None:
    known = {prefix + column: Target(signal) for column, signal in TRL.items()}
    others = [column if column.startswith(("eval", "train/")) else prefix + column for column in OTHER_QUANTITIES]
    choice = choose(["step", *known, *others], {}, "a log")
    assert choice.signals == known
    assert choice.ignored == dict.fromkeys(sorted(others), "no known signal")


def test_columns_of_diffusers_examples() -> None:
    assert choose(["step", "step_loss", "lr"], {}, "a log").signals == {
        "step_loss": Target("loss"),
        "lr": Target("lr"),
    }
    both = choose(["step", "step_loss", "train_loss", "lr"], {}, "a log")
    assert both.signals == {"train_loss": Target("loss"), "lr": Target("lr")}
    assert both.ignored == {"step_loss": "loss is read from 'train_loss'"}


def test_the_first_name_of_a_signal_is_taken_and_the_others_listed() -> None:
    choice = choose(["_step", "train_loss_epoch", "train/loss", "global_step", "cross_entropy"], {}, "a log")
    assert choice.step == "global_step"
    assert choice.signals == {"train/loss": Target("loss")}
    assert choice.ignored == {
        "_step": "step is read from 'global_step'",
        "train_loss_epoch": "loss is read from 'train/loss'",
        "cross_entropy": "loss is read from 'train/loss'",
    }


def test_a_mapping_comes_first() -> None:
    mapping = parse_mapping(["a=b=loss", "epoch=step", "norms=layer_grad_norm/2"])
    choice = choose(["step", "epoch", "loss", "a=b", "norms"], mapping, "a log")
    assert choice.step == "epoch"
    assert choice.signals == {"a=b": Target("loss"), "norms": Target("layer_grad_norm", 2)}
    assert choice.ignored == {"step": "step is read from 'epoch'", "loss": "loss is read from 'a=b'"}


def test_a_lists_entries_are_known_by_the_schemas_name_only() -> None:
    choice = choose(["step", "layer_grad_norm/0", "layer_grad_norm/11", "layer/0", "loss/0"], {}, "a log")
    assert choice.signals == {f"layer_grad_norm/{i}": Target("layer_grad_norm", i) for i in (0, 11)}
    assert set(choice.ignored) == {"layer/0", "loss/0"}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("loss", "'loss' is not allowed; allowed: COLUMN=SIGNAL"),
        ("=loss", "COLUMN=SIGNAL"),
        ("x=los", "did you mean 'loss'?"),
        ("x=layer_grad_norm", "one entry of the list, layer_grad_norm/0"),
        ("x=layer_grad_norm/a", "layer_grad_norm/0"),
    ],
)
def test_a_wrong_mapping_is_refused(word: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse_mapping([word])
    assert message in str(error.value)


@pytest.mark.parametrize("words", [("x=loss", "x=lr"), ("x=loss", "y=loss")])
def test_a_mapping_is_one_to_one(words: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="a second time"):
        parse_mapping(words)


def test_every_name_is_spelt_plainly_and_stands_for_one_signal() -> None:
    names = [(name, signal) for signal, spelt in SYNONYMS.items() for name in spelt.spelt()]
    assert all(name == plain(name) for name, _ in names)
    assert len({name for name, _ in names}) == len(names)
    assert {signal for _, signal in names} <= {"step", *BY_NAME}
    assert all(name == signal for name, signal in names if name in BY_NAME)
