r"""The user of a request: the holder of 32 random bytes of its own. There are no accounts and no registration.

::

    authorization: Bearer <base64url of 32 bytes>
    collection   = SHA-256( "rag collection v1\0" ‖ the 32 bytes )

The token is confined to this file: the store sees the collection, from which the token cannot be derived,
and a reader of the database cannot send requests in a user's name.
"""

from __future__ import annotations

from hashlib import sha256
from http import HTTPStatus
from typing import Final

from attest.encoding import base64url_bytes
from attest.errors import AttestError
from rag_demo.enclave.errors import RefusedError

TOKEN_BYTES: Final = 32
_DOMAIN: Final = b"rag collection v1\0"
_SCHEME: Final = "bearer"


def collection_of(lines: list[str]) -> bytes:
    """Return the collection of the user that the values of the header ``authorization`` name.

    Raises:
        RefusedError: ``rag-token-invalid``; it repeats no part of the header.
    """
    if len(lines) != 1:
        raise _refused("one line" if lines else "a line", "several" if lines else "none")
    scheme, _, text = lines[0].partition(" ")
    if scheme.lower() != _SCHEME:
        raise _refused("the scheme Bearer", "another scheme")
    try:
        token = base64url_bytes(text.strip(" "), what="token")
    except AttestError:
        raise _refused("base64url without padding", "something else") from None  # its text would quote the token
    if len(token) != TOKEN_BYTES:
        raise _refused(f"{TOKEN_BYTES} bytes", f"{len(token)} bytes")
    if not any(token):
        raise _refused(f"{TOKEN_BYTES} random bytes", "zeros alone")
    return sha256(_DOMAIN + token).digest()


def _refused(expected: str, got: str) -> RefusedError:
    return RefusedError(
        f"authorization: expected {expected}, got {got}",
        code="rag-token-invalid",
        status=HTTPStatus.UNAUTHORIZED,
        field="authorization",
        expected=expected,
        got=got,
        hint="send 'Bearer' and base64url of 32 random bytes that only you have; their holder can read your documents",
    )
