"""Logs of other programs: names, units and gaps by stated rules."""
