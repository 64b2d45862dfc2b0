"""Convolutions with fewer multiplications: minimal filtering, by Winograd."""
