"""Which column of a log is which signal: the names that trainers give, and `--map` for all others.

A name is compared in small letters, with every run of other characters as one underscore, so that
`train/loss`, `Train Loss` and `train_loss` are the same. A signal takes the first of its names that
the log has; the other columns are ignored, and listed. Units are taken as they are: whether a loss
is in nats, a log does not say.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trainwreck.evaluation.dataset.schema import BY_NAME, SIGNALS, Axis
from trainwreck.evaluation.errors import InputError, unknown

STEP = "step"
OWN_STEP = "the format has a step of its own"


class Target(NamedTuple):
    """A signal, and for a list signal the entry of it."""

    signal: str
    entry: int | None = None

    def __str__(self) -> str:
        return self.signal if self.entry is None else f"{self.signal}/{self.entry}"


@dataclass(frozen=True)
class Choice:
    """What was made of the columns of a log: the step's (None where the format has one), signals', others and why."""

    step: str | None
    signals: dict[str, Target]
    ignored: dict[str, str]


@dataclass(frozen=True)
class Names:
    """names: each alone (unless `alone` is False), and with each of `words` before and after it; then `others`."""

    names: tuple[str, ...]
    words: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    alone: bool = True

    def spelt(self) -> list[str]:
        """All of them, the first that a log has is taken."""
        found = []
        for name in self.names:
            found += [name] if self.alone else []
            found += [spelt for word in self.words for spelt in (f"{word}_{name}", f"{name}_{word}")]
        return [*found, *self.others]


_LOSSES = ("loss", "lm_loss", "ce_loss", "nll_loss", "cross_entropy_loss", "crossentropyloss", "cross_entropy")
_TRAIN = ("train", "training", "trainer")

SYNONYMS: dict[str, Names] = {
    # Transformers and Lightning log their own step to W&B; `_step` is its counter of calls.
    STEP: Names(
        ("global_step", "step", "steps", "iteration", "iter", "it", "num_updates"), _TRAIN, others=("_step",)
    ),
    "loss": Names(
        _LOSSES,
        _TRAIN,
        # Lightning; torchtitan; LLM Foundry; Megatron and Transformers in TensorBoard; Lightning's mean of an epoch
        others=(
            "train_loss_step", "global_avg_loss", "loss_metrics_global_avg_loss", "loss_train_total",
            "lm_loss_training_lm_loss", "train_train_loss", "train_loss_epoch",
            "step_loss",  # of diffusers' progress bars
        ),
    ),
    "validation_loss": Names(
        _LOSSES,
        ("validation", "val", "valid", "eval", "evaluation", "dev"),
        others=("val_loss_epoch", "metrics_eval_languagecrossentropy", "lm_loss_validation_lm_loss_validation"),
        alone=False,
    ),
    "grad_norm": Names(
        ("grad_norm", "gradient_norm", "gradnorm", "gnorm", "global_grad_norm", "total_grad_norm"),
        (*_TRAIN, "optim", "optimizer"),
        # LLM Foundry; Lightning's `grad_norm`; Megatron in TensorBoard
        others=("l2_norm_grad_global", "grad_2_0_norm_total", "grad_norm_grad_norm"),
    ),
    "lr": Names(
        ("lr", "learning_rate", "lr_group0", "learning_rate_group0"),
        (*_TRAIN, "optim", "optimizer"),
        others=("learning_rate_learning_rate",),
    ),
    "loss_scale": Names(("loss_scale", "lossscale"), _TRAIN, others=("loss_scale_loss_scale",)),
    # TRL's GRPO, PPO and DPO trainers and PPO of Stable-Baselines3; in TensorBoard and W&B with `train/`.
    # docs/logs.md has what is left out, and why.
    "reward": Names(("reward",), ("train",)),
    "kl": Names(("kl",), ("train",)),
    "answer_length": Names(("completions_mean_length", "completion_length"), ("train",)),
    "groups_without_variance": Names(("frac_reward_zero_std",), ("train",)),
    "sampler_log_ratio": Names(("sampling_sampling_logp_difference_mean",), ("train",)),
    "value_loss": Names(("loss_value_avg",), ("train",)),
    "explained_variance": Names(("explained_variance",), ("train",)),
    "preference_accuracy": Names(("rewards_accuracies",), ("train",)),
}  # fmt: skip

# Lightning's LearningRateMonitor: lr-AdamW, lr-AdamW/pg1, lr-AdamW-1; the first group is taken.
_MONITORED_LR = re.compile(r"lr_[a-z0-9]+(_pg1|_group0)?")

NATS = "nats/token"
UNITS = {"bits": ("bits", "bit", "bpb", "bpc", "bpt", "bpw"), "perplexity": ("ppl", "perplexity")}

_RANKS = {signal: {name: rank for rank, name in enumerate(names.spelt())} for signal, names in SYNONYMS.items()}
MOST_ENTRIES = 1024  # of a list signal: layers, buckets of positions
_ENTRY = re.compile(r"(?P<signal>[a-z_]+)/(?P<entry>\d{1,4})")


def plain(name: str) -> str:
    """The spelling under which names are compared.

    >>> plain("Train/Learning Rate"), plain("_step")
    ('train_learning_rate', '_step')
    """
    spelt = re.sub(r"[^a-z0-9_]+", "_", name.strip().lower())
    return re.sub(r"__+", "_", spelt).rstrip("_") if spelt.startswith("_") else re.sub(r"__+", "_", spelt).strip("_")


def parse_mapping(words: Sequence[str]) -> dict[str, Target]:
    """`COLUMN=SIGNAL` as the command line takes it; InputError for anything else."""
    found: dict[str, Target] = {}
    for word in words:
        column, separator, signal = word.rpartition("=")
        if not separator or not column:
            raise InputError(f"--map: {word!r} is not allowed; allowed: COLUMN=SIGNAL, as in my_loss=loss")
        target = _exact(signal)
        if target is None:
            entry = BY_NAME.get(signal.partition("/")[0])
            if entry is not None and entry.axis is not Axis.SCALAR:
                raise InputError(f"--map: {signal!r} is not allowed; allowed: one entry of the list, {entry.name}/0")
            raise unknown("--map", signal, [STEP, *BY_NAME])
        if column in found or target in found.values():
            raise InputError(f"--map: {word!r} names a column or signal a second time; allowed: each once")
        found[column] = target
    return found


def choose(
    names: Sequence[str], mapping: Mapping[str, Target], place: str, *, has_step: bool = True, hint: str = ""
) -> Choice:
    """What each column is. has_step: whether a column must be the step; hint: what else to do where none is.

    InputError where nothing is logged at all, and one that names the columns where none is a signal, none the step,
    two are the same name in two spellings, or losses are in different units by their names.
    """
    if not names:
        raise InputError(f"{place}: no value is logged; allowed: {'steps and ' if has_step else ''}a signal or more")
    odd = next(
        (name for name in names if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name)), None
    )
    if odd is not None:
        raise InputError(f"{place}: column {odd!r} is no Unicode text; allowed: names without lone surrogates")
    taken = {name: mapping[name] for name in names if name in mapping}
    rivals: dict[str, list[tuple[int, str]]] = {}
    ignored: dict[str, str] = {}
    for name in dict.fromkeys(names):
        if name in taken:
            continue
        target = _exact(name)
        if target is not None and target.entry is not None:
            taken[name] = target
            continue
        signal, rank = signal_of(name)
        if signal:
            rivals.setdefault(signal, []).append((rank, name))
        else:
            ignored[name] = "no known signal"
    mapped = {target.signal: name for name, target in taken.items()}
    for signal, candidates in rivals.items():
        best = mapped.get(signal) or min(candidates)[1]
        twin = next((name for _, name in candidates if name != best and plain(name) == plain(best)), None)
        if twin is not None and signal not in mapped and (signal != STEP or has_step):
            raise InputError(f"{place}: {best!r} and {twin!r} are both {signal}; name one with --map '{best}={signal}'")
        for _, name in candidates:
            if name == best:
                taken[name] = Target(signal)
            else:
                ignored[name] = f"{signal} is read from {best!r}"
    step = next((name for name, target in taken.items() if target.signal == STEP), None)
    signals = {name: target for name, target in taken.items() if target.signal != STEP}
    for signal, what in ((STEP, step), ("signal", signals)):
        if not what and (signal != STEP or has_step):
            raise InputError(
                f"{place}: no column is a known {signal}: {_listed(names)}; name it with --map COLUMN="
                + (f"{STEP}{hint}" if signal == STEP else "SIGNAL")
            )
    _check_units(signals, place)
    if step is not None and not has_step:
        ignored[step] = OWN_STEP
    return Choice(step if has_step else None, signals, dict(sorted(ignored.items())))


def _check_units(signals: Mapping[str, Target], place: str) -> None:
    """InputError where the names of two losses say different units."""
    units = {name: _unit(name) for name, target in signals.items() if BY_NAME[target.signal].unit == NATS}
    for name, unit in units.items():
        first = next(iter(units))
        if unit != units[first]:
            raise InputError(
                f"{place}: {first!r} is in {units[first]} and {name!r} in {unit} by their names; allowed: losses in "
                "one unit; leave one out of --map"
            )


def _unit(name: str) -> str:
    words = plain(name).split("_")
    return next((unit for unit, spelt in UNITS.items() if any(word in spelt for word in words)), "nats")


def _exact(name: str) -> Target | None:
    """A signal by the schema's own name, or an entry of a list as `signal/entry`."""
    entry = _ENTRY.fullmatch(name)
    listed = entry and entry["signal"] in BY_NAME and BY_NAME[entry["signal"]].axis is not Axis.SCALAR
    if entry and listed and int(entry["entry"]) < MOST_ENTRIES:
        return Target(entry["signal"], int(entry["entry"]))
    if name == STEP or (name in BY_NAME and BY_NAME[name].axis is Axis.SCALAR):
        return Target(name)
    return None


def target_of(name: str) -> Target | None:
    """The signal, or the entry of one, that a name may stand for; None for a name that no signal has."""
    return _exact(name) or (Target(found) if (found := signal_of(name)[0]) else None)


def signal_of(name: str) -> tuple[str, int]:
    """The signal that a name stands for, empty where none, and how far down its names it is."""
    spelt = plain(name)
    for signal, ranks in _RANKS.items():
        if spelt in ranks:
            return signal, ranks[spelt]
    if any(spelt == signal.name and signal.axis is Axis.SCALAR for signal in SIGNALS):
        return spelt, 0
    if _MONITORED_LR.fullmatch(spelt):
        return "lr", len(_RANKS["lr"])
    return "", 0


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = [repr(name) for name in names[:most]]
    return ", ".join(shown) + (f", ... ({len(names)} in all)" if len(names) > most else "")
