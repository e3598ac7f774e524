"""Aliases: addresses of other protocols that lead to keys.

A resource of a Key Broker Service has the address ``kbs:///REPOSITORY/TYPE/TAG``: three segments of letters, digits,
``_``, ``-`` and, not first, ``.``.

Spec: specs/kbs-protocol.md, section 14.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from attest.errors import ConfigurationError
from attest.release import KeyName

KBS_SCHEME: Final = "kbs:///"
MAX_ADDRESS_CHARACTERS: Final = 512
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
    if not text.startswith(KBS_SCHEME) or not is_kbs_path(text.removeprefix(KBS_SCHEME)):
        raise ConfigurationError(
            f"{text[:200]!r} is not the address of a resource",
            code="alias-address-invalid",
            field="address",
            expected="kbs:///REPOSITORY/TYPE/TAG: letters, digits, '_', '-', and '.' except as the first character",
            got=repr(text[:200]),
        )
    return text
