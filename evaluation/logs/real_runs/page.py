"""The report on real runs: one HTML file, pictures included, that says first what is not known."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.registry import builtin_detectors
from trainwreck.evaluation.detectors.sanity import blind
from trainwreck.evaluation.files import sha256, write_text
from trainwreck.evaluation.intervals import interval_text, number_text
from trainwreck.evaluation.logs.labels import OUTCOMES
from trainwreck.evaluation.logs.real_runs.figures import picture
from trainwreck.evaluation.logs.real_runs.runs import labelled
from trainwreck.evaluation.logs.real_runs.scores import RealScore, score_real
from trainwreck.evaluation.pages.templates import template
from trainwreck.evaluation.progress import Tick

ORDER = ("failed", "healthy", "unknown")


def write_page(dataset: DataSet, labels: Path, out: Path, extra: Sequence[str] = (), tick: Tick | None = None) -> Path:
    """Score every built-in detector and `extra` on labelled real runs and write the page.

    tick: told of each run twice, when it was replayed and when its picture is drawn.
    """
    runs = labelled(dataset, labels)
    replay = tick and (lambda done, total, note: tick(done, total + len(runs), note))
    scores = score_real(dataset, runs, [*builtin_detectors(), *extra], replay)
    named = [score for score in scores if score.detector not in blind_entries()]
    pictures = []
    for place, run in enumerate(sorted(runs, key=lambda run: (ORDER.index(run.outcome), run.cluster, run.name))):
        alarms = {
            score.detector: one["first_alarm"]
            for score in named
            for one in score.runs
            if one["run_id"] == run.run_id and one["first_alarm"] is not None
        }
        pictures.append((f"run-{place}", run, len(alarms), picture(run, dataset.trace(run.run_id), alarms)))
        if tick:
            tick(len(dataset) + place + 1, len(dataset) + len(runs), f"picture of {run.name}")
    outline = template(
        "trainwreck.evaluation.logs.real_runs", "page.html.jinja", number=number_text, span=_with_interval
    )
    page = outline.render(
        name=dataset.path.resolve().name,
        version=dataset.manifest["environment"]["trainwreck"],
        labels=labels.name,
        labels_sum=sha256(labels),
        manifest_sum=sha256(dataset.path / "manifest.json"),
        counts={outcome: sum(run.outcome == outcome for run in runs) for outcome in OUTCOMES},
        clusters=len({run.cluster for run in runs}),
        scores=[score.to_dict() for score in _ordered(scores)],
        not_defined=scores[0].not_defined,
        notes=list(dict.fromkeys(note for score in scores if not score.counts["blind"] for note in score.notes)),
        pictures=pictures,
        blind=blind_entries(),
    )
    write_text(out, page)
    return out


def blind_entries() -> frozenset[str]:
    """Names of the sanity entries, which look at nothing."""
    return frozenset(name for name, kind in builtin_detectors().items() if kind.__module__ == blind.__name__)


def _with_interval(estimate: Mapping[str, float | None], form: str = ".2f") -> str:
    return interval_text(estimate["value"], estimate["low"], estimate["high"], form)


def _ordered(scores: Sequence[RealScore]) -> list[RealScore]:
    """By the fewest healthy runs stopped, then the most failed ones found; no rank is claimed."""

    def key(score: RealScore) -> tuple[bool, float, float, str]:
        stopped, found = score.false_stop["cluster"].value, score.found["cluster"].value
        unseen = stopped != stopped or found != found
        return unseen, 0.0 if unseen else stopped, 0.0 if unseen else -found, score.detector

    return sorted(scores, key=key)
