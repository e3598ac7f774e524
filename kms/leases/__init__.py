"""Leases: who holds which key until when, and what proved itself for it."""
