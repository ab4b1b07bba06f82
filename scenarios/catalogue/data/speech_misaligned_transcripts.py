"""Segments cut at the wrong times: transcripts begin words late, and end in what is said after the frames.

Failure: A share of the transcripts is shifted against the frames. The decoder learns late and badly where to listen: a
    word's own frames have far less of its cross-attention, and the held-out loss ends one nat and more over its twin's.
Mechanism: Where a word was said is learnt from frames and words that go together. Shifted transcripts put the same word
    beside the frames of another one, and their last words are in no frame at all. On held-out rows the decoder then
    puts much of the probability on words that are said later.
Injection: From the onset on, each row of a batch begins `words` words late with probability `rows`: the words that are
    missing at its end are the first ones of the row before it.
Cure: The segments are cut anew: each transcript is that of its frames.
Realism: Stands for corpora that were segmented by a forced aligner which lost its place, and for captions that run
    late. Here all segments are late by the same number of words.
References: Debugging Divergent Loss During Training (2025), on acoustic features and transcripts that do not match;
    uhh-lt/kaldi-tuda-de#28 (segments of a corpus with the wrong alignment); Radford et al. 2022 (Whisper, whose data
    were filtered for transcripts that are not aligned).
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.sources.speech import WORDS
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario, Severity


@dataclass(kw_only=True)
class Late(Knobs):
    """Share of the rows whose transcript begins late, and by how many words."""

    rows: float = 0.6
    words: int = 4

    def __post_init__(self) -> None:
        if not 0 < self.rows <= 1:
            raise ValueError(f"fault.rows: {self.rows} is not allowed; allowed: over 0, up to 1")
        if self.words < 1:
            raise ValueError(f"fault.words: {self.words} is not allowed; allowed: 1 or more")


@register
class SpeechMisalignedTranscripts(Scenario):
    """Transcripts that are shifted against what is heard."""

    id = "speech_misaligned_transcripts"
    family = Family.DATA
    plans = 3
    kinds = (FaultKind.DATA,)
    sources = (citations.DIVERGENT_LOSS, citations.KALDI_TUDA_28, citations.WHISPER)
    telling = "alignment_mass"
    severities = {
        Severity.SUBTLE: Late(rows=0.5),
        Severity.CLEAR: Late(rows=0.6),
        Severity.SEVERE: Late(rows=0.7),
    }
    onset = MidRun(0.05, 0.1)
    cure_after = 30
    tolerance = 0.13  # 32 healthy runs of this base end 0.128 nats apart; 16 of them 0.090, the others 0.125

    def base(self, setup: Setup) -> Setup:
        return bases.transcripts(setup)

    def fault(self, knobs: Late, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.TRANSCRIPTION)

        def shifted(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            rows = draw.random(len(batch.inputs)) < knobs.rows
            rows[0] |= since == 0  # the onset is the first batch with a wrong one
            scored = batch.weights > 0
            count = int(scored[0].sum())
            spoken = batch.targets[:, -count:]
            late = min(knobs.words, count)
            moved = np.concatenate((spoken[:, late:], np.roll(spoken, 1, 0)[:, :late]), 1)
            targets = np.array(batch.targets)
            targets[:, -count:] = np.where(rows[:, None], moved, spoken)
            inputs = np.concatenate((batch.inputs[:, :1], targets[:, :-1]), 1)
            inputs = np.where(batch.inputs < WORDS, inputs, batch.inputs)  # words that are read, not frames
            return dataclasses.replace(batch, inputs=inputs, targets=targets)

        return [DataTransform(shifted, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        quarter = len(run) // 4
        second, late = slice(quarter, 2 * quarter), slice(-quarter, None)
        return {
            "in the second quarter the words' own frames have less than 0.7 of the attention of a healthy run": (
                np.nanmean(run["alignment_mass"][second]) < 0.7 * np.nanmean(healthy["alignment_mass"][second])
            ),
            "in the last quarter the held-out loss is over a healthy run's by 0.3 nats and more": (
                np.nanmin((run["validation_loss"] - healthy["validation_loss"])[late]) > 0.3
            ),
            "the worst row of a batch costs 1.2 nats more than in a healthy run there, in the median": (
                np.median(run["row_loss_max"][late]) - np.median(healthy["row_loss_max"][late]) > 1.2
            ),
        }
