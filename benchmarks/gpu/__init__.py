"""Programs for a GPU: compiled here, checked and timed on a machine that has one."""
