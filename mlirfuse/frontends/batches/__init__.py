"""Programs for any number of samples, as a loop over samples."""
