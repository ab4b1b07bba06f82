"""Equivalence sets: causes that no signal of a profile tells apart, and causes that it does not show at all.

For each profile, every pair of causes gets a cross-validated classifier (`separation`) on what the profile
hands out, cleaned of the base (`deviation`). A pair counts as told apart where the classifier does better
than chance, with the share of false claims among all pairs held at `RATE`; the other pairs are joined by
complete linkage, so that no set holds two causes that were told apart. The burden is on telling apart: a
cause that eight seeds can't tell from another is no fair answer to ask of one run. It follows that a set may
shrink, and does not grow but by chance, when more seeds are measured.

In the same way the failing runs of a cause are told from healthy runs of its base, at the same steps. There
the window before the onset counts as well, which a run that fails from step 0 on does not have; among causes
it would tell early onsets from late ones, and is left out.

What luck would give is measured on noise (`separation.chance`); as the control, healthy runs of any two bases are
told apart as causes are. One doubt stays. The healthy runs that a failing run is held against are finite, and so
off by a little, in another direction on each base. A failing run is off with them as long as it has its seed's
noise in common with its twin, which is one of them. Where the failure has washed that out, two bases could be told
apart in place of two causes. The worst case is measured on strangers: healthy runs held against healthy runs of
none of their seeds. Pairs on two bases that were told apart, but no better than strangers are, are called doubtful.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.audits.confusable.deviation import Deviation, Shown, deviation, past, shown, statistics
from trainwreck.evaluation.audits.confusable.separation import (
    Told,
    chance,
    discoveries,
    held_out,
    joined,
    p_values,
    told,
)
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import RunKind
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.profiles import PROFILES
from trainwreck.evaluation.replay.unlabelled import refuse_imported

FOLDS = 8  # blocks of seeds, and the fewest seeds of a cause
FEWEST_HEALTHY = 8  # of a base
RATE = 0.05


class Role(Enum):
    """What a sample is."""

    FAILING = "failing"
    HEALTHY = "healthy"
    STRANGER = "stranger"


@dataclass(frozen=True)
class Sample:
    """A run from an onset on, as deviations by profile.

    before: of the window before the onset; empty for an onset at step 0. A healthy run is seen from the onset of
    the failing run of its block. A stranger is a healthy run as well, held against healthy runs of none of the
    blocks' seeds: as a failing run stands to them that has nothing left in common with its twin.
    """

    cause: str
    base: str
    role: Role
    block: int
    features: dict[str, Deviation]
    before: dict[str, Deviation]

    def deviations(self, profile: str, past: bool) -> Deviation:
        """Since the onset; with `past` those before it after them."""
        now = self.features[profile]
        if not past:
            return now
        then = self.before[profile]
        return Deviation(
            np.concatenate([now.values, then.values], axis=1),
            np.concatenate([now.seen, then.seen]),
            np.concatenate([now.telling, then.telling]),
        )


@dataclass(frozen=True)
class Corpus:
    """Samples of several data sets, and what could not be used: cause to the reason."""

    samples: tuple[Sample, ...]
    causes: tuple[str, ...]
    left_out: dict[str, str]
    runs: int

    def of(self, role: Role, cause: str | None = None) -> list[Sample]:
        """Samples of a role, of one cause or all."""
        return [one for one in self.samples if one.role is role and cause in (None, one.cause)]


def equivalence(
    datasets: Sequence[DataSet], profiles: Iterable[str] = tuple(PROFILES), tick: Tick | None = None
) -> dict[str, Any]:
    """Sets and undetectable causes by profile, of several data sets taken as one. JSON-safe; see `of_profile`.

    Raises InputError for an unknown profile, imported runs, or where no cause has failing runs of 8 seeds beside 8
    healthy runs.
    """
    for dataset in datasets:
        refuse_imported(dataset, "told apart by cause")
    chosen = list(profiles)
    for profile in chosen:
        if profile not in PROFILES:
            raise unknown("profile", profile, PROFILES)
    found = corpus(datasets, chosen, tick)
    return {
        "causes": list(found.causes),
        "left_out": found.left_out,
        "runs": found.runs,
        "folds": FOLDS,
        "rate": RATE,
        "profiles": {profile: of_profile(found, profile, tick) for profile in chosen},
    }


def corpus(datasets: Sequence[DataSet], profiles: Sequence[str], tick: Tick | None = None) -> Corpus:
    """Read the runs, base by base, and take their deviations."""
    where: dict[str, DataSet] = {}
    for dataset in datasets:
        for run_id in dataset.runs.index:
            where.setdefault(run_id, dataset)  # a run that two data sets share is one run
    runs = pd.concat([dataset.runs for dataset in datasets])
    runs = runs[~runs.index.duplicated()]
    runs = runs[runs["kind"].isin([RunKind.FAILING.value, RunKind.HEALTHY.value])]
    failing = runs["kind"] == RunKind.FAILING.value
    reference = runs[~failing].groupby("base")["seed"].nunique()
    usable = runs["base"].isin(reference[reference >= FEWEST_HEALTHY].index)
    block = _blocks(runs)
    causes, left_out = [], {}
    for cause, its in runs[failing].groupby("cause"):
        covered = block[its.index[usable[its.index]]].nunique()
        if covered == FOLDS:
            causes.append(str(cause))
        elif not usable[its.index].any():
            left_out[str(cause)] = f"its bases have fewer than {FEWEST_HEALTHY} healthy runs"
        else:
            left_out[str(cause)] = f"failing runs of {its['seed'].nunique()} seeds; {FOLDS} are needed"
    if not causes:
        raise InputError(
            f"data sets: no cause has failing runs of {FOLDS} seeds on bases with {FEWEST_HEALTHY} healthy runs"
        )
    wanted = runs[usable & (~failing | runs["cause"].isin(causes))]
    wanted = wanted[wanted["base"].isin(set(wanted.loc[wanted["kind"] == RunKind.FAILING.value, "base"]))]
    samples: list[Sample] = []
    done = 0
    for _, group in wanted.groupby("base"):
        seen = {}
        for run_id in group.index:
            seen[run_id] = shown(where[run_id].trace(run_id), profiles)
            done += 1
            if tick is not None:
                tick(done, len(wanted), run_id)
        samples += _samples(group, block, seen, profiles)
    return Corpus(tuple(samples), tuple(causes), left_out, len(wanted))


def of_profile(found: Corpus, profile: str, tick: Tick | None = None) -> dict[str, Any]:
    """What one profile tells apart.

    Keys: sets (lists of two and more causes), undetectable (causes), pairs and separated (counts), not_separated
    (each such pair, how well it was told apart), doubtful (told apart, on two bases, no better than strangers are),
    detection (by cause, against healthy runs), control.
    """
    failing = {name: found.of(Role.FAILING, cause=name) for name in found.causes}
    strangers = _strangers(found, profile)
    pairs = list(combinations(range(len(found.causes)), 2))
    verdicts = []
    for i, j in pairs:
        verdicts.append(_told(failing[found.causes[i]], failing[found.causes[j]], profile))
        if tick is not None:
            tick(len(verdicts), len(pairs), profile)
    p = np.array([p for _, p in verdicts])
    apart = discoveries(p, RATE)
    sets = joined(found.causes, pairs, apart, np.array([one.won for one, _ in verdicts]))
    together = {name: n for n, one in enumerate(sets) for name in one}
    bases = {name: {sample.base for sample in its} for name, its in failing.items()}
    limit = float(np.quantile(strangers, 1 - RATE)) if len(strangers) else -np.inf

    seen = {name: _detection(found, name, profile) for name in found.causes}
    detected = discoveries(np.array([p for _, p in seen.values()]), RATE)
    return {
        "sets": sets,
        "undetectable": [name for name, shows in zip(found.causes, detected, strict=True) if not shows],
        "pairs": len(pairs),
        "separated": int(apart.sum()),
        "not_separated": [
            {"a": a, "b": b, **_facts(*one), "one_set": a in together and together[a] == together.get(b)}
            for (a, b), one, far in zip(combinations(found.causes, 2), verdicts, apart, strict=True)
            if not far
        ],
        "doubtful": [
            {"a": a, "b": b, **_facts(*one)}
            for (a, b), one, far in zip(combinations(found.causes, 2), verdicts, apart, strict=True)
            if far and one[0].t < limit and bases[a].isdisjoint(bases[b])
        ],
        "detection": {name: _facts(*one) for name, one in seen.items()},
        "control": _control(found, profile, strangers),
    }


def _samples(
    group: pd.DataFrame, block: pd.Series, seen: dict[str, dict[str, Shown]], profiles: Sequence[str]
) -> Iterator[Sample]:
    """The failing runs of a base, and its healthy runs from the onsets of each cause."""
    healthy = group[group["kind"] == RunKind.HEALTHY.value]
    failing = group[group["kind"] == RunKind.FAILING.value]
    seeds, blocks = healthy["seed"].to_numpy(), block[healthy.index].to_numpy()
    folds = np.arange(FOLDS)[:, None]
    apart = ~np.isin(seeds, failing["seed"])

    def sample(run: pd.Series, cause: str, onset: int, role: Role) -> Sample:
        # Nothing of a held-out block is used, not as a measure of health either; nor is the run's own seed.
        kept = (seeds != run["seed"]) & ~held_out(blocks, folds, FOLDS)
        if role is Role.STRANGER:
            kept = np.broadcast_to(apart, kept.shape)
        planned = int(run["planned_steps"])
        features, before = {}, {}
        for profile in profiles:
            draw = np.random.default_rng(zlib.crc32(f"{run['run_id']} {onset} {profile}".encode()))
            mine, others = seen[run["run_id"]][profile], [seen[run_id][profile] for run_id in healthy.index]
            reference = np.stack([statistics(one, onset, planned) for one in others])
            features[profile] = deviation(statistics(mine, onset, planned), reference, kept, draw)
            if onset > 0:
                reference = np.stack([past(one, onset) for one in others])
                before[profile] = deviation(past(mine, onset), reference, kept, draw)
        return Sample(cause, str(run["base"]), role, int(block[run["run_id"]]), features, before)

    for n, (cause, its) in enumerate(failing.groupby("cause")):
        onsets = {block[str(run_id)]: int(onset) for run_id, onset in its["onset_step"].items()}
        for _, run in its.iterrows():
            yield sample(run, str(cause), int(run["onset_step"]), Role.FAILING)
        for (_, run), other in zip(healthy.iterrows(), apart, strict=True):
            onset = onsets.get(block[run["run_id"]])
            if onset is None:
                continue
            yield sample(run, str(cause), onset, Role.HEALTHY)
            if n == 0 and not other and apart.sum() >= FEWEST_HEALTHY:  # the onsets of one cause of the base will do
                yield sample(run, str(cause), onset, Role.STRANGER)


def _blocks(runs: pd.DataFrame) -> pd.Series:
    """Fold of every run, by its seed: seeds with failing runs are dealt out first, then the healthy ones alone."""
    with_failing = set(runs.loc[runs["kind"] == RunKind.FAILING.value, "seed"])
    dealt: dict[int, int] = {}
    for seeds in (with_failing, set(runs["seed"]) - with_failing):
        dealt |= {seed: i % FOLDS for i, seed in enumerate(sorted(seeds))}
    return runs["seed"].map(dealt)


def _told(first: Sequence[Sample], second: Sequence[Sample], profile: str, past: bool = False) -> tuple[Told, float]:
    """Two groups of samples apart, and the p-value; past: by the window before the onset as well."""
    groups = [[one.deviations(profile, past) for one in group] for group in (first, second)]
    # What half of either group can't show (its base has no such signal, its window no row) is not compared.
    usable = np.logical_and(*(np.mean([one.seen for one in group], axis=0) >= 0.5 for group in groups))
    usable &= np.any([one.telling for group in groups for one in group], axis=0)
    features = np.stack([one.values[:, usable] for group in groups for one in group])
    side = np.repeat([1.0, -1.0], [len(first), len(second)])
    one = told(features, side, np.array([sample.block for sample in (*first, *second)]))
    # Chance hardly depends on the number of features: that of the nearest power of four will do, and is kept.
    null = chance(4 ** round(np.log2(max(1, features.shape[2])) / 2), FOLDS)
    return one, float(p_values(np.array([one.t]), null)[0])


def _detection(found: Corpus, cause: str, profile: str) -> tuple[Told, float]:
    """Failing runs of a cause against healthy runs of its bases, from the same onsets."""
    failing, healthy = found.of(Role.FAILING, cause=cause), found.of(Role.HEALTHY, cause=cause)
    return _told(failing, healthy, profile, past=all(one.before for one in failing + healthy))


def _strangers(found: Corpus, profile: str) -> np.ndarray:
    """t of the strangers of any two bases, sorted: what is told apart there is two bases, and nothing else."""
    groups = _by_base(found, Role.STRANGER)
    return np.sort([_told(first, second, profile)[0].t for first, second in combinations(groups, 2)])


def _control(found: Corpus, profile: str, strangers: np.ndarray) -> dict[str, Any]:
    """Healthy runs of any two bases: the share told apart at one test in twenty, which should be one in twenty."""
    p = [_told(first, second, profile)[1] for first, second in combinations(_by_base(found, Role.HEALTHY), 2)]
    return {
        "pairs": len(p),
        "share": float(np.mean(np.array(p) <= RATE)) if p else None,
        "strangers": len(strangers),
        "strangers_t": float(np.quantile(strangers, 1 - RATE)) if len(strangers) else None,
    }


def _by_base(found: Corpus, role: Role) -> list[list[Sample]]:
    """One sample a block of every base that has them, from the onsets of one of its causes."""
    groups = []
    for base in sorted({sample.base for sample in found.samples}):
        its = [sample for sample in found.of(role) if sample.base == base]
        by_block = {sample.block: sample for sample in reversed(its) if sample.cause == its[0].cause}
        if len(by_block) == FOLDS:
            groups.append(list(by_block.values()))
    return groups


def _facts(one: Told, p: float) -> dict[str, float]:
    return {"won": one.won, "low": one.low, "high": one.high, "t": one.t, "p": p}
