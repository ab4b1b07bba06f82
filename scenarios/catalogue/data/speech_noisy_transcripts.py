"""Transcripts of other utterances: a few rows cost most of the loss.

Failure: A share of the transcripts belongs to other utterances. The training loss stops far above the held-out one, in
    each batch some utterances cost several nats a word, and clean ones are learnt less well than they could be.
Mechanism: What a wrong transcript says is not in the frames, so its loss stays, and with it its gradient: most of each
    step goes to rows that teach nothing. What they do teach is not to be sure of any first word.
Injection: From the onset on, each row of a batch has the transcript of the row before it with probability `rows`.
Also seen: The largest loss of a row stays several nats over the mean in every batch, and more than half of the gradient
    at the logits is that of the wrong rows.
Cure: The transcripts are curated: the wrong ones are replaced by the right ones.
Realism: Stands for segments that are cut at the wrong times and for captions that were written for people. Here speech
    is units of sound, and one causal model reads them and writes the transcript; there is no encoder beside it.
References: Debugging Divergent Loss During Training (2025), on acoustic features and transcripts that do not match;
    uhh-lt/kaldi-tuda-de#28 (segments of a corpus with the wrong alignment).
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Dialect, Setup, SourceKind
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.sources.selection import source, source_key
from trainwreck.scenarios.data.sources.speech import WORDS, Speech
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario, Severity


@dataclass(kw_only=True)
class Rows(Knobs):
    """Share of the rows whose transcript is that of another one."""

    rows: float = 0.4

    def __post_init__(self) -> None:
        if not 0 < self.rows <= 1:
            raise ValueError(f"fault.rows: {self.rows} is not allowed; allowed: over 0, up to 1")


@register
class SpeechNoisyTranscripts(Scenario):
    """Transcripts that belong to other utterances."""

    id = "speech_noisy_transcripts"
    family = Family.DATA
    plans = 3
    kinds = (FaultKind.DATA,)
    sources = (citations.DIVERGENT_LOSS, citations.KALDI_TUDA_28)
    telling = "row_loss_max"
    severities = {
        Severity.SUBTLE: Rows(rows=0.3),
        Severity.CLEAR: Rows(rows=0.4),
        Severity.SEVERE: Rows(rows=0.6),
    }
    onset = MidRun(0.2, 0.3)
    cure_after = 30
    tolerance = 0.15  # 16 healthy runs of this base end 0.151 nats apart

    def base(self, setup: Setup) -> Setup:
        return bases.speech(setup)

    def fault(self, knobs: Rows, setup: Setup) -> list[Change]:
        if not isinstance(source(source_key(setup.data)), Speech):
            raise InputError(
                f"data.dialect: {setup.data.dialect.value!r} is not allowed for {self.id}; "
                f"allowed: {Dialect.SPEECH.value}, of data.source {SourceKind.LANGUAGE.value}"
            )

        def exchange(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            rows = draw.random(len(batch.inputs)) < knobs.rows
            rows[0] |= since == 0  # the onset is the first batch with a wrong one
            wrong = rows[:, None] & (batch.weights > 0)
            targets = np.where(wrong, np.roll(batch.targets, 1, 0), batch.targets)
            inputs = np.concatenate((batch.inputs[:, :1], targets[:, :-1]), 1)
            inputs = np.where(batch.inputs < WORDS, inputs, batch.inputs)  # words that are read, not frames
            return dataclasses.replace(batch, inputs=inputs, targets=targets)

        return [DataTransform(exchange, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)
        return {
            "in the last quarter the worst row of a batch costs 1.5 nats more than in a healthy run, in the median": (
                np.median(run["row_loss_max"][late]) - np.median(healthy["row_loss_max"][late]) > 1.5
            ),
            "the training loss is over the held-out one by 0.5 nats there, in a healthy run by less than 0.2": (
                np.nanmean(run["loss"][late]) - np.nanmean(run["validation_loss"][late]) > 0.5
                and np.nanmean(healthy["loss"][late]) - np.nanmean(healthy["validation_loss"][late]) < 0.2
            ),
            "the held-out loss is over a healthy run's by 0.2 nats on average there": (
                np.nanmean((run["validation_loss"] - healthy["validation_loss"])[late]) > 0.2
            ),
        }
