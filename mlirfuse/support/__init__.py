"""Files, processes and signatures: knows nothing of mlirfuse but `core`."""
