"""Loops whose steps read the states that the step before wrote: LSTM, GRU, RNN, `lax.scan`."""
