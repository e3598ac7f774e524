"""Release policies in requests and answers.

Spec: specs/azure-skr.md, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from attest.encoding import JsonValue, base64url_bytes, base64url_text
from attest.errors import AttestError
from attest.policy import canonical_bytes, parse_skr
from kms.api.skr.errors import bad_parameter

CONTENT_TYPE: Final = "application/json; charset=utf-8"
_MEMBERS: Final = {"data", "contentType", "immutable"}
_URL_SAFE: Final = str.maketrans("+/", "-_")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPolicy:
    """A release policy of a request, in its stored form."""

    content: bytes
    immutable: bool


def read_release_policy(value: JsonValue, *, extended: bool) -> AskedPolicy:
    """Read the member ``release_policy``.

    Raises:
        SkrRefusal: 400, with what is wrong and where.
    """
    members = value if isinstance(value, dict) else {}
    data, immutable = members.get("data"), members.get("immutable", False)
    content_type = members.get("contentType", CONTENT_TYPE)
    if not isinstance(data, str) or not set(members) <= _MEMBERS or not isinstance(immutable, bool):
        raise bad_parameter("release_policy: expected data, and perhaps contentType and immutable", "skr-body-invalid")
    if not isinstance(content_type, str) or content_type.partition(";")[0].strip().lower() != "application/json":
        raise bad_parameter(f"release_policy.contentType: expected {CONTENT_TYPE}", "skr-body-invalid")
    if data.lstrip()[:1] == "{":
        text = "release_policy.data is JSON text; give the policy as bytes, which clients encode as base64url"
        raise bad_parameter(text, "skr-policy-not-encoded")
    try:
        raw = base64url_bytes(data.rstrip("=").translate(_URL_SAFE), what="release_policy.data")
        return AskedPolicy(content=canonical_bytes(parse_skr(raw, extended=extended)), immutable=immutable)
    except AttestError as exc:
        raise bad_parameter(exc.message, exc.code) from exc


def policy_members(content: bytes, *, immutable: bool) -> dict[str, JsonValue]:
    """Return a release policy as it is shown."""
    return {"contentType": CONTENT_TYPE, "data": base64url_text(content), "immutable": immutable}
