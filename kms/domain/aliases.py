"""Aliases: addresses of other protocols that lead to keys.

A resource of a Key Broker Service has the address ``kbs:///REPOSITORY/TYPE/TAG``: three segments of letters, digits,
``_``, ``-`` and, not first, ``.``. A key of a vault has the address ``https://VAULT[:PORT]/keys/NAME``.

Spec: specs/kbs-protocol.md, section 14; specs/azure-skr.md, section 4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from attest.errors import ConfigurationError
from attest.policy import parse_issuer
from attest.release import KeyName

KBS_SCHEME: Final = "kbs:///"
MAX_ADDRESS_CHARACTERS: Final = 512
_VAULT_KEYS: Final = "/keys/"
_VAULT_NAME: Final = re.compile(r"[0-9A-Za-z-]{1,127}", re.ASCII)
_SEGMENT: Final = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_KBS_PATH: Final = re.compile(rf"{_SEGMENT}/{_SEGMENT}/{_SEGMENT}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """An address that leads to a key."""

    address: str
    key: KeyName


def is_kbs_path(path: str) -> bool:
    """Return whether ``REPOSITORY/TYPE/TAG`` can be the path of a resource."""
    return len(path) <= MAX_ADDRESS_CHARACTERS - len(KBS_SCHEME) and _KBS_PATH.fullmatch(path) is not None


def kbs_address(path: str) -> str:
    """Return the address of the resource ``REPOSITORY/TYPE/TAG``."""
    return KBS_SCHEME + path


def require_address(text: str) -> str:
    """Return an address in its one spelling.

    Raises:
        ConfigurationError: ``alias-address-invalid``.
    """
    if not (text.startswith(KBS_SCHEME) and is_kbs_path(text.removeprefix(KBS_SCHEME))) and not _is_of_vault(text):
        raise ConfigurationError(
            f"{text[:200]!r} is not the address of a resource or of a vault's key",
            code="alias-address-invalid",
            field="address",
            expected="kbs:///REPOSITORY/TYPE/TAG: letters, digits, '_', '-', and '.' except as the first character; "
            "or https://VAULT/keys/NAME in lower case, NAME of letters, digits and '-'",
            got=repr(text[:200]),
        )
    return text


def is_vault_name(name: str) -> bool:
    """Return whether a key of a vault can have this name."""
    return _VAULT_NAME.fullmatch(name) is not None


def vault_address(host: str, name: str) -> str:
    """Return the address of a vault's key; ``host`` with its port, unless that is 443."""
    return f"https://{host}{_VAULT_KEYS}{name}"


def _is_of_vault(text: str) -> bool:
    """Return whether this is the address of a vault's key, in its one spelling."""
    place, _, name = text.rpartition(_VAULT_KEYS)
    vault = parse_issuer(place)
    return (
        len(text) <= MAX_ADDRESS_CHARACTERS
        and vault is not None
        and (vault.scheme, vault.path, str(vault)) == ("https", "", place)
        and is_vault_name(name)
    )
