"""The text of kernels: iteration space, scalar bodies, tiles."""
