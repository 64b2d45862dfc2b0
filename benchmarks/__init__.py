"""Speed of compiled programs and of the compiler: `python -m benchmarks SUITE`."""
