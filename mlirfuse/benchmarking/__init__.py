"""Times of several programs: processes that take turns, and verdicts about the ratios."""
