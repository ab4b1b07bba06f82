"""The lab: scenarios, faults, data sources, the training loop and the proof.

The package is also a function: `trainwreck.scenarios()` is the catalogue, id to scenario.
"""

import sys
from types import ModuleType
from typing import Any


class _Catalogue(ModuleType):
    """A module that can be called, so that one name serves as package and as question."""

    def __call__(self) -> dict[str, Any]:
        from trainwreck.evaluation.short_forms import Names
        from trainwreck.scenarios.spec.registry import scenarios

        return Names(scenarios())


sys.modules[__name__].__class__ = _Catalogue
