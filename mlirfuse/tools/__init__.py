"""The command lines: arguments in, calls out."""
