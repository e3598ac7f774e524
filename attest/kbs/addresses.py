"""Addresses of resources: ``kbs:///REPOSITORY/TYPE/TAG``.

Spec: specs/kbs-protocol.md, section 14.
"""

from __future__ import annotations

import re
from typing import Final

from attest.errors import ConfigurationError

SCHEME: Final = "kbs:///"
_SEGMENT: Final = "[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_PATH: Final = re.compile(f"{_SEGMENT}/{_SEGMENT}/{_SEGMENT}", re.ASCII)
_MAX_CHARACTERS: Final = 512


def resource_path(address: str) -> str:
    """Return ``REPOSITORY/TYPE/TAG`` of an address.

    Raises:
        ConfigurationError: ``kbs-address-invalid``.
    """
    path = address.removeprefix(SCHEME)
    if path == address or len(address) > _MAX_CHARACTERS or not _PATH.fullmatch(path):
        raise ConfigurationError(
            f"{address[:80]!r} is no address of a resource",
            code="kbs-address-invalid",
            expected="kbs:///REPOSITORY/TYPE/TAG: letters, digits, '_', '-', and '.' except as the first character",
            got=address[:80],
            hint="expected kbs:///REPOSITORY/TYPE/TAG, with three slashes: --kbs names the service",
        )
    return path
