"""Runs IREE's compiler: processes, phases and the compile cache."""
