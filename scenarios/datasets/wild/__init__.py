"""The plan `wild`: faults on healthy setups that are drawn from a distribution, not tuned by hand."""
