"""Kernels of other compilers that take the place of a group, inside the same `.vmfb`."""
