"""Single ops and sets of ops: types, loops, slices, legality."""
