"""Leases: administration, search, and audit."""
