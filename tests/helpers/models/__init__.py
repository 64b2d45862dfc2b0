"""Models whose records are in tests/models/golden."""
