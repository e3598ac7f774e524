"""Writer of JWTs: compact JWS (RFC 7515) over claims. ``attest.results.jose`` reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from attest.encoding import JsonValue, base64url_text
from attest.results.raw_signatures import SigningKey

JWT_TYPE: Final = "eat+jwt"
"""RFC 9782, without ``application/`` as RFC 7515 recommends."""
JWT_TYPES: Final = frozenset({None, "eat+jwt", "application/eat+jwt", "eat-jwt", "application/eat-jwt", "jwt"})
"""Accepted values of ``typ``, in lower case; None for a header without it."""


def sign_jwt(claims: Mapping[str, JsonValue], key: SigningKey) -> str:
    """Return the compact serialisation; members stand in the order given."""
    header: dict[str, JsonValue] = {"alg": key.algorithm, "typ": JWT_TYPE, "kid": key.kid}
    message = f"{_word(header)}.{_word(dict(claims))}"
    return f"{message}.{base64url_text(key.sign(message.encode()))}"


def _word(value: JsonValue) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64url_text(text.encode())
