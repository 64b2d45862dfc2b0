"""Modules of MLIR whose one region has a given problem, by family."""
