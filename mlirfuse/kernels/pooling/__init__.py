"""Pooling windows with their padding."""
