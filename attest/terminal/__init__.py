"""Building blocks of command lines: the boundary of errors, signals, escaping of untrusted text, progress."""
