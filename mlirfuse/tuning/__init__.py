"""Measures on a device: rates of the cost model, fused against stock, kernel configurations."""
