"""C2SP signed notes with Ed25519: the signatures of a key-release service.

::

    text, ending in a newline
                                    an empty line
    — <name> <base64( key id (4 bytes) ‖ signature (64 bytes) )>

A verifier key is one line of text, ``name+keyid+base64(0x01 ‖ public key)``; it identifies a service.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import ClassVar, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from attest.encoding import base64_bytes
from attest.errors import ConfigurationError, EvidenceError, SignatureError

MAX_NOTE_BYTES = 1024 * 1024
MAX_SIGNATURES = 100
"""The limit of Go's reader."""
_KEY_ID_BYTES = 4
_PUBLIC_BYTES = 32
_AMBIGUOUS = re.compile("[\x00-\x09\x0b-\x1f\ud800-\udfff]")
"""Control characters, and surrogates, which UTF-8 does not have."""
_NAME = re.compile(r"[^\s+]{1,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedKey:
    """A named Ed25519 key of one kind.

    Attributes:
        name: the signer's name, without white space and ``+``.
        public: 32 bytes.
    """

    KIND: ClassVar[bytes]
    """The type byte."""

    name: str
    public: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``name+keyid+base64``.

        Raises:
            ConfigurationError: ``verifier-key-invalid``, also for a key of another kind.
        """
        parts = text.strip().split("+", 2)
        try:
            name, identity, encoded = parts
            blob = base64_bytes(encoded, what="verifier key")
        except (ValueError, EvidenceError) as exc:
            raise _bad_key("expected name+keyid+base64") from exc
        if not _NAME.fullmatch(name) or blob[:1] != cls.KIND or len(blob) != 1 + _PUBLIC_BYTES:
            raise _bad_key(f"expected a name without white space and an Ed25519 key of type {cls.KIND.hex()}")
        key = cls(name=name, public=blob[1:])
        if key.key_id.hex() != identity:
            raise _bad_key("the key id does not belong to this name and key")
        return key

    @property
    def key_id(self) -> bytes:
        """The first 4 bytes of SHA-256( name ‖ newline ‖ type byte ‖ public key )."""
        return sha256(self.name.encode() + b"\n" + self.KIND + self.public).digest()[:_KEY_ID_BYTES]

    @property
    def text(self) -> str:
        """The key as one line."""
        return f"{self.name}+{self.key_id.hex()}+{_base64(self.KIND + self.public)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierKey(NamedKey):
    """The key of a service or a log."""

    KIND: ClassVar[bytes] = b"\x01"

    def verify(self, note: str) -> str:
        """Return the text of a note that this key signed; lines of other signers are ignored.

        Raises:
            SignatureError: ``note-signature-invalid``: no line of this key, or an invalid one.
        """
        text, lines = open_note(note)
        mine = [line for line in lines if (line.name, line.key_id) == (self.name, self.key_id)]
        if not mine or not all(self._signed(text, line.signature) for line in mine):
            raise SignatureError(
                f"the note is not signed by {self.name}",
                code="note-signature-invalid",
                expected=f"an Ed25519 signature of {self.name}",
                got="none that verifies",
                clause="C2SP signed-note",
            )
        return text

    def _signed(self, text: str, signature: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, text.encode())
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureLine:
    """A signature line of a note, not verified.

    Attributes:
        key_id: 4 bytes.
        signature: bytes whose form depends on the kind of key.
    """

    name: str
    key_id: bytes
    signature: bytes


def open_note(note: str) -> tuple[str, tuple[SignatureLine, ...]]:
    """Split a note into its text and its signature lines, without verification.

    Raises:
        SignatureError: ``note-signature-invalid``.
    """
    text, separator, signatures = note.rpartition("\n\n")
    lines = signatures.split("\n")
    if len(note) > MAX_NOTE_BYTES or not separator or lines.pop() or not 0 < len(lines) <= MAX_SIGNATURES:
        raise _no_note()
    if _AMBIGUOUS.search(note):
        raise _no_note()
    return text + "\n", tuple(map(_line, lines))


def _line(line: str) -> SignatureLine:
    dash, _, rest = line.partition(" ")
    name, _, encoded = rest.partition(" ")
    try:
        blob = base64_bytes(encoded, what="signature")
    except EvidenceError as exc:
        raise _no_note() from exc
    if dash != "—" or not _NAME.fullmatch(name) or len(blob) <= _KEY_ID_BYTES:
        raise _no_note()
    return SignatureLine(name=name, key_id=blob[:_KEY_ID_BYTES], signature=blob[_KEY_ID_BYTES:])


def require_name(name: str) -> None:
    """Refuse a name that notes cannot contain.

    Raises:
        ConfigurationError: ``verifier-key-invalid``.
    """
    if not _NAME.fullmatch(name):
        raise _bad_key("a name has no white space and no '+'")


def verifier_key(name: str, public: Ed25519PublicKey) -> VerifierKey:
    """Return a named public key.

    Raises:
        ConfigurationError: ``verifier-key-invalid``, a name with white space or ``+``.
    """
    require_name(name)
    return VerifierKey(name=name, public=public.public_bytes_raw())


def sign_note(text: str, *, name: str, key: Ed25519PrivateKey) -> str:
    """Sign a text as a note.

    Raises:
        ValueError: the text has no newline at its end, or an empty line there.
    """
    if not text.endswith("\n") or "\n\n" in text:
        raise ValueError("the text of a note ends in one newline and has no empty line")
    identity = verifier_key(name, key.public_key())
    signature = key.sign(text.encode())
    return f"{text}\n— {name} {_base64(identity.key_id + signature)}\n"


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _bad_key(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"verifier key: {problem}",
        code="verifier-key-invalid",
        hint="copy all of the line that 'kms init' printed as its identity",
    )


def _no_note() -> SignatureError:
    return SignatureError(
        "expected a signed note: a text, an empty line and signature lines",
        code="note-signature-invalid",
        clause="C2SP signed-note",
    )
