"""What the steps of a block get: token arrays, learning rates, and the signals that the host knows."""

from trainwreck.scenarios.training.inputs.ahead import Ahead
from trainwreck.scenarios.training.inputs.sampled import Inputs, inputs

__all__ = ["Ahead", "Inputs", "inputs"]
