"""Rollback guards: places, reading, and advancing."""
