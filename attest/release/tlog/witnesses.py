r"""Witnesses: cosigners of checkpoints that extend earlier ones (C2SP tlog-cosignature, Ed25519).

::

    signed     "cosignature/v1\n" ‖ "time " ‖ seconds since 1970, decimal ‖ "\n" ‖ text of the checkpoint
    line       — <name> <base64( key id (4 bytes) ‖ seconds (8 bytes, big-endian) ‖ signature (64 bytes) )>

A witness's key is one line of text, like a log's, with the type byte 0x04.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from attest.errors import ConfigurationError, SignatureError, VerificationError
from attest.release.notes import NamedKey, SignatureLine, open_note, require_name

_TIME_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessKey(NamedKey):
    """The key of a witness, for cosignatures."""

    KIND: ClassVar[bytes] = b"\x04"

    def cosigned_at(self, note: str) -> int | None:
        """Return the time of this witness's cosignature, in seconds since 1970; None without one.

        Raises:
            SignatureError: ``note-signature-invalid``: an invalid line of this witness, or a malformed note.
        """
        text, lines = open_note(note)
        mine = (self.name, self.key_id)
        return max((self._verified(text, line) for line in lines if (line.name, line.key_id) == mine), default=None)

    def _verified(self, text: str, line: SignatureLine) -> int:
        seconds, signature = line.signature[:_TIME_BYTES], line.signature[_TIME_BYTES:]
        at = int.from_bytes(seconds, "big")
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, _signed(text, at))
        except (InvalidSignature, ValueError) as exc:
            raise SignatureError(
                f"the cosignature of {self.name} is invalid",
                code="note-signature-invalid",
                clause="C2SP tlog-cosignature",
            ) from exc
        return at


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessPolicy:
    """Accepted witnesses, and the number of cosignatures that a checkpoint needs.

    Attributes:
        witnesses: with distinct keys and names.
        quorum: required cosignatures; from 0 to the number of witnesses.

    Raises:
        ConfigurationError: ``witness-policy-invalid``.
    """

    witnesses: tuple[WitnessKey, ...]
    quorum: int

    def __post_init__(self) -> None:
        """Refuse an impossible quorum, and a witness that would count twice."""
        names, keys = {one.name for one in self.witnesses}, {one.public for one in self.witnesses}
        if not 0 <= self.quorum <= len(self.witnesses) or len(names) != len(self.witnesses) or len(keys) != len(names):
            raise ConfigurationError(
                "a policy of witnesses needs different names, different keys, and a quorum of at most their number",
                code="witness-policy-invalid",
                field="quorum",
                expected=f"0 to {len(self.witnesses)}",
                got=str(self.quorum),
            )

    def require(self, note: str) -> None:
        """Refuse a checkpoint with too few cosignatures.

        Raises:
            VerificationError: ``log-witnesses-missing``.
            SignatureError: ``note-signature-invalid``.
        """
        found = [one.name for one in self.witnesses if one.cosigned_at(note) is not None]
        if len(found) < self.quorum:
            raise VerificationError(
                f"{len(found)} of the witnesses cosigned the checkpoint, and {self.quorum} are required",
                code="log-witnesses-missing",
                expected=f"{self.quorum} of {_names(one.name for one in self.witnesses)}",
                got=_names(found),
                clause="C2SP tlog-cosignature",
                hint="the service could not reach them, or has others: see its setting witnesses_file",
            )


NO_WITNESSES = WitnessPolicy(witnesses=(), quorum=0)


def cosign(note: str, *, name: str, key: Ed25519PrivateKey, at: int) -> str:
    """Return a witness's signature line for a checkpoint that it has checked, at so many seconds since 1970.

    Raises:
        ConfigurationError: ``verifier-key-invalid``, a name with white space or ``+``.
        SignatureError: ``note-signature-invalid``, a malformed note.
        ValueError: a moment before 1970.
    """
    require_name(name)
    if not 0 < at < 2**63:
        raise ValueError("a cosignature needs a moment after 1970")
    text, _ = open_note(note)
    identity = WitnessKey(name=name, public=key.public_key().public_bytes_raw()).key_id
    signature = at.to_bytes(_TIME_BYTES, "big") + key.sign(_signed(text, at))
    return f"— {name} {b64encode(identity + signature).decode()}\n"


def _signed(text: str, at: int) -> bytes:
    return f"cosignature/v1\ntime {at}\n{text}".encode()


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
