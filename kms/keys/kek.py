"""The key-encryption key: one file that opens the whole database, and therefore lies apart from it.

::

    file     "attest-kms-kek-v1 " ‖ 43 characters of base64url (32 bytes) ‖ newline            mode 0600
    wrapped  0x01 (AES-256-GCM) ‖ nonce (12 bytes) ‖ ciphertext ‖ tag (16 bytes)

The associated data of a wrapped key names tenant, key id, version, purpose, algorithm and policy (``WrapContext``).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from attest.encoding import base64url_bytes, base64url_text
from attest.errors import ConfigurationError, EvidenceError
from kms.errors import IntegrityError
from kms.keys.records import WrapContext
from kms.keys.secret import EXPORT, SecretBytes

__all__ = ["KEK_BYTES", "KeyEncryptionKey", "RandomBytes", "create_kek_file", "read_kek_file"]

RandomBytes = Callable[[int], bytes]
"""Returns that many bytes nobody can predict; ``secrets.token_bytes`` at the edge."""

KEK_BYTES = 32
_HEAD = "attest-kms-kek-v1 "
_FILE_BYTES = len(_HEAD) + 43 + 1
_AES_256_GCM = b"\x01"
_NONCE_BYTES = 12
_ID_DOMAIN = b"attest kms kek id v1\0"
_HINT = "the file is written by 'kms init'; restore it from its backup, a new one cannot open the database"


class KeyEncryptionKey:
    """Wraps and unwraps keys. It shows its id and nothing else.

    Args:
        key: 32 secret bytes.
        random: where the 12-byte nonces come from.

    Raises:
        ValueError: another number of bytes.
    """

    def __init__(self, key: SecretBytes, *, random: RandomBytes) -> None:
        """Prepare the cipher."""
        if len(key) != KEK_BYTES:
            msg = f"a key-encryption key has {KEK_BYTES} bytes, got {len(key)}"
            raise ValueError(msg)
        content = key.export(EXPORT)
        self._cipher = AESGCM(content)
        self._random = random
        self.id = sha256(_ID_DOMAIN + content).digest()
        """32 bytes that tell one key from another and say nothing about either."""

    def wrap(self, secret: SecretBytes, *, context: WrapContext) -> bytes:
        """Encrypt a secret and tie it to its context."""
        nonce = self._random(_NONCE_BYTES)
        content = secret.export(EXPORT)
        return _AES_256_GCM + nonce + self._cipher.encrypt(nonce, content, context.associated_data())

    def unwrap(self, wrapped: bytes, *, context: WrapContext) -> SecretBytes:
        """Decrypt a secret that was wrapped under this key in this context.

        Raises:
            IntegrityError: ``wrapped-key-invalid``: altered, cut off, swapped, of another key or of another format.
        """
        head, nonce = wrapped[:1], wrapped[1 : 1 + _NONCE_BYTES]
        if head != _AES_256_GCM or len(nonce) != _NONCE_BYTES:
            raise _not_ours(context)
        try:
            content = self._cipher.decrypt(nonce, wrapped[1 + _NONCE_BYTES :], context.associated_data())
        except InvalidTag as exc:
            raise _not_ours(context) from exc
        return SecretBytes(content)

    def __repr__(self) -> str:
        """Show the beginning of the id."""
        return f"KeyEncryptionKey(id={self.id.hex()[:16]})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled or copied."""
        msg = "a key-encryption key is not pickled or copied"
        raise TypeError(msg)


def _not_ours(context: WrapContext) -> IntegrityError:
    return IntegrityError(
        f"the wrapped form of {context.key_id!r} version {context.version} does not open as what it is stored as",
        code="wrapped-key-invalid",
        field=context.key_id,
        hint="the database was altered or damaged; restore it from a backup",
    )


def create_kek_file(path: Path, *, random: RandomBytes) -> None:
    """Write a new key-encryption key, readable by its owner alone, and flush it to the disk.

    Raises:
        ConfigurationError: ``kek-file-exists`` (it is never overwritten) or ``kek-file-unusable``.
    """
    content = f"{_HEAD}{base64url_text(random(KEK_BYTES))}\n".encode("ascii")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError as exc:
        raise ConfigurationError(
            f"there is a file {path} already, and a key-encryption key is never overwritten",
            code="kek-file-exists",
            field="kek_file",
            hint="name another file, or keep using this one",
        ) from exc
    except OSError as exc:
        raise _unusable(path, exc.strerror or str(exc)) from exc
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_kek_file(path: Path, *, random: RandomBytes) -> KeyEncryptionKey:
    """Read a key-encryption key from a file that nobody else can read.

    Raises:
        ConfigurationError: ``kek-file-missing``, ``kek-file-unusable`` (a directory, a link, another owner),
            ``kek-file-exposed`` (others may read it) or ``kek-file-invalid`` (another content).
    """
    return KeyEncryptionKey(_parse(path, _read_private(path)), random=random)


def _read_private(path: Path) -> bytes:
    """Look at the file that is open, not at the one that now has this name."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as exc:
        raise ConfigurationError(
            f"there is no key-encryption key file {path}", code="kek-file-missing", field="kek_file", hint=_HINT
        ) from exc
    except OSError as exc:
        raise _unusable(path, exc.strerror or str(exc)) from exc
    try:
        _require_private(path, os.fstat(descriptor))
        return os.read(descriptor, _FILE_BYTES + 1)
    finally:
        os.close(descriptor)


def _require_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _unusable(path, "it is no regular file")
    if status.st_uid != os.geteuid():
        raise _unusable(path, f"it belongs to user {status.st_uid}, not to user {os.geteuid()}")
    if status.st_mode & 0o077:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        raise ConfigurationError(
            f"the key-encryption key file {path} is open to others (mode {mode})",
            code="kek-file-exposed",
            field="kek_file",
            expected="mode 0600 or 0400",
            got=mode,
            hint=f"chmod 600 {path}; if somebody may have read it, treat every key in the database as known",
        )


def _parse(path: Path, content: bytes) -> SecretBytes:
    """One line of one spelling. The content never goes into an error."""
    head, rest = content[: len(_HEAD)], content[len(_HEAD) :]
    key = _decoded(rest[:-1]) if len(content) == _FILE_BYTES and rest.endswith(b"\n") else None
    if head == _HEAD.encode() and key is not None:
        return SecretBytes(key)
    raise ConfigurationError(
        f"{path} is no key-encryption key file",
        code="kek-file-invalid",
        field="kek_file",
        expected=f"{_FILE_BYTES} bytes that begin with {_HEAD.strip()!r}",
        got=f"{len(content)} bytes" if len(content) <= _FILE_BYTES else f"more than {_FILE_BYTES} bytes",
        hint=_HINT,
    )


def _decoded(text: bytes) -> bytes | None:
    """Decode, or return None: an exception would hold the text, and the error must not be chained to it."""
    try:
        return base64url_bytes(text.decode("ascii"), what="key-encryption key")
    except (EvidenceError, UnicodeDecodeError):
        return None


def _unusable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the key-encryption key file {path} cannot be used: {problem}",
        code="kek-file-unusable",
        field="kek_file",
        got=problem,
        hint="it is a file of the user that runs the service, of mode 0600",
    )
