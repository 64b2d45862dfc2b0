"""Kernels for CPUs in MLIR's vector dialect, which `iree-compile` compiles with the program."""
