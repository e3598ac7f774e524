"""Sources of keys of sealed models: bytes, a function, or a session with a key-release service."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, runtime_checkable

from attest.errors import ConfigurationError
from attest.sealed.manifest import SealedManifest

MODEL_PURPOSE: Final = "model-key"

KeySource = Callable[[SealedManifest], bytes]
"""Obtains the key that a verified manifest names, for example from a service."""


class KeyMaterial(Protocol):
    """A key with attributes, such as ``attest.SessionKey``."""

    @property
    def material(self) -> memoryview:
        """The bytes."""
        ...


@runtime_checkable
class KeyProvider(Protocol):
    """A source of keys by reference, such as ``attest.Session``."""

    def key(self, name: str, /) -> bytes | KeyMaterial:
        """Return the key of a reference such as ``team/model@3``."""
        ...


def key_source(key: bytes | KeySource | KeyProvider) -> KeySource:
    """Return a source of keys for ``open_directory``.

    The key is 32 bytes; or a function of the verified manifest; or an object with ``key(name)``.

    Raises:
        TypeError: any other type. Text is refused, since it would end up in files, addresses and the environment.
    """
    if isinstance(key, bytes):
        return lambda _: key
    if isinstance(key, KeyProvider):
        return partial(_provided, key)
    if callable(key):
        return key
    raise TypeError(
        f"key must be bytes, a function of the manifest, or an object with key(name), not {type(key).__name__}"
    )


def _provided(provider: KeyProvider, manifest: SealedManifest) -> bytes:
    found = provider.key(str(manifest.key))
    if isinstance(found, bytes):
        return found
    require_model_key(str(manifest.key), purpose=getattr(found, "purpose", MODEL_PURPOSE))
    return bytes(found.material)


def require_model_key(name: str, *, purpose: str) -> None:
    """Refuse a released key or secret that is not for models.

    Raises:
        ConfigurationError: ``sealed-key-purpose``.
    """
    if purpose != MODEL_PURPOSE:
        raise ConfigurationError(
            f"{name} is a {purpose}, which seals no model",
            code="sealed-key-purpose",
            field=name,
            expected=MODEL_PURPOSE,
            got=purpose,
            hint="name a key that 'kms key create' or 'kms key import' made for models",
        )
