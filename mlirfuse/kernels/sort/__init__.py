"""Indices that sort a dimension, or that select its first elements."""
