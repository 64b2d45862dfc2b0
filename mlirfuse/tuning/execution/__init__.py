"""Tasks of the tuner: what runs them, here or on many machines, and where results are kept."""
