"""A fusion pass for mlirfuse that lives in a package of its own."""
