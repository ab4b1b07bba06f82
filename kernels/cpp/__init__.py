"""Kernels in C++ for one core of a CPU, float32: built at first use, loaded without PyTorch's headers."""
