"""Kernel configurations: measured entries and their look-up."""
