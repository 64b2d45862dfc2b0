"""Measured times of the kernels of a program, beside the rates of its device."""
