"""Scatters: updates that are stored or combined at computed indices."""
