"""Typed questions about linalg on tensors: what an op is, what a value computes."""
