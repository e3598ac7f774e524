"""The cryptography of a sealed file: its header, its derived key, and single segments.

::

    header  = 0x28 (its own length, 40) ‖ salt (32) ‖ nonce prefix (7)
    key'    = HKDF-SHA256(ikm = key, salt = salt, info = associated data, 32 bytes)
    segment = AES-256-GCM(key', nonce, content, no associated data)
    nonce   = nonce prefix (7) ‖ index (4, big-endian) ‖ 0x01 for the file's last segment, otherwise 0x00

The associated data enters through the key alone, and the header through key and nonces: another file name, another salt
and another prefix all fail at the first verified tag. The last byte of the nonce authenticates the end of the file.

Spec: Tink, Streaming AEAD, AES-GCM-HKDF streaming; RFC 5869.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from attest.errors import SealedFileError, SealedTamperError
from attest.sealed.layout import (
    FIRST_PLAINTEXT_BYTES,
    HEADER_BYTES,
    MAX_SEGMENTS,
    PLAINTEXT_BYTES,
    TAG_BYTES,
)

KEY_BYTES = 32
SALT_BYTES = 32
NONCE_PREFIX_BYTES = 7
_INDEX_BYTES = 4
_ENDS = (b"\x00", b"\x01")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHeader:
    """Public header before segment 0: a salt of 32 bytes, unique to the file's key, and a nonce prefix of 7 bytes."""

    salt: bytes
    nonce_prefix: bytes

    def __post_init__(self) -> None:
        """Refuse other lengths (``ValueError``)."""
        if len(self.salt) != SALT_BYTES or len(self.nonce_prefix) != NONCE_PREFIX_BYTES:
            raise ValueError(f"salt and nonce prefix are {SALT_BYTES} and {NONCE_PREFIX_BYTES} bytes")

    @staticmethod
    def parse(raw: bytes) -> FileHeader:
        """Parse the first 40 bytes of a sealed file.

        Raises:
            SealedFileError: ``sealed-header-invalid``: another length, stated or actual.
        """
        if len(raw) != HEADER_BYTES or raw[0] != HEADER_BYTES:
            got = f"{len(raw)} bytes" + (f" that begin with {raw[0]:#04x}" if raw else "")
            raise SealedFileError(
                f"not the header of a sealed file: expected {HEADER_BYTES} bytes that begin with {HEADER_BYTES:#04x}, "
                f"got {got}",
                code="sealed-header-invalid",
                offset=0,
                expected=f"{HEADER_BYTES} bytes that begin with {HEADER_BYTES:#04x}",
                got=got,
                clause="Tink, AES-GCM-HKDF streaming, header",
                hint="is this file sealed?",
            )
        return FileHeader(salt=bytes(raw[1 : 1 + SALT_BYTES]), nonce_prefix=bytes(raw[1 + SALT_BYTES :]))

    @staticmethod
    def fresh(random: Callable[[int], bytes]) -> FileHeader:
        """Generate the header of a new file. Each file needs its own, also after a rewrite."""
        return FileHeader(salt=random(SALT_BYTES), nonce_prefix=random(NONCE_PREFIX_BYTES))

    def __bytes__(self) -> bytes:
        return bytes((HEADER_BYTES,)) + self.salt + self.nonce_prefix


class SegmentCipher:
    """Cipher for the segments of one file, in any order; thread-safe.

    Args:
        key: 32 bytes, the data key.
        associated_data: context of the file, any bytes; opening needs the same.

    Raises:
        ValueError: a key of another length.
    """

    __slots__ = ("_aead", "_prefix")

    def __init__(self, key: bytes, header: FileHeader, associated_data: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a data key has {KEY_BYTES} bytes, not {len(key)}")
        derived = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=header.salt, info=associated_data).derive(key)
        self._aead = AESGCM(derived)
        self._prefix = header.nonce_prefix

    def encrypt_into(
        self,
        index: int,
        last: bool,  # noqa: FBT001 - as in the nonce: prefix, index, last
        plaintext: bytes | bytearray | memoryview,
        buffer: memoryview | bytearray,
    ) -> None:
        """Encrypt a segment's content; a header and index must never be reused for other content.

        Args:
            index: of the segment, from 0.
            last: it is the file's last segment.
            plaintext: its content, within the segment's capacity; all but the last are full.
            buffer: receives ciphertext and tag; exactly 16 bytes longer. It may start where the content starts.

        Raises:
            ValueError: an impossible size or index.
        """
        room = PLAINTEXT_BYTES if index else FIRST_PLAINTEXT_BYTES
        size = len(plaintext)
        if size > room or (size < room and not last) or (size == 0 and index > 0):
            raise ValueError(f"segment {index} holds {room} bytes, the last one 1 to {room}: got {size}")
        self._aead.encrypt_into(self._nonce(index, last), plaintext, None, buffer)

    def decrypt_into(
        self,
        index: int,
        last: bool,  # noqa: FBT001 - as in encrypt_into
        ciphertext: bytes | bytearray | memoryview,
        buffer: memoryview | bytearray,
    ) -> None:
        """Verify a segment and decrypt it. No unverified byte remains in ``buffer`` at the end, also after an error.

        During the call the buffer holds unverified bytes, so no other thread may read it.

        Args:
            index: of the segment, from 0.
            last: it is the file's last segment, by the file's size.
            ciphertext: of the segment, with its tag.
            buffer: receives the content; exactly 16 bytes shorter. It may start where the ciphertext starts.

        Raises:
            SealedTamperError: ``sealed-segment-invalid``: altered, or for another position, file, key or
                associated data.
            ValueError: another buffer size, or an impossible index.
        """
        nonce = self._nonce(index, last)
        if len(ciphertext) != len(buffer) + TAG_BYTES:
            raise ValueError(f"{len(ciphertext)} bytes of ciphertext do not decrypt to {len(buffer)}")
        try:
            self._aead.decrypt_into(nonce, ciphertext, None, buffer)
        except InvalidTag as exc:
            # The library writes the decrypted bytes before it checks the tag.
            buffer[:] = bytes(len(buffer))
            raise SealedTamperError(
                f"segment {index} does not verify: the file was altered or cut, or it was sealed under another key or "
                "for another place",
                code="sealed-segment-invalid",
                field=f"segment {index}",
                clause="Tink, AES-GCM-HKDF streaming, ciphertext segments",
                hint="compare key, name and model with those it was sealed for; fetch the file again",
            ) from exc

    def _nonce(self, index: int, last: bool) -> bytes:  # noqa: FBT001 - as in encrypt_into
        if not 0 <= index < MAX_SEGMENTS:
            raise ValueError(f"no segment has the index {index}")
        return self._prefix + index.to_bytes(_INDEX_BYTES, "big") + _ENDS[last]

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SegmentCipher does not leave its process")
