"""Which variants act in a forward pass: what a configuration and the tables ask for."""

from trainwreck.models.config import ModelConfig, Norm, Variance
from trainwreck.models.hooks import Edit, Hooks, NormEdit
from trainwreck.models.tables import Tables
from trainwreck.models.variants.batch_norm import RunningMoments
from trainwreck.models.variants.eps_outside import eps_outside
from trainwreck.models.variants.gains import gains
from trainwreck.models.variants.logit_gain import logit_gain
from trainwreck.models.variants.missing_norm import missing_norm
from trainwreck.models.variants.one_pass import one_pass
from trainwreck.models.variants.stream_noise import StreamNoise

VARIANCES = {Variance.ONE_PASS: one_pass, Variance.EPS_OUTSIDE: eps_outside}


def hooks(
    config: ModelConfig, tables: Tables, seeds: list[int], step: int, running: RunningMoments | None = None
) -> Hooks:
    """The hooks of a step; none where all runs are healthy.

    seeds, step: of the runs, which noise is drawn from. running: moments of a BatchNorm, needed with `Norm.BATCH`.
    """
    norms: list[NormEdit] = []
    branches: list[Edit] = []
    wrong = _other_norm(config, running)
    if wrong is not None:
        norms.append(lambda right: wrong)
    if tables.bare_NL2 is not None:
        norms.append(missing_norm(tables.bare_NL2))
    if tables.branch_gain_NL2 is not None:
        branches.append(gains(tables.branch_gain_NL2))
    if tables.logit_gain_N is not None:
        branches.append(logit_gain(tables.logit_gain_N))
    return Hooks(
        norms=tuple(norms),
        branches=tuple(branches),
        shortcuts=() if tables.shortcut_gain_NL2 is None else (gains(tables.shortcut_gain_NL2),),
        streams=() if tables.noise_N is None else (StreamNoise(seeds, step, tables.noise_N),),
    )


def _other_norm(config: ModelConfig, running: RunningMoments | None) -> Edit | None:
    """What is in the place of LayerNorm or RMSNorm."""
    eps = config.norm_eps
    if config.norm is Norm.BATCH:
        assert running is not None, "a BatchNorm needs its running moments"
        return lambda x_NMD, site: running.standardise(x_NMD, site, eps)
    if config.norm is Norm.LAYER and config.variance in VARIANCES:
        variance = VARIANCES[config.variance]
        return lambda x_NMD, site: variance(x_NMD, eps)
    return None
