"""Addresses of keys in a vault: ``https://VAULT/keys/NAME[/VERSION]``.

Spec: specs/azure-skr.md, section 4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from attest.errors import ConfigurationError

_ADDRESS: Final = re.compile(
    r"https://(?P<host>[0-9a-z](?:[0-9a-z.-]*[0-9a-z])?)(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"/keys/(?P<name>[0-9a-zA-Z-]{1,127})(?:/(?P<version>[0-9a-f]{32}))?/?",
    re.ASCII,
)
_HIGHEST_PORT: Final = 0xFFFF
_HTTPS_PORT: Final = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultKey:
    """A key of a vault.

    Attributes:
        host: DNS name of the vault, lower-case.
        version: 32 hex digits; None is the current one.
    """

    host: str
    port: int
    name: str
    version: str | None

    @staticmethod
    def parse(address: str) -> VaultKey:
        """Read an address; scheme and host in any case.

        Raises:
            ConfigurationError: ``skr-address-invalid``.
        """
        start, separator, path = address.partition("/keys/")
        found = _ADDRESS.fullmatch(f"{start.lower()}{separator}{path}") if address.isascii() else None
        port = int(found["port"] or _HTTPS_PORT) if found else 0
        if found is None or port > _HIGHEST_PORT:
            raise ConfigurationError(
                f"{address[:80]!r} is no address of a key in a vault",
                code="skr-address-invalid",
                expected="https://VAULT/keys/NAME or https://VAULT/keys/NAME/VERSION",
                got=address[:80],
                hint="expected https://VAULT/keys/NAME or https://VAULT/keys/NAME/VERSION (32 hex digits)",
            )
        return VaultKey(host=found["host"], port=port, name=found["name"], version=found["version"])

    @property
    def vault(self) -> str:
        """URL of the vault."""
        return f"https://{self.host}" if self.port == _HTTPS_PORT else f"https://{self.host}:{self.port}"

    @property
    def path(self) -> str:
        """Path of the key, without a slash at its end."""
        return f"keys/{self.name}" if self.version is None else f"keys/{self.name}/{self.version}"

    def __str__(self) -> str:
        return f"{self.vault}/{self.path}"

    def covers(self, other: VaultKey) -> bool:
        """Return True if another address is of this key, in this version if one is named. Names have no case."""
        same = (self.host, self.port, self.name.lower()) == (other.host, other.port, other.name.lower())
        return same and self.version in (None, other.version)
