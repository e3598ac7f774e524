"""Digest of canonical JSON (RFC 8785)."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from attest.encoding import JsonValue, canonical_json

__all__ = ["canonical_digest", "canonical_json"]


def canonical_digest(value: JsonValue | Mapping[str, JsonValue]) -> str:
    """Return SHA-256 of canonical JSON, hex."""
    return sha256(canonical_json(value)).hexdigest()
