"""Names of keys and versions in this protocol.

A version has 32 hex digits: 24 of the SHA-256 of the key's name in this service, and the number of the version.

Spec: specs/azure-skr.md, section 4.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from attest.release import KeyName, KeyReference

_VERSION: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_NAME_DIGITS: Final = 24
_NUMBER_DIGITS: Final = 8


def version_id(name: KeyName, version: int) -> str:
    """Return the identifier of a version of a key."""
    return f"{_digits_of(name)}{version:0{_NUMBER_DIGITS}x}"


def is_version(text: str) -> bool:
    """Return whether this can be the identifier of a version, in any case."""
    return _VERSION.fullmatch(text.lower()) is not None


def reference_of(name: KeyName, version: str | None) -> KeyReference | None:
    """Return the key, or a version of it; None if the identifier is not one of this key's."""
    if version is None:
        return KeyReference(name=name)
    text = version.lower()
    number = int(text[_NAME_DIGITS:], 16) if is_version(text) else 0
    if not number or text[:_NAME_DIGITS] != _digits_of(name):
        return None
    return KeyReference(name=name, version=number)


def key_id(host: str, name: str, version: str | None) -> str:
    """Return the ``kid`` of a key or of a version."""
    kid = f"https://{host}/keys/{name}"
    return kid if version is None else f"{kid}/{version}"


def _digits_of(name: KeyName) -> str:
    return sha256(str(name).encode()).hexdigest()[:_NAME_DIGITS]
