"""The training loop: bundles of runs stepped as one program, and their telemetry."""
