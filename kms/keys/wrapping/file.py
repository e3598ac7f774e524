"""Key-encryption key in a file, which unwraps the whole database and must be stored apart from it.

::

    file     "attest-kms-kek-v1 " ‖ 43 characters of base64url (32 bytes) ‖ newline            mode 0600
    wrapped  0x01 (AES-256-GCM) ‖ nonce (12 bytes) ‖ ciphertext ‖ tag (16 bytes)

The associated data of a wrapped key names tenant, key id, version, purpose, algorithm and policy (``WrapContext``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from attest.encoding import base64url_bytes, base64url_text
from attest.errors import ConfigurationError, EvidenceError, OutputError
from attest.unfinished_file import UnfinishedFile, unfinished_file
from kms.domain.kek import RandomBytes
from kms.domain.kek_records import Backend
from kms.domain.secret import EXPORT, SecretBytes
from kms.keys.wrapping.backend import NotCopied, NotOpenedError
from kms.keys.wrapping.secret_files import PrivateFile, unusable

KEK_BYTES = 32
_HEAD = "attest-kms-kek-v1 "
_FILE_BYTES = len(_HEAD) + 43 + 1
_AES_256_GCM = b"\x01"
_NONCE_BYTES = 12
_OVERHEAD_BYTES = 1 + _NONCE_BYTES + 16
_ID_DOMAIN = b"attest kms kek id v1\0"
_HINT = "restore the file of 'kms init' from its backup; a new file cannot unwrap the keys in the database"


class FileBackend(NotCopied):
    """AES-256-GCM in this process, under a key of 32 bytes from a file; ``random`` is the source of nonces.

    Raises:
        ValueError: wrong length.
    """

    kind: Final = Backend.FILE

    def __init__(self, key: SecretBytes, *, random: RandomBytes, path: Path) -> None:
        if len(key) != KEK_BYTES:
            raise ValueError(f"a key-encryption key has {KEK_BYTES} bytes, got {len(key)}")
        self._cipher = key.lend(EXPORT, AESGCM)
        self._random = random
        self._id = key.lend(EXPORT, _id_of)
        self.description = str(path)

    @property
    def derived_id(self) -> bytes:
        """A hash of the key."""
        return self._id

    def seal(self, content: bytes | memoryview, *, associated_data: bytes) -> bytes:
        """Encrypt under a new nonce."""
        nonce = self._random(_NONCE_BYTES)
        return _AES_256_GCM + nonce + self._cipher.encrypt(nonce, content, associated_data)

    def open(self, sealed: bytes, *, associated_data: bytes) -> bytearray:
        """Decrypt."""
        if sealed[:1] != _AES_256_GCM or len(sealed) < _OVERHEAD_BYTES:
            raise NotOpenedError
        nonce, rest = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        opened = bytearray(len(sealed) - _OVERHEAD_BYTES)
        try:
            self._cipher.decrypt_into(nonce, rest, associated_data, opened)
        except InvalidTag as exc:
            opened[:] = bytes(len(opened))  # it was written before the tag was compared
            raise NotOpenedError from exc
        return opened

    def close(self) -> None:
        """Do nothing."""


def _id_of(key: memoryview) -> bytes:
    digest = sha256(_ID_DOMAIN)
    digest.update(key)
    return digest.digest()


def create_kek_file(path: Path, *, random: RandomBytes) -> None:
    """Write a new key-encryption key, readable by its owner alone, and flush it and its name to the disk.

    Raises:
        ConfigurationError: ``kek-file-exists`` (it is never overwritten) or ``kek-file-unusable``.
    """
    with drafting_kek(path) as draft:
        draft.make(random=random)
        draft.place()


@dataclass(frozen=True, slots=True, kw_only=True)
class KekDraft:
    """An unfinished key-encryption key file."""

    draft: UnfinishedFile

    def left(self, *, random: RandomBytes) -> FileBackend | None:
        """Return the complete key that an interrupted process left, or None."""
        try:
            key = _parse(self.draft.file, self.draft.content(_FILE_BYTES + 1))
        except ConfigurationError:
            return None
        return FileBackend(key, random=random, path=self.draft.path)

    def make(self, *, random: RandomBytes) -> FileBackend:
        """Put a new key into it, and on the disk."""
        key = SecretBytes(random(KEK_BYTES))
        text = key.lend(EXPORT, lambda view: base64url_text(bytes(view)))
        self.draft.write(f"{_HEAD}{text}\n".encode("ascii"))
        return FileBackend(key, random=random, path=self.draft.path)

    def place(self) -> None:
        """Give it its name.

        Raises:
            ConfigurationError: ``kek-file-exists`` or ``kek-file-unusable``.
        """
        with _output_errors(self.draft.path):
            self.draft.place()

    def discard(self) -> None:
        """Delete it: nothing was wrapped under it."""
        self.draft.discard()


@contextmanager
def drafting_kek(path: Path) -> Iterator[KekDraft]:
    """Start a key-encryption key file, or continue one that an interrupted process left.

    Raises:
        ConfigurationError: ``kek-file-exists`` (it is never overwritten) or ``kek-file-unusable``.
    """
    with ExitStack() as stack:
        with _output_errors(path):
            draft = stack.enter_context(unfinished_file(path))
        yield KekDraft(draft=draft)


@contextmanager
def _output_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OutputError as exc:
        if exc.code != "output-exists":
            raise unusable(_file(path), exc.reason) from exc
        raise ConfigurationError(
            f"the file {path} already exists, and a key-encryption key is never overwritten",
            code="kek-file-exists",
            field="kek_file",
            hint="name another file, or use this one: a file with this name was registered in a database, even if the "
            "command was interrupted",
        ) from exc


def read_kek_file(path: Path, *, random: RandomBytes) -> FileBackend:
    """Read a key-encryption key from a file that is private to its owner.

    Raises:
        ConfigurationError: ``kek-file-missing``, ``kek-file-unusable`` (a directory, a link, another owner),
            ``kek-file-exposed`` (other users can read it) or ``kek-file-invalid`` (wrong content).
    """
    with _parse(path, _file(path).read(_FILE_BYTES + 1)) as key:
        return FileBackend(key, random=random, path=path)


def _file(path: Path) -> PrivateFile:
    return PrivateFile(
        path=path,
        noun="key-encryption key file",
        codes=("kek-file-missing", "kek-file-unusable", "kek-file-exposed"),
        field="kek_file",
        hint=_HINT,
        exposed="if another user may have read it, treat every key in the database as compromised",
    )


def _parse(path: Path, content: bytes) -> SecretBytes:
    """Read one line in canonical form. Errors never contain the content."""
    head, rest = content[: len(_HEAD)], content[len(_HEAD) :]
    key = _decoded(rest[:-1]) if len(content) == _FILE_BYTES and rest.endswith(b"\n") else None
    if head == _HEAD.encode() and key is not None:
        return SecretBytes(key)
    raise ConfigurationError(
        f"{path} is not a key-encryption key file",
        code="kek-file-invalid",
        field="kek_file",
        expected=f"{_FILE_BYTES} bytes that start with {_HEAD.strip()!r}",
        got=f"{len(content)} bytes" if len(content) <= _FILE_BYTES else f"more than {_FILE_BYTES} bytes",
        hint=_HINT,
    )


def _decoded(text: bytes) -> bytes | None:
    """Decode, or return None: an exception would contain the text, and the error must not be chained to it."""
    try:
        return base64url_bytes(text.decode("ascii"), what="key-encryption key")
    except (EvidenceError, UnicodeDecodeError):
        return None
