"""Brakes: freezes, limits and break-glass, which apply whatever the policies of keys allow."""
