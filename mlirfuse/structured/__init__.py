"""Typed questions about linalg on tensors: the structure of ops, the values that they compute."""
