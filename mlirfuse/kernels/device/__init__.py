"""Triton as a kernel provider: imported only in the process that builds kernels, and in tests."""
