"""Programs as text, runners and comparisons that several test modules share; no tests."""
