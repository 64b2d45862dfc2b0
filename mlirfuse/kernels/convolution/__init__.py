"""Convolutions as implicit GEMMs."""
