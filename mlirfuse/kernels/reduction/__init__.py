"""Reductions over rows: softmax and the norms."""
