"""Modules of MLIR whose one region has a given problem, one module a family, of its name."""
