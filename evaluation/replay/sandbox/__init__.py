"""Detectors in processes of their own, with limits on time, memory and output; see docs/protocol.md."""
