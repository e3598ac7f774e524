"""Builder of the published files (`make dist`). No wheel contains it."""
