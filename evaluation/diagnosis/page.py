"""A diagnosis as one HTML file that loads nothing: the answer, and the curves with labelled runs laid over them."""

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from trainwreck.evaluation.diagnosis.diagnosis import ALIKE, ANSWERS, Diagnosis
from trainwreck.evaluation.diagnosis.observed import Curve
from trainwreck.evaluation.files import write_text
from trainwreck.evaluation.pages.assets import CHART, THEME, asset, script
from trainwreck.evaluation.pages.figures import caption, unit
from trainwreck.evaluation.pages.live_page.page import coded
from trainwreck.evaluation.pages.numbers import written
from trainwreck.evaluation.pages.templates import beside, in_script, template

SHOWN = ("loss", "validation_loss", "grad_norm", "lr")
PIECES = 500  # of a long curve, each shown by its least and its largest value
OWN = {"id": "yours", "name": "this run", "ink": "yours"}
ROLES = ("twin", "cured", "faulty")  # the last is drawn on top


def write_page(found: Diagnosis, out: Path) -> Path:
    """Write the page and return its path."""
    outline = template("trainwreck.evaluation.diagnosis", "page.html.jinja", coded=coded)
    page = outline.render(
        found=found,
        facts=found.to_dict(),
        answer=ANSWERS[found.verdict],
        pages=found.pages,
        alike=ALIKE,
        columns=[name for name in SHOWN if any(name in row for row in found.rows)],
        rows=found.rows,
        drawn=in_script(_drawn(found)),
        style=Markup(asset("palette.css")) + beside("trainwreck.evaluation.pages.live_page", "live.css"),
        scripts=Markup(script(*THEME, *CHART)) + beside("trainwreck.evaluation.diagnosis", "page.js"),
    )
    write_text(out, page)
    return out


def _drawn(found: Diagnosis) -> dict[str, Any]:
    """What the script draws: the run's own curves, and the loss once more for each labelled run."""
    curves = {name: _thinned(found.run.curve(name)) for name in SHOWN}
    own = [
        {"label": caption(name), "unit": _unit(name), "series": [OWN | _points(curve)]}
        for name, curve in curves.items()
        if len(curve)
    ]
    near = []
    for one in found.near:
        roles = [role for role in ROLES if role in one.curves]
        labelled = [{"id": role, "name": role, "ink": role} | _points(one.curves[role]) for role in roles]
        near.append([*labelled, OWN | _points(curves["loss"])])
    steps = found.run.steps
    return {"since": found.since, "domain": [int(steps[0]), int(steps[-1])], "own": own, "near": near}


def _points(curve: Curve) -> dict[str, list[Any]]:
    return {"steps": curve.steps.tolist(), "values": [written(value) for value in curve.values.tolist()]}


def _unit(name: str) -> str:
    """A loss may be in any unit: a log does not say."""
    return "as logged" if name.endswith("loss") else unit(name)


def _thinned(curve: Curve) -> Curve:
    """Every point of a short curve; of a long one the least and the largest finite value of each piece, and the first
    that is not finite."""
    if len(curve) <= 2 * PIECES:
        return curve
    kept: list[int] = []
    for piece in np.array_split(np.arange(len(curve)), PIECES):
        values = curve.values[piece]
        finite = np.isfinite(values)
        if finite.any():
            held = piece[finite]
            kept += [int(held[np.argmin(values[finite])]), int(held[np.argmax(values[finite])])]
        if not finite.all():
            kept.append(int(piece[~finite][0]))
    chosen = np.unique(kept)
    return Curve(curve.steps[chosen], curve.values[chosen])
