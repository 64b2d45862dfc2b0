"""Debugging of programs: bisection of rewrites, verification against float64, reproducers."""
