"""Passes from outside: entry points, `--load-pass`, files of PDL patterns."""
