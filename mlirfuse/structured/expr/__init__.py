"""Scalar expressions of tensor elements, compared by value."""
