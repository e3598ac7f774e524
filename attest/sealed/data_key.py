"""The data key of a sealed directory, encrypted under a released key in the form of ``attest.sealed.manifest``."""

from __future__ import annotations

from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from attest.encoding import (
    cbor_bytes,
)
from attest.errors import ConfigurationError, SealedTamperError
from attest.release.names import KeyReference
from attest.release.notes import VerifierKey
from attest.sealed.cipher import KEY_BYTES
from attest.sealed.manifest import SealedManifest

_CONTEXT = "attest-sealed-key/v1"
_NONCE_BYTES = 12


def require_key(key: bytes) -> bytes:
    """Return a released key that can wrap data keys.

    Raises:
        ConfigurationError: ``sealed-key-length``.
    """
    if len(key) != KEY_BYTES:
        raise ConfigurationError(
            f"a model is sealed under a key of {KEY_BYTES} bytes, not {len(key)}",
            code="sealed-key-length",
            expected=f"{KEY_BYTES} bytes",
            got=f"{len(key)} bytes",
            hint="the key file must contain the raw bytes, as 'attest release' and 'attest sealed keygen' write them",
        )
    return key


def wrap_data_key(
    data_key: bytes,
    *,
    key: bytes,
    model: bytes,
    reference: KeyReference,
    service: VerifierKey | None,
    random: Callable[[int], bytes],
) -> bytes:
    """Encrypt a data key under a released key, as this version of it and for this model.

    Raises:
        ConfigurationError: ``sealed-key-length``.
    """
    nonce = random(_NONCE_BYTES)
    return nonce + _wrapping(key, model, reference, service).encrypt(nonce, require_key(data_key), None)


def unwrap_data_key(manifest: SealedManifest, *, key: bytes) -> bytes:
    """Open the data key of a directory, 32 bytes.

    Raises:
        SealedTamperError: ``sealed-key-mismatch``: another key, another version of it, or an altered manifest.
        ConfigurationError: ``sealed-key-length``.
    """
    cipher = _wrapping(key, manifest.model, manifest.key, manifest.service)
    nonce, wrapped = manifest.wrapped_key[:_NONCE_BYTES], manifest.wrapped_key[_NONCE_BYTES:]
    try:
        return cipher.decrypt(nonce, wrapped, None)
    except InvalidTag as exc:
        raise SealedTamperError(
            f"this key does not open the model: it is not {manifest.key}",
            code="sealed-key-mismatch",
            field="key",
            expected=str(manifest.key),
            hint=f"get {manifest.key} from its service; another version does not do",
        ) from exc


def _wrapping(key: bytes, model: bytes, reference: KeyReference, service: VerifierKey | None) -> AESGCM:
    context = cbor_bytes(
        {
            "context": _CONTEXT,
            "tenant": reference.name.tenant,
            "key_id": reference.name.key_id,
            "version": reference.version,
            "kms": None if service is None else service.text,
        }
    )
    return AESGCM(HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=model, info=context).derive(require_key(key)))
