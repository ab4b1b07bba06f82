"""The lab: scenarios, faults, data sources, the training loop and the proof."""
