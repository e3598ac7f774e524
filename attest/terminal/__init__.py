"""Building blocks of command lines: the boundary of errors, signals, text made safe for a terminal, progress."""
