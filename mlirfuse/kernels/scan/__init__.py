"""Cumulative sums, products and extrema along any dimension."""
