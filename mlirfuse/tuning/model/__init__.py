"""Tunes one model: the settings to try, the tasks that try them, and the search."""
