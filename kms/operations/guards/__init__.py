"""Rollback guards: where they are, how they are read, and when they are advanced."""
