"""The fused attention kernels, and the recipes of their faulty variants."""
