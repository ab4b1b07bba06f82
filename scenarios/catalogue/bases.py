"""Cheap healthy setups that many scenarios share, for failures that need none of the language's structures.

Scenarios with one base share their healthy runs, in a data set and in a proof. The first paragraph of a docstring is
what the pages of its scenarios call the base.
"""

from typing import Any

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.models.config import Format, Init, OptimizerKind, Placement, Positions, Recompute
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Decay, Dialect, Setup, SourceKind, get, replaced
from trainwreck.scenarios.data.batches import source, source_key
from trainwreck.scenarios.data.chat import Chat
from trainwreck.scenarios.data.language import Language

WIDEST = 64  # of the sizes whose shape a base may make its own


def at_small_sizes(setup: Setup, **values: Any) -> Setup:
    """`replaced`, of the sizes whose shape a base may make its own; others stay as they are."""
    return setup if setup.model.width > WIDEST else replaced(setup, **values)


def chain(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect: a third of the micro size's work, and a tight spread of outcomes.

    Larger sizes keep their shape, batch and steps.
    """
    if setup.model.width > WIDEST:
        return replaced(setup, data__dialect=Dialect.CHAIN)
    return replaced(
        setup,
        data__dialect=Dialect.CHAIN,
        data__rows=8,
        model__width=48,
        model__context=32,
        steps=300,
    )


def chain_padded(setup: Setup, every: int) -> Setup:
    """Two narrow layers on the chain dialect; one batch in so many has a row that ends in padding.

    Padding's embedding is zero, and stays it.
    """
    return replaced(chain(setup), data__padding_every=every, model__init__zero_padding=True)


def chain_unclipped(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect, without clipping: what a bad batch does is not held back."""
    return replaced(chain(setup), optimizer__clip=None)


def chain_epochs(setup: Setup) -> Setup:
    """Two narrow layers on 400 rows of the chain dialect, shuffled each epoch of fifty steps.

    Sixteen rows are held out, and as many fresh ones.
    """
    return replaced(chain(setup), data__pool=400, evaluation__rows=16, evaluation__fresh=True)


def chain_rare_words(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect, whose rows begin with twelve pairs of a rare word and a token.

    The words are of a table of 1,024, and not scored; held-out rows have none. There is no weight decay.
    """
    return replaced(chain(setup), data__rare_words=12, model__vocab_size=1024, optimizer__weight_decay=0.0)


def chain_grown(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect, whose token table is doubled in mid-run.

    From then on a tenth of the tokens is written with a new id. Rows of new ids start at the mean of the old rows.
    """
    setup = replaced(chain(setup), growth__rows=2 * setup.model.vocab_size)
    return at_small_sizes(setup, model__width=32, model__heads=2)


def chain_adapters(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect, frozen in mid-run: from then on adapters learn a second such language.

    Adapters of rank 8 are on every matrix of the layers, and the last norm is trained beside them.
    """
    setup = replaced(chain(setup), adapters__rank=8)
    return at_small_sizes(setup, model__width=32, model__heads=2)


def require(setup: Setup, path: str) -> None:
    """InputError where a setting is 0 without which a fault has nothing to be in."""
    if not get(setup, path):
        raise InputError(f"{path}: 0 is not allowed for this fault; allowed: 1 or more")


def chain_bytes(setup: Setup) -> np.ndarray:
    """Ids of the tokenizer that text in the chain dialect never uses: they stand for bytes, int64.

    Raises InputError where the data is not of the language.
    """
    language = language_of(setup)
    return np.arange(language.spec.content, language.vocabulary)


def language_of(setup: Setup) -> Language:
    """The language that rows are drawn from; InputError where they come from elsewhere."""
    found = source(source_key(setup.data))
    if not isinstance(found, Language):
        raise InputError(
            f"data.source: {setup.data.source.value!r} is not allowed for a fault in the language's own tokens; "
            f"allowed: {SourceKind.LANGUAGE.value}"
        )
    return found


def chat_of(setup: Setup) -> Chat:
    """The exchanges that rows are; InputError where they come from elsewhere."""
    found = source(source_key(setup.data))
    if not isinstance(found, Chat):
        raise InputError(
            f"data.dialect: {setup.data.dialect.value!r} is not allowed for a fault in the end of answers; "
            f"allowed: {Dialect.CHAT.value}, of data.source {SourceKind.LANGUAGE.value}"
        )
    return found


def echo(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect: half a nat hangs on what the second layer attends to."""
    return replaced(chain(setup), data__dialect=Dialect.ECHO)


def echo_muon(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect, trained by Muon without weight decay."""
    return replaced(
        echo(setup),
        optimizer__kind=OptimizerKind.MUON,
        optimizer__lr=0.02,
        optimizer__beta1=0.95,
        optimizer__weight_decay=0.0,
    )


def echo_lion(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect, trained by Lion without weight decay."""
    return replaced(echo(setup), optimizer__kind=OptimizerKind.LION, optimizer__lr=0.004, optimizer__weight_decay=0.0)


def echo_tied(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect whose head is the token table."""
    return replaced(echo(setup), model__tied=True)


def echo_fp8(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect, their products in float8 with delayed scaling; matrices start small.

    Their weights grow more than tenfold in the first third of the run.
    """
    return replaced(echo(setup), precision__format=Format.FP8, model__init__matrix_std=0.006)


def echo_learned_positions(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect with learned positions, in rows of two or three documents.

    A position is a vector of its own, looked up by the place in the document. Larger sizes keep their shape and batch.
    """
    setup = replaced(echo(setup), model__positions=Positions.DOCUMENT)
    return at_small_sizes(setup, model__context=64, data__rows=4)


def echo_long_rows(setup: Setup) -> Setup:
    """Two layers of two narrow heads on the echo dialect, in rows of 384 tokens, one a batch.

    Larger sizes keep their shape and batch, and have rows as long.
    """
    setup = replaced(echo(setup), model__context=384, steps=240)
    return at_small_sizes(setup, model__width=32, model__heads=2, data__rows=1, evaluation__rows=4)


def chain_four_layers(setup: Setup) -> Setup:
    """Four narrow layers on the chain dialect that start as He et al. 2015 would have them.

    Residual branches are not shrunk.
    """
    return replaced(
        chain(setup),
        model__layers=4,
        model__init=Init(embedding_std=1.0, matrix_std=0.2, head_std=0.1, scale_residual=False),
    )


def recall(setup: Setup) -> Setup:
    """Two narrow layers on the recall dialect: what a name goes with is settled in each short document."""
    return replaced(chain(setup), data__dialect=Dialect.RECALL)


def far_echo(setup: Setup) -> Setup:
    """Two narrow layers on the far echo dialect.

    Rows are of one document each, in whose second half much is sixteen tokens back.
    """
    return replaced(chain(setup), data__dialect=Dialect.FAR_ECHO, steps=400)


def full_narrow(setup: Setup) -> Setup:
    """Two narrow layers on the full language, for failures that take its structures away; outcomes spread more."""
    return replaced(chain(setup), data__dialect=Dialect.FULL, steps=400)


def chain_lr_x4_no_decay_no_clip(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect at four times the learning rate, which ends at zero.

    There is no weight decay and no clipping.
    """
    return replaced(
        chain(setup),
        optimizer__lr=0.04,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
        schedule__final_fraction=0.0,
    )


def chain_third_lr(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect at a third of the learning rate.

    At it the initialisation is felt to the end.
    """
    return replaced(chain(setup), optimizer__lr=3e-3)


def echo_post_norm(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect with the norms after the sums.

    What a norm puts out is the residual stream itself.
    """
    return replaced(echo(setup), model__placement=Placement.POST)


def chain_fp16(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect in float16, with a dynamic loss scale.

    The scale has no floor to speak of, as PyTorch's has none.
    """
    return replaced(
        chain(setup),
        precision__format=Format.FP16,
        precision__loss_scale=2.0**12,
        precision__dynamic=True,
        precision__growth_interval=25,
        precision__smallest_scale=2.0**-24,
    )


def echo_fp16_large_stream(setup: Setup) -> Setup:
    """Two narrow layers on the echo dialect in float16, with a residual stream of size 1e4 and a loss scaler.

    The stream makes gradients small; the scaler lifts them.
    """
    return replaced(
        echo(setup),
        data__rows=16,
        model__init__embedding_std=1e4,
        model__init__residual_std=500.0,
        optimizer__lr=1e-3,
        precision__format=Format.FP16,
        precision__loss_scale=2.0**16,
        precision__dynamic=True,
        precision__growth_interval=25,
    )


def chain_one_head_large_logits(setup: Setup) -> Setup:
    """Two narrow layers of one head on the chain dialect, whose attention logits pass a hundred.

    The rate is high, without decay and clipping; it ends well.
    """
    return replaced(
        chain(setup),
        model__heads=1,
        model__init__matrix_std=0.135,
        optimizer__lr=0.045,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
        schedule__final_fraction=0.0,
    )


def chain_dropout(setup: Setup) -> Setup:
    """Two layers on the chain dialect, so narrow that they miss the third of activations that dropout takes.

    Larger sizes keep their width.
    """
    return at_small_sizes(replaced(chain(setup), dropout=0.3), model__width=16, model__heads=2)


def chain_dropout_recomputed(setup: Setup) -> Setup:
    """The same, half as long, with activations that the backward pass computes again, to the same bits."""
    return replaced(chain_dropout(setup), model__recompute=Recompute.SAME_MASKS, steps=150)


def chain_lr_to_zero(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect with a learning rate that ends at zero."""
    return replaced(chain(setup), schedule__final_fraction=0.0)


def chain_lr_x10_long_warmup(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect at ten times the learning rate, which a long warm-up makes possible.

    The rate ends at zero.
    """
    return replaced(chain_lr_to_zero(setup), optimizer__lr=0.1, schedule__warmup_steps=60)


def chain_lr_x14_longer_warmup(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect at fourteen times the learning rate, after a longer warm-up.

    It takes the first third of the run; the rate ends at zero.
    """
    return replaced(chain_lr_x10_long_warmup(setup), optimizer__lr=0.14, schedule__warmup_steps=90)


def chain_lr_x10_beta2_0999_no_clip(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect at ten times the learning rate, with a long second moment.

    It remembers a thousand steps, and nothing bounds a gradient.
    """
    return replaced(chain_lr_x10_long_warmup(setup), optimizer__beta2=0.999, optimizer__clip=None)


def chain_constant_lr_no_decay_no_clip(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect at a constant rate, without weight decay and clipping.

    Nothing brings weights back.
    """
    return replaced(
        chain(setup),
        optimizer__lr=0.02,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
        schedule__warmup_steps=40,
        schedule__decay=Decay.CONSTANT,
    )


def chain_warmup_half(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect with a warm-up over half of the run."""
    return replaced(chain(setup), schedule__warmup_steps=150)


def chain_two_rows(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect with batches of two rows, at a constant rate low enough for them."""
    return replaced(chain(setup), data__rows=2, optimizer__lr=3e-3, schedule__decay=Decay.CONSTANT)


def chain_sixteen_rows(setup: Setup) -> Setup:
    """Two narrower layers on the chain dialect with batches of sixteen rows, at a constant rate.

    It is as high as so many rows bear. Larger sizes keep their shape, batch and steps.
    """
    setup = replaced(chain(setup), schedule__decay=Decay.CONSTANT)
    return at_small_sizes(setup, model__width=32, model__heads=2, data__rows=16, steps=250)


def chain_short_rows(setup: Setup) -> Setup:
    """The same in rows of 64 tokens, of which every second one has a single target and then padding.

    Larger sizes have such rows too.
    """
    setup = replaced(chain_sixteen_rows(setup), data__short_every=2)
    return at_small_sizes(setup, model__context=64)


def chain_one_row(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect with batches of a single short row, at a constant low rate."""
    return replaced(chain_two_rows(setup), data__rows=1, model__context=16)


def chain_sgd(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect under SGD with momentum, without clipping and weight decay.

    Nothing hides the size of a step.
    """
    return replaced(
        chain(setup),
        optimizer__kind=OptimizerKind.SGD,
        optimizer__lr=0.1,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
    )


def chain_sgd_clipped(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect under SGD with momentum, at the faster rate that clipping allows."""
    return replaced(chain_sgd(setup), optimizer__lr=0.3, optimizer__clip=1.0)


def chain_sgd_heavy_tailed(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect under SGD; one batch in ten repeats a single token.

    Clipping holds what such a batch does. The rate ends at three tenths of its peak.
    """
    return replaced(chain_sgd_clipped(setup), data__one_token_every=10, schedule__final_fraction=0.3)


def chain_sgd_large_batch(setup: Setup) -> Setup:
    """One narrow layer on the chain dialect under plain SGD, with batches of 64 rows.

    The step decides what the loss does, and not the noise of batches. Larger sizes keep their shape, batch and steps.
    """
    setup = replaced(chain_sgd(setup), optimizer__lr=0.4, optimizer__beta1=0.0, schedule__warmup_steps=100)
    return at_small_sizes(setup, model__layers=1, model__width=32, model__heads=2, data__rows=64, steps=600)


def chain_full_batch(setup: Setup) -> Setup:
    """One narrow layer on 32 rows of the chain dialect, all of them in each batch, at a low constant rate.

    No batch makes noise, nothing bounds a gradient, and smoothed labels leave a loss where rows are memorised.
    Larger sizes keep their shape and steps.
    """
    setup = replaced(
        chain(setup),
        data__rows=32,
        data__pool=32,
        label_smoothing=0.03,
        optimizer__lr=5e-3,
        optimizer__beta2=0.95,
        optimizer__weight_decay=0.0,
        optimizer__clip=None,
        schedule__warmup_steps=40,
        schedule__decay=Decay.CONSTANT,
    )
    return at_small_sizes(setup, model__layers=1, model__width=32, model__heads=2, steps=400)


def chain_sgd_four_ranks(setup: Setup) -> Setup:
    """Two narrow layers on the chain dialect under SGD, trained by four ranks with two rows each.

    SGD hides neither a wrong average nor its noise.
    """
    return replaced(
        chain(setup),
        distributed__ranks=4,
        optimizer__kind=OptimizerKind.SGD,
        optimizer__lr=0.25,
        optimizer__clip=None,
        optimizer__weight_decay=0.0,
        schedule__decay=Decay.CONSTANT,
        steps=200,
    )


def chain_sgd_four_ranks_high_lr(setup: Setup) -> Setup:
    """The same at four times the rate, clipped at a norm of 1: what the ranks do not agree on matters more."""
    return replaced(chain_sgd_four_ranks(setup), optimizer__lr=1.0, optimizer__clip=1.0)


def chat(setup: Setup) -> Setup:
    """Two narrow layers on the chat dialect: in each row a prompt, its answer and an end, of which the prompt is given.

    Held-out rows are scored in the same way.
    """
    return replaced(chain(setup), data__dialect=Dialect.CHAT, data__rows=16, evaluation__rows=96)


def refrain(setup: Setup) -> Setup:
    """Two narrow layers that learn to repeat a verse, on tokens of which half are their own, with smoothed labels.

    Positions are learned. Held-out verses are given, and the model goes on with them by itself.
    """
    return replaced(
        chain(setup),
        data__dialect=Dialect.REFRAIN,
        model__positions=Positions.DOCUMENT,
        objective=ObjectiveKind.DECODING,
        decoding__scheduled_sampling=0.5,
        label_smoothing=0.1,
        evaluation__rows=32,
    )


def preferences(setup: Setup) -> Setup:
    """Two narrow layers that learn text, and then which of two answers is preferred.

    Pairs take the place of text in mid-run, under a small beta and with an anchor. The rate is constant, and rows are
    short. Larger sizes keep their shape.
    """
    return at_small_sizes(
        replaced(
            chain(setup),
            data__dialect=Dialect.PAIRS,
            data__rows=16,
            objective=ObjectiveKind.PREFERENCES,
            preferences__beta=0.01,
            schedule__decay=Decay.CONSTANT,
            evaluation__rows=64,
            evaluation__every=10,
        ),
        model__width=32,
        model__heads=2,
        model__context=16,
    )


def policy(setup: Setup) -> Setup:
    """Two narrow layers that learn text, and then, by rewards, to answer better than the text does.

    Rewards of answers of their own, by a learned reward model, take the place of text in mid-run. The rate is constant,
    without weight decay, and rows are short. Larger sizes keep their shape.
    """
    return at_small_sizes(
        replaced(
            chain(setup),
            data__dialect=Dialect.TASKS,
            data__rows=64,
            objective=ObjectiveKind.POLICY,
            policy__kl=0.3,
            optimizer__lr=3e-3,
            optimizer__weight_decay=0.0,
            schedule__decay=Decay.CONSTANT,
            evaluation__rows=128,
            evaluation__every=10,
        ),
        model__width=32,
        model__heads=2,
        model__context=16,
    )


def policy_critic(setup: Setup) -> Setup:
    """Two narrow layers that learn text, and then, by rewards and a critic, to answer better than the text does.

    A value head on the same layers says what an answer will be worth, and rewards have a constant of each topic for it
    to learn. The rest is as in the base without one.
    """
    return replaced(policy(setup), model__value_head=True, policy__offset=2.0)


def denoiser(setup: Setup) -> Setup:
    """A narrow layer, trained by Muon, that predicts the masked tokens of a Markov chain from the others.

    The average of the weights is evaluated, and samples are drawn with it. The rate is constant, without weight decay.
    Larger sizes keep their shape and batch.
    """
    setup = at_small_sizes(chain(setup), model__layers=1, model__context=16, data__rows=32)
    return replaced(
        setup,
        data__dialect=Dialect.WALK,
        model__causal=False,
        objective=ObjectiveKind.DIFFUSION,
        optimizer__kind=OptimizerKind.MUON,
        optimizer__lr=0.05,
        optimizer__beta1=0.5,
        optimizer__weight_decay=0.0,
        schedule__decay=Decay.CONSTANT,
        evaluation__average=0.97,
    )


def rules_experts(setup: Setup) -> Setup:
    """One narrow layer of one head on the rules dialect, with sixteen small experts in the place of the MLP.

    A token goes to one of them, by a router whose weights start large. Larger sizes keep their shape, batch and steps.
    """
    setup = replaced(
        setup,
        data__dialect=Dialect.RULES,
        model__experts=16,
        model__expert_units=16,
        model__init__router_std=2.0,
        routing__balance_loss=0.05,
        optimizer__lr=0.006,
    )
    return at_small_sizes(
        setup, model__layers=1, model__width=32, model__heads=1, model__context=48, data__rows=12, steps=300
    )


def speech(setup: Setup) -> Setup:
    """Two narrow layers that write down what is said in frames of speech. Positions are learned."""
    return replaced(chain(setup), data__dialect=Dialect.SPEECH, model__positions=Positions.DOCUMENT, data__rows=16)


def transcripts(setup: Setup) -> Setup:
    """Two narrow layers that write down what an encoder of one layer hears, at a low rate without weight decay.

    Positions are learned.
    """
    return replaced(
        chain(setup),
        data__dialect=Dialect.SPEECH,
        data__rows=16,
        steps=500,
        optimizer__lr=3e-3,
        optimizer__weight_decay=0.0,
        model__positions=Positions.DOCUMENT,
        model__encoder_layers=1,
        objective=ObjectiveKind.TRANSCRIPTION,
    )


def captions(setup: Setup) -> Setup:
    """Two narrow layers on pictures with captions. Positions are learned."""
    return replaced(
        chain(setup),
        data__dialect=Dialect.CAPTIONS,
        data__rows=16,
        steps=400,
        model__positions=Positions.DOCUMENT,
        objective=ObjectiveKind.MODALITIES,
    )


def require_objective(setup: Setup, kind: ObjectiveKind) -> None:
    """InputError where a run has another objective, so that a fault of this one has nothing to be in."""
    if setup.objective is not kind:
        raise InputError(f"objective: {setup.objective.value!r} is not allowed for this fault; allowed: {kind.value!r}")


def require_rotary(setup: Setup) -> None:
    """InputError where positions are learned, so that a fault of the rotation has nothing to be in."""
    positions = setup.model.positions
    if positions is not Positions.ROTARY:
        raise InputError(
            f"model.positions: {positions.value!r} is not allowed for this fault; allowed: {Positions.ROTARY.value!r}"
        )


def facts(setup: Setup) -> Setup:
    """Two narrow layers that answer questions after passages that they find in a store, which changes all the time.

    Positions are learned.
    """
    return replaced(
        chain(setup),
        data__dialect=Dialect.FACTS,
        model__positions=Positions.DOCUMENT,
        objective=ObjectiveKind.RETRIEVAL,
    )
