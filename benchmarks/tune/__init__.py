"""Tuned programs beside those of the default settings, and how the search scales."""
