"""Random programs, compiled with random switches: fused has to equal unfused."""
