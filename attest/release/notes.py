"""C2SP signed notes with Ed25519: how a key-release service signs, and how anybody checks it.

::

    text, ending in a newline
                                    an empty line
    — <name> <base64( key id (4 bytes) ‖ signature (64 bytes) )>

A verifier key is one line of text, ``name+keyid+base64(0x01 ‖ public key)``; it is a service's identity here.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from attest.encoding import base64_bytes
from attest.errors import ConfigurationError, EvidenceError, SignatureError

__all__ = ["MAX_NOTE_BYTES", "VerifierKey", "sign_note", "verifier_key"]

MAX_NOTE_BYTES = 1024 * 1024
_ED25519 = b"\x01"
_KEY_ID_BYTES = 4
_PUBLIC_BYTES = 32
_NAME = re.compile(r"[^\s+]{1,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierKey:
    """A named Ed25519 key.

    Attributes:
        name: the signer's name, without white space and ``+``.
        public: 32 bytes.
    """

    name: str
    public: bytes

    @staticmethod
    def parse(text: str) -> VerifierKey:
        """Read ``name+keyid+base64``.

        Raises:
            ConfigurationError: ``verifier-key-invalid``.
        """
        parts = text.strip().split("+", 2)
        try:
            name, key_id, encoded = parts
            blob = base64_bytes(encoded, what="verifier key")
        except (ValueError, EvidenceError) as exc:
            raise _bad_key("expected name+keyid+base64") from exc
        if not _NAME.fullmatch(name) or blob[:1] != _ED25519 or len(blob) != 1 + _PUBLIC_BYTES:
            raise _bad_key("expected a name without white space and an Ed25519 key")
        key = VerifierKey(name=name, public=blob[1:])
        if key.key_id.hex() != key_id:
            raise _bad_key("the key id does not belong to this name and key")
        return key

    @property
    def key_id(self) -> bytes:
        """The first 4 bytes of SHA-256( name ‖ newline ‖ 0x01 ‖ public key )."""
        return sha256(self.name.encode() + b"\n" + _ED25519 + self.public).digest()[:_KEY_ID_BYTES]

    @property
    def text(self) -> str:
        """The verifier key as one line."""
        return f"{self.name}+{self.key_id.hex()}+{_base64(_ED25519 + self.public)}"

    def verify(self, note: str) -> str:
        """Return the text of a note that this key signed; lines of other signers are passed over.

        Raises:
            SignatureError: ``note-signature-invalid``.
        """
        text, separator, signatures = note.rpartition("\n\n")
        if len(note) > MAX_NOTE_BYTES or not separator or not signatures.endswith("\n"):
            raise _unsigned(self.name)
        signed = text + "\n"
        for line in signatures.splitlines():
            dash, _, rest = line.partition(" ")
            name, _, encoded = rest.partition(" ")
            if dash == "—" and name == self.name and self._signed(signed, encoded):
                return signed
        raise _unsigned(self.name)

    def _signed(self, text: str, encoded: str) -> bool:
        try:
            blob = base64_bytes(encoded, what="signature")
            if blob[:_KEY_ID_BYTES] != self.key_id:
                return False
            Ed25519PublicKey.from_public_bytes(self.public).verify(blob[_KEY_ID_BYTES:], text.encode())
        except (EvidenceError, InvalidSignature, ValueError):
            return False
        return True


def verifier_key(name: str, public: Ed25519PublicKey) -> VerifierKey:
    """Name a public key.

    Raises:
        ConfigurationError: ``verifier-key-invalid``, a name with white space or ``+``.
    """
    if not _NAME.fullmatch(name):
        raise _bad_key("a name has no white space and no '+'")
    return VerifierKey(name=name, public=public.public_bytes_raw())


def sign_note(text: str, *, name: str, key: Ed25519PrivateKey) -> str:
    """Sign a text as a note.

    Raises:
        ValueError: the text does not end in a newline, or holds an empty line at its end.
    """
    if not text.endswith("\n") or "\n\n" in text:
        msg = "the text of a note ends in one newline and has no empty line"
        raise ValueError(msg)
    identity = verifier_key(name, key.public_key())
    signature = key.sign(text.encode())
    return f"{text}\n— {name} {_base64(identity.key_id + signature)}\n"


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _bad_key(problem: str) -> ConfigurationError:
    return ConfigurationError(f"verifier key: {problem}", code="verifier-key-invalid")


def _unsigned(name: str) -> SignatureError:
    return SignatureError(
        f"the note is not signed by {name}",
        code="note-signature-invalid",
        expected=f"an Ed25519 signature of {name}",
        got="none that verifies",
        clause="C2SP signed-note",
    )
