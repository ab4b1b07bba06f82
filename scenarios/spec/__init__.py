"""What a scenario is: faults, onset, signature, cure; the registry; and the specification of a run."""
