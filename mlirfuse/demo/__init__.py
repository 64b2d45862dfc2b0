"""A tour of mlirfuse on a real model: `python -m mlirfuse.demo`."""
