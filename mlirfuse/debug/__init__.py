"""Finds what is wrong with a program: bisection, verification against float64, reproducers."""
