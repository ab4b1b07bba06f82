"""What runs are trained for, a module each: the losses of a training step, and what held-out rows are evaluated by."""
