"""Settings of a vault's key, stored beside it: release policy, operations, tags and times.

Spec: specs/azure-skr.md, sections 2 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import cast

from attest.encoding import JsonValue, base64url_bytes, base64url_text, json_value
from attest.errors import EvidenceError
from kms.domain.canonical_json import canonical_json


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultKeySettings:
    """Settings of every version of a key.

    Attributes:
        policy: the release policy in its stored form.
        address: of the key in the vault in which it was made, where callers may change it.
        immutable: True if the policy cannot be replaced any more.
        operations: ``key_ops``, which the service shows and does not use.
        not_before: Unix seconds; no release before this moment.
        expires: Unix seconds; no release from this moment on.
        updated: Unix seconds of the last change.
    """

    policy: bytes
    address: str
    immutable: bool = False
    operations: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    not_before: int | None = None
    expires: int | None = None
    updated: int = 0

    @property
    def policy_digest(self) -> bytes:
        """SHA-256 of the stored form of the release policy, 32 bytes."""
        return sha256(self.policy).digest()

    def to_bytes(self) -> bytes:
        """Return them in canonical JSON."""
        return canonical_json(
            {
                "policy": base64url_text(self.policy),
                "address": self.address,
                "immutable": self.immutable,
                "operations": list(self.operations),
                "tags": dict(self.tags),
                "not_before": self.not_before,
                "expires": self.expires,
                "updated": self.updated,
            }
        )

    @staticmethod
    def of_bytes(content: bytes) -> VaultKeySettings:
        """Read what ``to_bytes`` wrote.

        Raises:
            ValueError: it was altered.
            KeyError: as above.
            EvidenceError: as above.
        """
        members = cast("dict[str, JsonValue]", json_value(content, what="settings of a vault's key"))
        operations, tags = members["operations"], members["tags"]
        if not isinstance(operations, list) or not isinstance(tags, dict):
            raise EvidenceError("the settings of a vault's key are malformed", code="json-invalid")
        return VaultKeySettings(
            policy=base64url_bytes(str(members["policy"]), what="policy"),
            address=str(members["address"]),
            immutable=members["immutable"] is True,
            operations=tuple(map(str, operations)),
            tags={name: str(one) for name, one in tags.items()},
            not_before=_number(members["not_before"]),
            expires=_number(members["expires"]),
            updated=_number(members["updated"]) or 0,
        )


def _number(value: JsonValue) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError("expected an integer")
