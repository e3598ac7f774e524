"""Encrypted requests to an attested service."""
