"""The transparency log of decisions and changes, append-only and tamper-evident."""
