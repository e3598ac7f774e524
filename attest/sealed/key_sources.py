"""Keys of sealed models from wherever they come: bytes, a function, or a session with a key-release service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from attest.sealed.manifest import SealedManifest

__all__ = ["KeyMaterial", "KeyProvider", "KeySource", "key_source"]

KeySource = Callable[[SealedManifest], bytes]
"""Obtains the key that a verified manifest names: from a service, say."""


class KeyMaterial(Protocol):
    """A key that is more than its bytes; an ``attest.SessionKey`` is one."""

    @property
    def material(self) -> memoryview:
        """The bytes."""
        ...


@runtime_checkable
class KeyProvider(Protocol):
    """Gives keys by their references; an ``attest.Session`` is one."""

    def key(self, name: str, /) -> bytes | KeyMaterial:
        """Return the key of a reference such as ``team/model@3``."""
        ...


def key_source(key: bytes | KeySource | KeyProvider) -> bytes | KeySource:
    """Return what ``open_directory`` takes as ``key``.

    Args:
        key: 32 bytes; or a function that gets the verified manifest; or an object whose ``key(name)`` gives them.

    Raises:
        TypeError: anything else. Never text, which would end up in files, addresses and the environment.
    """
    if isinstance(key, bytes):
        return key
    if isinstance(key, KeyProvider):
        ring = key

        def from_keyring(manifest: SealedManifest) -> bytes:
            found = ring.key(str(manifest.key))
            return found if isinstance(found, bytes) else bytes(found.material)

        return from_keyring
    if callable(key):
        return key
    msg = f"key must be bytes, a function of the manifest, or an object with key(name), not {type(key).__name__}"
    raise TypeError(msg)
