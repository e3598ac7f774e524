"""Key bundles: what the protocol shows of a key. No private member is among them.

Spec: specs/azure-skr.md, sections 4 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from attest.encoding import JsonValue
from kms.api.skr.identifiers import key_id, version_id
from kms.api.skr.policies import policy_members
from kms.domain.keys import KeyPurpose, KeyRecord
from kms.domain.vault_keys import VaultKeySettings

_KINDS: Mapping[KeyPurpose, str] = {
    KeyPurpose.MODEL_KEY: "oct-HSM",
    KeyPurpose.SKR_OCT: "oct-HSM",
    KeyPurpose.SKR_RSA: "RSA-HSM",
    KeyPurpose.SKR_EC: "EC-HSM",
}
_DAY_SECONDS = 86_400


def is_shown(record: KeyRecord) -> bool:
    """Return whether the protocol has a form for such a key."""
    return record.purpose in _KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultView:
    """A key as its vault shows it.

    Attributes:
        host: of the vault, with its port.
        name: of the key in the vault.
        public: returns its public members, for which the key is unwrapped.
        destroy_delay_seconds: time for which a deleted key can be restored.
    """

    host: str
    name: str
    record: KeyRecord
    settings: VaultKeySettings
    public: Callable[[], Mapping[str, str]]
    destroy_delay_seconds: int

    @property
    def kid(self) -> str:
        """The identifier of this version."""
        return key_id(self.host, self.name, version_id(self.record.name, self.record.version))

    def bundle(self, **more: JsonValue) -> dict[str, JsonValue]:
        """Return the bundle; ``more`` are further members of the key."""
        tags: dict[str, JsonValue] = {"tags": dict(self.settings.tags)} if self.settings.tags else {}
        return {
            "key": {
                "kid": self.kid,
                "kty": _KINDS[self.record.purpose],
                "key_ops": list(self.settings.operations),
                **self.public(),
                **more,
            },
            "attributes": self.attributes(),
            **tags,
            "release_policy": policy_members(self.settings.policy, immutable=self.settings.immutable),
        }

    def item(self, *, versioned: bool) -> dict[str, JsonValue]:
        """Return the entry of a list."""
        kid = self.kid if versioned else key_id(self.host, self.name, None)
        tags: dict[str, JsonValue] = {"tags": dict(self.settings.tags)} if self.settings.tags else {}
        return {"kid": kid, "attributes": self.attributes(), **tags}

    def attributes(self) -> dict[str, JsonValue]:
        """Return the attributes."""
        record, settings = self.record, self.settings
        created = int(record.created_at.timestamp())
        times = {"nbf": settings.not_before, "exp": settings.expires}
        return {
            "enabled": record.enabled and record.version_enabled,
            **{name: one for name, one in times.items() if one is not None},
            "created": created,
            "updated": max(created, settings.updated),
            "recoveryLevel": "Recoverable",
            "recoverableDays": self.destroy_delay_seconds // _DAY_SECONDS,
            "exportable": True,
        }


def list_of(items: Iterable[Mapping[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return a list of keys or of versions, which is always whole."""
    return {"value": [dict(one) for one in items], "nextLink": None}
