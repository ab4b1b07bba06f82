"""Runs that several processes train together: data-parallel ranks over torch.distributed."""
