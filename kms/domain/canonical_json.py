"""Canonical JSON (RFC 8785) and its digest."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast

import rfc8785

from attest.encoding import JsonValue


def canonical_json(value: JsonValue | Mapping[str, JsonValue]) -> bytes:
    """Return canonical JSON, UTF-8."""
    document = dict(value) if isinstance(value, Mapping) else value
    return rfc8785.dumps(cast("Any", document))  # Any: JSON, as annotated


def canonical_digest(value: JsonValue | Mapping[str, JsonValue]) -> str:
    """Return SHA-256 of canonical JSON, hex."""
    return sha256(canonical_json(value)).hexdigest()
