"""mlirfuse."""
