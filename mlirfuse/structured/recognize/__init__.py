"""Recognition of computations by value: attention, norms, contractions and others."""
