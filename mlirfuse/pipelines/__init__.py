"""Runs passes: presets, the text form of a pipeline, the engine and its search for groups."""
