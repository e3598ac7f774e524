"""Padded form of an opaque secret: a password, a URL, a token or a PEM, whose length no ciphertext shows.

::

    padded   0x01 ‖ length (4 bytes, big-endian) ‖ secret ‖ zeros, up to one of a few sizes

A secret is padded before its first encryption and stays so until the workload opens it, so that its forms in a
database, a backup, a file in transit and a release have the length of their size class. ``CAPACITIES`` are the classes:
a larger limit is one more class, and padded secrets of the smaller ones stay valid.
"""

from __future__ import annotations

from typing import Final

from attest.errors import ConfigurationError, EvidenceError

SECRET_PURPOSE: Final = "secret"  # noqa: S105  a word of the wire format
"""Purpose of opaque secrets in releases."""
CAPACITIES: Final = (4 * 1024, 64 * 1024, 1024 * 1024)
"""Largest secret of each size class, in bytes."""
MAX_SECRET_BYTES: Final = CAPACITIES[1]
"""Largest secret of an owner."""
MAX_RESOURCE_BYTES: Final = CAPACITIES[-1]
"""Largest resource of a Key Broker Service, which may also be empty."""
_FORMAT: Final = b"\x01"
_LENGTH_BYTES: Final = 4
_HEAD_BYTES: Final = len(_FORMAT) + _LENGTH_BYTES
PADDED_BYTES: Final = tuple(_HEAD_BYTES + capacity for capacity in CAPACITIES)
"""Lengths of padded secrets."""


def pad_secret(secret: bytes | bytearray | memoryview) -> bytearray:
    """Return the padded form of a secret, in memory that can be overwritten.

    Raises:
        ConfigurationError: ``secret-size-invalid``: it is empty, or longer than ``MAX_SECRET_BYTES``.
    """
    length = len(secret)
    if not 0 < length <= MAX_SECRET_BYTES:
        hint = "an empty secret is usually the output of a command that failed; put large data into a sealed file"
        raise _wrong_size(length, 1, MAX_SECRET_BYTES, hint)
    return _padded(secret)


def pad_resource(resource: bytes | bytearray | memoryview) -> bytearray:
    """Return the padded form of a resource of a Key Broker Service, as ``pad_secret``.

    Raises:
        ConfigurationError: ``secret-size-invalid``: it is longer than ``MAX_RESOURCE_BYTES``.
    """
    if len(resource) > MAX_RESOURCE_BYTES:
        raise _wrong_size(len(resource), 0, MAX_RESOURCE_BYTES, "put large data into a sealed file")
    return _padded(resource)


def _wrong_size(length: int, least: int, most: int, hint: str) -> ConfigurationError:
    return ConfigurationError(
        "the secret is empty" if not length else "the secret is too long",
        code="secret-size-invalid",
        field="secret",
        expected=f"{least} to {most} bytes",
        got="0 bytes" if not length else f"more than {most} bytes",
        hint=hint,
    )


def _padded(secret: bytes | bytearray | memoryview) -> bytearray:
    length = len(secret)
    padded = bytearray(next(size for size in PADDED_BYTES if length <= size - _HEAD_BYTES))
    padded[: len(_FORMAT)] = _FORMAT
    padded[len(_FORMAT) : _HEAD_BYTES] = length.to_bytes(_LENGTH_BYTES, "big")
    padded[_HEAD_BYTES : _HEAD_BYTES + length] = secret
    return padded


def unpad_secret(padded: bytes | bytearray | memoryview) -> bytes:
    """Return the secret of a padded form.

    Raises:
        EvidenceError: ``secret-padding-invalid``: another size, format, length or padding.
    """
    length = int.from_bytes(padded[len(_FORMAT) : _HEAD_BYTES], "big")
    end = _HEAD_BYTES + length
    fits = len(padded) in PADDED_BYTES and padded[: len(_FORMAT)] == _FORMAT and end <= len(padded)
    if not fits or any(padded[end:]):
        raise EvidenceError(
            "a secret is not in its padded form",
            code="secret-padding-invalid",
            field="secret",
            expected="format 1, in one of the sizes " + ", ".join(map(str, PADDED_BYTES)),
            hint="a newer service may release larger secrets than this version reads",
        )
    return bytes(padded[_HEAD_BYTES:end])
