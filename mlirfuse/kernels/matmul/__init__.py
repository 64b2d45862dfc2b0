"""Matmuls with prologues and epilogues."""
