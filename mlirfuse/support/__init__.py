"""Files, processes and signatures; imports nothing of mlirfuse but `core`."""
