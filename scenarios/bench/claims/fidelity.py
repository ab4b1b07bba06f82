"""Mechanisms of failure on small models beside what the literature measured on large ones."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.progress import Tick
from trainwreck.models.config import Init, Placement
from trainwreck.models.parameters import layout
from trainwreck.scenarios.bench.table import Table
from trainwreck.scenarios.config.settings import Decay, Setup, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec.faults import State
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.loop import train

SEEDS = range(3)
RATES = tuple(float(rate) for rate in np.logspace(np.log10(3e-4), np.log10(3e-1), 7))
LAGGING, SPIKING = 2.3, 3.2  # RMS of g / sqrt(v); standard deviations of the loss (Wortsman et al. 2023)
SPIKE, WINDOW, SETTLED = 7.0, 128, 32  # standard deviations, steps of the rolling mean, steps before the first


@dataclass(frozen=True)
class Finding:
    """One row of the table. ours: numbers; agrees: whether they point the way that the literature does."""

    what: str
    literature: str
    ours: str
    agrees: bool


@dataclass(frozen=True)
class Ended:
    """A finished run and the weights that it ended with."""

    setup: Setup
    trace: Trace
    state: State

    @property
    def loss(self) -> float:
        """min(final, initial) training loss, so that a diverged run counts as one that learnt nothing."""
        losses = self.trace["loss"]
        first, last = float(losses[0]), float(losses[-20:].mean())
        return min(first, last) if np.isfinite(losses).all() else first

    @property
    def logit(self) -> float:
        """Largest attention logit of the run."""
        values = self.trace["attention_logit_max"]
        return float(values[np.isfinite(values)].max())

    @property
    def entropy(self) -> float:
        """Attention entropy at the end, mean over layers, nats."""
        return float(self.trace["attention_entropy"][-20:].mean())

    def spectral_norm(self) -> float:
        """Largest spectral norm of a head's query-key product, scaled as its logits are."""
        if not self.state:  # it ended early, not finite
            return float("inf")
        model = self.setup.model
        qkv = layout(model).views(self.state["parameters"].unsqueeze(0))
        largest = 0.0
        for layer in range(model.layers):
            query, key, _ = qkv[f"layer_{layer}.qkv.weight"][0].split(model.width, dim=1)
            for head in range(model.heads):
                part = slice(head * model.head_width, (head + 1) * model.head_width)
                product = query[:, part] @ key[:, part].T * model.attention_scale
                largest = max(largest, float(torch.linalg.matrix_norm(product.double(), 2)))
        return largest


def proxy() -> Setup:
    """A small proxy: two layers, width 48, short rows; nothing but the learning rate holds it back."""
    return replaced(
        healthy(Size.MICRO),
        model__width=48,
        model__context=32,
        data__rows=8,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
        schedule__decay=Decay.CONSTANT,
        steps=200,
        evaluation__every=200,
    )


def ended(setups: list[Setup], seeds: range = SEEDS) -> list[list[Ended]]:
    """Runs of each setup, one a seed."""
    jobs = [Job(f"{i}/{seed}", seed, setup) for i, setup in enumerate(setups) for seed in seeds]
    results = train(jobs, keep={job.run_id: [job.setup.steps] for job in jobs})
    done = [Ended(j.setup, r.trace, r.states.get(j.setup.steps, {})) for j, r in zip(jobs, results, strict=True)]
    return [done[i : i + len(seeds)] for i in range(0, len(done), len(seeds))]


def sensitivity(runs: list[list[Ended]]) -> float:
    """Mean over a sweep of the excess of each run's loss over the best learning rate's, nats (Wortsman et al. 2023)."""
    losses = np.array([[run.loss for run in row] for row in runs]).mean(1)
    return float((losses - losses.min()).mean())


def spike_score(y: np.ndarray) -> float:
    """Share of values at least seven standard deviations over the rolling mean before them (OLMo 2)."""
    spikes = [
        y[i] - y[max(0, i - WINDOW) : i].mean() >= SPIKE * y[max(0, i - WINDOW) : i].std()
        for i in range(SETTLED, len(y))
    ]
    return float(np.mean(spikes))


def growth(levels: np.ndarray) -> float:
    """Growth exponent over layers, (1 / L) ln(last / first) (OLMo 2). levels: [L]."""
    return float(np.log(levels[-1] / levels[0]) / len(levels))


def over_learning_rates(tick: Callable[[str], None]) -> Iterator[Finding]:
    """The sweep of Wortsman et al.: with and without qk-norm, short and long warm-up, two depths."""
    base = proxy()
    variants = {
        "plain": base,
        "qk-norm": replaced(base, model__qk_norm=True),
        "warm-up 100": replaced(base, schedule__warmup_steps=100),
        "6 layers": replaced(base, model__layers=6),
    }
    sweeps = {}
    for name, setup in variants.items():
        tick(f"learning rates, {name}")
        sweeps[name] = ended([replaced(setup, optimizer__lr=rate) for rate in RATES])
    excess = {name: sensitivity(runs) for name, runs in sweeps.items()}
    yield Finding(
        "learning-rate sensitivity falls with qk-norm",
        "qk-norm lowers it; a 1.2B model then trains at 0.3 (Wortsman et al. 2023)",
        f"{excess['plain']:.2f} nats without, {excess['qk-norm']:.2f} with, over 3e-4 to 3e-1",
        excess["qk-norm"] < excess["plain"],
    )
    yield Finding(
        "longer warm-up lowers it",
        "lowers it (Wortsman et al. 2023)",
        f"{excess['plain']:.2f} nats with 30 steps, {excess['warm-up 100']:.2f} with 100",
        excess["warm-up 100"] < excess["plain"],
    )
    yield Finding(
        "depth raises it",
        "raises it faster than width (Wortsman et al. 2023)",
        f"{excess['plain']:.2f} nats at 2 layers, {excess['6 layers']:.2f} at 6",
        excess["6 layers"] > excess["plain"],
    )
    yield from about_logits(sweeps["plain"], sweeps["qk-norm"])


def about_logits(plain: list[list[Ended]], normed: list[list[Ended]]) -> Iterator[Finding]:
    """What attention logits and their entropy do over the sweep."""
    runs, guarded = [r for row in plain for r in row], [r for row in normed for r in row]
    best = min(np.mean([r.loss for r in row]) for row in plain)
    over = [r.loss - best for r in runs if r.logit > 1e4]
    under = [r.loss - best for r in runs if r.logit <= 1e4]
    yield Finding(
        "attention logits over 1e4 go with divergence",
        "points with a largest logit over 1e4 diverged (Wortsman et al. 2023)",
        f"{len(over)} of {len(runs)} runs over 1e4: {np.mean(over):.2f} nats over the best, the others "
        f"{np.mean(under):.2f}; largest with qk-norm {max(r.logit for r in guarded):.0f}"
        if over
        else f"no run of {len(runs)} over 1e4; largest {max(r.logit for r in runs):.0f}",
        bool(over) and min(over) > np.median(under) and max(r.logit for r in guarded) < 1e4,
    )
    sigma = np.array([r.spectral_norm() for r in runs])
    entropy = np.array([r.entropy for r in runs])
    rank = float(np.corrcoef(np.argsort(np.argsort(sigma)), np.argsort(np.argsort(entropy)))[0, 1])
    low, high = entropy[sigma <= np.quantile(sigma, 0.25)].mean(), entropy[sigma >= np.quantile(sigma, 0.75)].mean()
    yield Finding(
        "attention entropy collapses as the logits' spectral norm grows",
        "a bound on entropy falls exponentially with it (Zhai et al. 2023)",
        f"rank correlation {rank:.2f}; {low:.2f} nats in the lowest quarter, {high:.2f} in the highest; "
        f"with qk-norm never under {min(r.entropy for r in guarded):.2f}",
        rank < -0.5,
    )


def at_depth(tick: Callable[[str], None]) -> Iterator[Finding]:
    """Post-LN: gradients near the output at initialisation, and what warm-up is worth."""
    tick("Post-LN")
    base = replaced(healthy(Size.DEEP), model__layers=8, steps=250, evaluation__every=250, optimizer__lr=5e-3)
    post = replaced(base, model__placement=Placement.POST)
    runs = ended([base, post, replaced(post, schedule__warmup_steps=0), replaced(base, schedule__warmup_steps=0)])
    last = [float(np.mean([r.trace["layer_grad_norm"][0][-2] for r in row])) for row in runs[:2]]
    loss = [float(np.mean([r.loss for r in row])) for row in runs]
    yield Finding(
        "Post-LN begins with larger gradients near the output",
        "expected gradients near the output are large at initialisation under Post-LN (Xiong et al. 2020)",
        f"last layer at step 0: {last[1]:.2f} under Post-LN, {last[0]:.2f} under pre-LN, 8 layers",
        last[1] > last[0],
    )
    yield Finding(
        "Post-LN needs the warm-up, pre-LN does not",
        "BLEU 8.45 without, about 34 with (Xiong et al. 2020)",
        f"final loss {loss[1]:.2f} nats with 60 steps, {loss[2]:.2f} without; pre-LN {loss[0]:.2f} and {loss[3]:.2f}",
        loss[2] - loss[1] > 0.2 > loss[3] - loss[0],
    )


def at_the_output(tick: Callable[[str], None]) -> Iterator[Finding]:
    """Drift of the output logits, with and without z-loss."""
    tick("z-loss")
    base = replaced(proxy(), optimizer__lr=3e-2, model__qk_norm=True, steps=400, evaluation__every=400)
    plain, guarded = ended([base, replaced(base, z_loss=1e-2)])
    drift = [float(np.mean([abs(r.trace["log_z"][-20:]).mean() for r in row])) for row in (plain, guarded)]
    yield Finding(
        "z-loss keeps log Z near zero",
        "logits drift without it, and 1e-4 log(Z)^2 holds them (Wortsman et al. 2023)",
        f"mean |log Z| at the end {drift[0]:.2f} without, {drift[1]:.2f} with 1e-2",
        drift[1] < drift[0] / 2,
    )


def at_initialisation(tick: Callable[[str], None]) -> Iterator[Finding]:
    """Initialisation, the growth exponent and the spike score."""
    tick("initialisation")
    base = replaced(proxy(), model__layers=6, optimizer__lr=1e-2, steps=300, evaluation__every=300)
    small, large = (Init(embedding_std=std, matrix_std=std, head_std=std, scale_residual=False) for std in (0.02, 0.5))
    runs = ended([replaced(base, model__init=small), replaced(base, model__init=large)])
    score = [float(np.mean([spike_score(r.trace["grad_norm"]) for r in row])) for row in runs]
    exponent = [float(np.mean([growth(r.trace["activation_std"][0]) for r in row])) for row in runs]
    yield Finding(
        "a small normal initialisation has fewer spikes",
        "spike score of the gradient norm 0.40 to 0.03 with N(0, 0.02); growth exponents near 0 (OLMo 2)",
        f"spike score {score[1]:.3f} with N(0, 0.5), {score[0]:.3f} with N(0, 0.02); growth exponent of "
        f"activations {exponent[1]:.2f} and {exponent[0]:.2f}",
        score[0] < score[1] and abs(exponent[0]) < abs(exponent[1]),
    )


def at_the_second_moment(tick: Callable[[str], None]) -> Iterator[Finding]:
    """Gradients that come back: RMS_t, the spike after it, and what holds it down."""
    tick("second moment")
    specs = family_of("second_moment_underestimates", SEEDS, roles=(Role.FAULTY,))
    variants = {"plain": {}, "update clipping": {"optimizer__update_clip": 1.0}, "beta2 0.9": {"optimizer__beta2": 0.9}}
    leads, heights = [], {}
    for name, changed in variants.items():
        jobs = [dataclasses.replace(s.job(), setup=replaced(s.setup, **changed)) for s in specs]
        traces = [result.trace for result in train(jobs)]
        heights[name] = float(
            np.mean([rise(t["loss"], s.onset or 0).max() for t, s in zip(traces, specs, strict=True)])
        )
        if name == "plain":
            for trace, spec in zip(traces, specs, strict=True):
                onset = spec.onset or 0
                over = onset + int(np.argmax(trace["layer_moment_rms"][onset:].max(1) > LAGGING))
                spread = SPIKING * trace["loss"][onset - 20 : onset].std()
                leads.append(onset + int(np.argmax(rise(trace["loss"], onset) > spread)) - over)
    yield Finding(
        "a second moment that lags leads the loss spike",
        "RMS of g / sqrt(v) over 2.3, the spike 1 to 8 steps later; update clipping or a lower beta2 prevents it "
        "(Wortsman et al. 2023, StableAdamW)",
        f"{min(leads)} to {max(leads)} steps after RMS passes 2.3; it rises {heights['plain']:.2f} nats, "
        f"{heights['update clipping']:.2f} with update clipping, {heights['beta2 0.9']:.2f} with beta2 0.9",
        1 <= min(leads) <= max(leads) <= 8
        and max(heights["update clipping"], heights["beta2 0.9"]) < heights["plain"] / 2,
    )


def rise(loss: np.ndarray, onset: int) -> np.ndarray:
    """Loss of the 32 steps from the onset on over the median of the 20 before it."""
    return np.asarray(loss[onset : onset + 32] - np.median(loss[onset - 20 : onset]))


PARTS = (over_learning_rates, at_depth, at_the_output, at_initialisation, at_the_second_moment)


def beside_the_literature(tick: Tick) -> Table:
    """Each mechanism with its number in the literature and here."""
    prepare()
    done: list[str] = []

    def report(what: str) -> None:
        done.append(what)
        tick(len(done), 8, what)

    findings = [finding for part in PARTS for finding in part(report)]
    return Table(
        name="fidelity",
        title="Mechanisms beside the literature",
        how=(
            f"{len(SEEDS)} seeds each. Sweeps: {len(RATES)} learning rates on a proxy of 2 layers, width 48, 200 "
            "steps, constant rate after 30 steps of warm-up, no weight decay, no clipping. Loss is min(final, initial) "
            "training loss in nats/token; sensitivity is its mean excess over the best rate's."
        ),
        command="trainwreck bench fidelity --record",
        columns=("mechanism", "literature", "here", "agrees"),
        rows=tuple((f.what, f.literature, f.ours, "yes" if f.agrees else "no") for f in findings),
    )
