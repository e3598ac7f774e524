"""The header and claims of a token as plain data, unverified."""

from __future__ import annotations

from attest.encoding import JsonValue, base64url_bytes, json_value
from attest.errors import UnsupportedError
from attest.results.token_services import service_of

_Facts = dict[str, JsonValue]
_NOT_VERIFIED = "no: whoever wrote it may have written anything; 'attest verify --trust' checks the signature"


def token_facts(data: bytes) -> _Facts:
    """Describe a token: a JWT, or NVIDIA's array of them; errors by ``code`` as for evidence."""
    text = data.strip()
    if not text.startswith((b"[", b"{")):
        service = service_of(data)
        known: _Facts = {} if service is None else {"service": service}
        return {"signature_verified": _NOT_VERIFIED, **known, **_jwt(text.decode("ascii", errors="replace"))}
    match json_value(text, what="token"):
        case [["JWT", str(overall)], dict(submodules)] if all(isinstance(one, str) for one in submodules.values()):
            parts: _Facts = {name: _jwt(str(one)) for name, one in submodules.items()}
            return {"signature_verified": _NOT_VERIFIED, "service": "nras", **_jwt(overall), "submodules": parts}
    raise UnsupportedError(
        "a token of this shape is not read here",
        code="evidence-unsupported",
        expected="a JWT in compact form, or NVIDIA's array of them",
        got="another JSON document",
    )


def _jwt(text: str) -> _Facts:
    words = text.split(".")
    names = ("header", "claims")
    return {
        name: json_value(base64url_bytes(word, what=f"token: {name}"), what=f"token: {name}")
        for name, word in zip(names, words, strict=False)
    }
