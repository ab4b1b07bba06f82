"""The scripts and style sheets of this folder, to be written into a page that loads nothing."""

from functools import cache
from importlib.resources import files

CHART = ("markup.js", "scale.js", "drawing.js", "chart.js")  # in the order in which they need each other
HEAT = ("heat.js",)  # after CHART
THEME = ("theme.js",)
INFLATE = ("inflate.js",)


@cache
def asset(name: str) -> str:
    """The text of a file of this folder, such as "palette.css" or "chart.js"."""
    return files("trainwreck.evaluation.pages").joinpath(name).read_text(encoding="utf-8")


def script(*names: str) -> str:
    """Several scripts as one, for a `<script>` element; a page with lines needs `script(*THEME, *CHART)`."""
    return "\n".join(asset(name) for name in names)
