"""The checks before a run, on anyone's model and batch."""

from trainwreck.scenarios.preflight.check import Check, Finding, Verdict, checks, preflight
from trainwreck.scenarios.preflight.factory import from_factory
from trainwreck.scenarios.preflight.subject import Preflight

__all__ = ["Check", "Finding", "Preflight", "Verdict", "checks", "from_factory", "preflight"]
