"""Elementwise ops, gathers and transposes."""
