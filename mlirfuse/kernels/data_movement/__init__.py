"""Concatenations: parts that lie in memory are copied in one pass."""
