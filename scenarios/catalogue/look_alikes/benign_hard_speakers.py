"""A stretch of speakers who can hardly be understood, while the loss still falls; it ends, and is made up for.

Failure: None. The training loss leaps over that of a guess and stays there for a dozen batches, and held-out
    transcripts are worse right after them. Then both fall as before, and the run ends as its twin does.
Mechanism: A word that can't be heard is one of twenty, and a guess costs ln 20 = 3.0 nats; one that is taken for
    another costs more. What was learnt is unlearnt in part, and found again as soon as frames say something.
Injection: For `steps` steps from the onset on, the share `frames` of the frames are of units that were drawn, not said.
Realism: Corpora come in the order of their recordings, and one of a noisy room lies in between. Real noise is like
    other noise, and not like words that were not said.
References: Radford et al. 2022 (Whisper: training data of mixed quality, and noise); uhh-lt/kaldi-tuda-de#28 (segments
    with the wrong alignment, as the contrast).
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.sources.speech import START, WORDS
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Mumbled(Knobs):
    """Share of the frames that are not what was said, and for how many steps."""

    frames: float = 0.8
    steps: int = 12

    def __post_init__(self) -> None:
        if not 0 < self.frames <= 1:
            raise ValueError(f"fault.frames: {self.frames} is not allowed; allowed: over 0, up to 1")
        if self.steps < 1:
            raise ValueError(f"fault.steps: {self.steps} is not allowed; allowed: 1 or more")


@register
class BenignHardSpeakers(Scenario):
    """A dozen batches that can hardly be heard."""

    id = "benign_hard_speakers"
    family = Family.LOOK_ALIKE
    plans = 4
    look_alike = True
    imitates = ("speech_misaligned_transcripts", "speech_noisy_transcripts")
    kinds = (FaultKind.DATA,)
    sources = (citations.WHISPER, citations.KALDI_TUDA_28)
    telling = "loss"
    knobs = Mumbled()
    onset = MidRun(0.36, 0.42)
    tolerance = 0.09  # 16 healthy runs of this base end 0.090 apart

    def base(self, setup: Setup) -> Setup:
        return bases.transcripts(setup)

    def fault(self, knobs: Mumbled, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.TRANSCRIPTION)

        def mumbled(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            if since >= knobs.steps:
                return batch
            frames = (batch.inputs >= WORDS) & (batch.inputs < START)
            drawn = WORDS + draw.integers(START - WORDS, size=batch.inputs.shape)
            missed = frames & (draw.random(batch.inputs.shape) < knobs.frames)
            return dataclasses.replace(batch, inputs=np.where(missed, drawn, batch.inputs))

        return [DataTransform(mumbled, self.id)]
