"""Bodies of requests that make and change keys.

Spec: specs/azure-skr.md, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from attest.encoding import JsonValue, json_value
from attest.errors import AttestError
from kms.api.body import MAX_VALUES
from kms.api.skr.errors import bad_parameter
from kms.api.skr.policies import AskedPolicy, read_release_policy

Document = Mapping[str, JsonValue]
MAX_TAGS: Final = 15
MAX_TEXT: Final = 256
MAX_SECONDS: Final = 253_402_300_799
"""The last second of the year 9999."""
_OPERATIONS: Final = frozenset(
    {"encrypt", "decrypt", "sign", "verify", "wrapKey", "unwrapKey", "import", "export", "deriveKey"}
)
_ATTRIBUTES: Final = frozenset({"enabled", "nbf", "exp", "exportable"})
_SHOWN_ATTRIBUTES: Final = frozenset(
    {"created", "updated", "recoveryLevel", "recoverableDays", "hsmPlatform", "attestation"}
)
"""Those that clients read back and may send again; they are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAttributes:
    """The attributes, operations, tags and policy of a request; None for what it does not state."""

    enabled: bool | None
    exportable: bool | None
    not_before: int | None
    expires: int | None
    operations: tuple[str, ...] | None
    tags: Mapping[str, str] | None
    policy: AskedPolicy | None


def read_object(body: bytes, known: frozenset[str]) -> dict[str, JsonValue]:
    """Read a body: a JSON object with known members only.

    Raises:
        SkrRefusal: 400 ``skr-body-invalid``.
    """
    try:
        found = json_value(body, what="the body", most=MAX_VALUES)
    except AttestError as exc:
        raise bad_parameter(exc.message, "skr-body-invalid") from exc
    if not isinstance(found, dict):
        raise bad_parameter("the body is no JSON object", "skr-body-invalid")
    if unknown := set(found) - known:
        raise bad_parameter(f"the body has the unknown member {min(unknown)[:80]!r}", "skr-body-invalid")
    return found


def read_attributes(members: Document, operations: JsonValue, *, extended: bool) -> AskedAttributes:
    """Read what create, import and update share.

    Raises:
        SkrRefusal: 400.
    """
    attributes = members.get("attributes")
    attributes = {} if attributes is None else attributes
    if not isinstance(attributes, dict) or not set(attributes) <= _ATTRIBUTES | _SHOWN_ATTRIBUTES:
        raise bad_parameter("attributes: expected an object of known attributes", "skr-body-invalid")
    policy = members.get("release_policy")
    return AskedAttributes(
        enabled=_switch(attributes, "enabled"),
        exportable=_switch(attributes, "exportable"),
        not_before=_seconds(attributes, "nbf"),
        expires=_seconds(attributes, "exp"),
        operations=_operations(operations),
        tags=_tags(members.get("tags")),
        policy=None if policy is None else read_release_policy(policy, extended=extended),
    )


def text_of(members: Document, name: str) -> str | None:
    """Return an optional text.

    Raises:
        SkrRefusal: 400 ``skr-body-invalid``.
    """
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise bad_parameter(f"{name}: expected text", "skr-body-invalid")
    return value


def number_of(members: Document, name: str) -> int | None:
    """Return an optional integer; as ``text_of``."""
    value = members.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise bad_parameter(f"{name}: expected an integer", "skr-body-invalid")
    return value


def _switch(members: Document, name: str) -> bool | None:
    value = members.get(name)
    if value is not None and not isinstance(value, bool):
        raise bad_parameter(f"attributes.{name}: expected true or false", "skr-body-invalid")
    return value


def _seconds(members: Document, name: str) -> int | None:
    value = number_of(members, name)
    if value is not None and not 0 <= value <= MAX_SECONDS:
        raise bad_parameter(f"attributes.{name}: expected Unix seconds", "skr-body-invalid")
    return value


def _operations(value: JsonValue) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) and one in _OPERATIONS for one in value):
        raise bad_parameter(f"key_ops: expected some of {', '.join(sorted(_OPERATIONS))}", "skr-body-invalid")
    return tuple(dict.fromkeys(map(str, value)))


def _tags(value: JsonValue) -> Mapping[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or len(value) > MAX_TAGS:
        raise bad_parameter(f"tags: expected an object of at most {MAX_TAGS} tags", "skr-body-invalid")
    tags = {name: one for name, one in value.items() if isinstance(one, str)}
    if len(tags) != len(value) or any(max(len(name), len(one)) > MAX_TEXT for name, one in tags.items()):
        raise bad_parameter(f"tags: expected texts of at most {MAX_TEXT} characters", "skr-body-invalid")
    return tags
