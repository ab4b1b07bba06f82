"""What a model configuration refuses, in one line each, and what follows from it."""

import math
import re
from typing import Any

import pytest

from trainwreck.models.config import ModelConfig

COUNTS = ("layers", "width", "heads", "mlp_ratio", "vocab_size", "context")
BAD: list[tuple[dict[str, Any], str]] = [
    *(
        ({name: value}, f"model.{name}: {value} is not allowed; allowed: 1 or more")
        for name in COUNTS
        for value in (0, -3)
    ),
    ({"width": 63}, "model.width: 63 is not allowed with 4 heads; allowed: multiples of 8"),
    ({"width": 60}, "model.width: 60 is not allowed with 4 heads; allowed: multiples of 8"),
    ({"heads": 5}, "model.width: 64 is not allowed with 5 heads; allowed: multiples of 10"),
    ({"heads": 64}, "model.width: 64 is not allowed with 64 heads; allowed: multiples of 128"),
    ({"norm_eps": -1e-9}, "model.norm_eps: -1e-09 is not allowed; allowed: 0 or more"),
    ({"norm_eps": math.nan}, "model.norm_eps: nan is not allowed; allowed: 0 or more"),
    ({"rope_base": 0.0}, "model.rope_base: 0.0 is not allowed; allowed: over 0"),
    ({"rope_base": math.inf}, "model.rope_base: inf is not allowed; allowed: over 0"),
    ({"residual_gain": math.nan}, "model.residual_gain: nan is not allowed; allowed: finite numbers"),
]


@pytest.mark.parametrize(("changed", "line"), BAD, ids=str)
def test_a_bad_setting_is_refused_in_one_line(changed: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}$"):
        ModelConfig(**changed)


@pytest.mark.parametrize("name", COUNTS)
def test_the_smallest_allowed_count_is_allowed(name: str) -> None:
    smallest = {"width": 2, "heads": 1} if name in ("width", "heads") else {name: 1}
    assert getattr(ModelConfig(**smallest), name) == smallest[name]


def test_misspelt_and_positional_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="layer"):
        ModelConfig(layer=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        ModelConfig(3)  # type: ignore[misc]


@pytest.mark.parametrize(("width", "heads", "head_width"), [(64, 4, 16), (48, 4, 12), (6, 3, 2), (2, 1, 2)])
def test_heads_share_the_width_and_scores_are_scaled_by_its_root(width: int, heads: int, head_width: int) -> None:
    config = ModelConfig(width=width, heads=heads)
    assert config.head_width == head_width
    assert config.attention_scale == pytest.approx(head_width**-0.5)


def test_two_configurations_share_no_initialisation() -> None:
    assert ModelConfig().init is not ModelConfig().init
