"""Typed questions about linalg on tensors: structure of ops, and recognition of the values they compute."""
