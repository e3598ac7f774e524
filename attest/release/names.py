"""Names of keys: tenant, id and version.

::

    KEY             a key of the tenant ``default``          KEY@3            its version 3
    TENANT/KEY      a key of another tenant                  TENANT/KEY@3     its version 3

Each name has one spelling: ``default/KEY``, ``KEY@03`` and capitals are invalid.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from attest.errors import ConfigurationError

DEFAULT_TENANT = "default"
KEY_ID_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,127}$"
"""The grammar keeps names safe in file systems, shells and queries, although they are never used there as text."""
TENANT_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}$"
KEY_REFERENCE_PATTERN = r"^([a-z0-9][a-z0-9._-]{0,63}/)?[a-z0-9][a-z0-9._-]{0,127}(@[1-9][0-9]{0,8})?$"
_KEY_ID = re.compile(KEY_ID_PATTERN[1:-1])
_TENANT = re.compile(TENANT_PATTERN[1:-1])
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_SHOWN = 210
"""Characters of an invalid name in messages; the longest valid name has fewer."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class KeyName:
    """A key's name, printed as ``KEY`` or ``TENANT/KEY``.

    Raises:
        ConfigurationError: ``tenant-invalid`` or ``key-id-invalid``.
    """

    tenant: str = DEFAULT_TENANT
    key_id: str

    def __post_init__(self) -> None:
        require_tenant(self.tenant)
        if not _KEY_ID.fullmatch(self.key_id):
            hint = "a key is named KEY, or TENANT/KEY when it is not of the tenant 'default'"
            raise _no_key_id(self.key_id, hint)

    @staticmethod
    def parse(text: str) -> KeyName:
        """Parse ``KEY`` or ``TENANT/KEY``.

        Raises:
            ConfigurationError: ``tenant-invalid`` or ``key-id-invalid``.
        """
        tenant, slash, key_id = text.partition("/")
        if not slash:
            return KeyName(key_id=text)
        if tenant == DEFAULT_TENANT:
            raise _no_key_id(text, f"a key of the tenant {DEFAULT_TENANT!r} is named only by its id: {key_id[:140]}")
        return KeyName(tenant=tenant, key_id=key_id)

    def __str__(self) -> str:
        return self.key_id if self.tenant == DEFAULT_TENANT else f"{self.tenant}/{self.key_id}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class KeyReference:
    """A reference to a key, optionally to a version, printed as a name or as ``NAME@VERSION``.

    Attributes:
        version: from 1; None for the current one.
    """

    name: KeyName
    version: int | None = None

    @staticmethod
    def parse(text: str) -> KeyReference:
        """Parse ``KEY``, ``TENANT/KEY``, or either with ``@VERSION``.

        Raises:
            ConfigurationError: ``tenant-invalid``, ``key-id-invalid`` or ``key-version-invalid``.
        """
        name, at, version = text.partition("@")
        if at and not _VERSION.fullmatch(version):
            raise ConfigurationError(
                f"{text[:_SHOWN]!r} is not a version of a key",
                code="key-version-invalid",
                expected="after '@' a number from 1 to 999999999, without leading zeros",
                got=repr(version[:20]),
            )
        return KeyReference(name=KeyName.parse(name), version=int(version) if at else None)

    def __str__(self) -> str:
        return str(self.name) if self.version is None else f"{self.name}@{self.version}"


def require_tenant(text: str) -> str:
    """Return a valid tenant name.

    Raises:
        ConfigurationError: ``tenant-invalid``.
    """
    if not _TENANT.fullmatch(text):
        raise ConfigurationError(
            f"{text[:_SHOWN]!r} is not a name of a tenant",
            code="tenant-invalid",
            expected="1 to 64 lower-case letters, digits, '.', '_' and '-', the first a letter or digit",
            got=repr(text[:_SHOWN]),
        )
    return text


def _no_key_id(text: str, hint: str) -> ConfigurationError:
    return ConfigurationError(
        f"{text[:_SHOWN]!r} is not a key id",
        code="key-id-invalid",
        expected="1 to 128 lower-case letters, digits, '.', '_' and '-', the first a letter or digit",
        got=repr(text[:_SHOWN]),
        hint=hint,
    )
