"""Detectors on a training run that is under way: rows as its trainer logs them, alarms as they come."""

from trainwreck.evaluation.live.monitor import Alarm, Monitor

__all__ = ["Alarm", "Monitor"]
