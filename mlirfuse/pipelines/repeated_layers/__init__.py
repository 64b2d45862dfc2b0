"""Repeated-layer deduplication: run the passes on representative layers, replicate the result."""
