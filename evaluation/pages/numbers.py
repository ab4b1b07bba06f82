"""Numbers as the JSON of a page has them."""

import math

DIGITS = 5  # significant ones; a chart shows fewer


def written(value: float | None) -> float | str | None:
    """Rounded; "nan", "inf" and "-inf" for what JSON has no number for, which `readNumber` of scale.js reads."""
    if value is None:
        return None
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.{DIGITS}g}")
