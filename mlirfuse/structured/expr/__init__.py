"""Scalar expressions of tensor elements, compared by the value that they compute."""
