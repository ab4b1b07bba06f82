"""Built-in detectors, one a file. A module here is found by being here.

Two files hold no detector: `series` has the gate and base classes of the generic ones, `evidence` is the playbook's.
"""
