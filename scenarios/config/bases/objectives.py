"""Narrow layers on other data than the language's, most of them with an objective of their own."""

from trainwreck.models.config import OptimizerKind, Positions
from trainwreck.scenarios.config.bases.chains import at_small_sizes, chain
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Decay, Dialect, Setup, replaced


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
