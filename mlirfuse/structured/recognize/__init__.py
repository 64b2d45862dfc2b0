"""Recognition of patterns by meaning: attention, norms, contractions, ..."""
