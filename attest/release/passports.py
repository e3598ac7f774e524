"""The passport model (RFC 9334, section 5.1): an Attestation Result in place of evidence, with proof of possession.

::

    bound key   CBOR [ "attest-passport-key/v1", HPKE key (KEM id and key), Ed25519 key ]
                the key in the binding of the appraised evidence; the EAR names its SHA-256. A token of a cloud
                service shows that the machine committed to this SHA-256 (``attest.results.commits_to``)
    signature   Ed25519 over CBOR [ "attest-passport/v1", audience, nonce of the challenge, SHA-384 of the EAR,
                [ key, … ], [ lease, … ] ]

A copied EAR is useless: the answer is sealed to the HPKE key, and the Ed25519 key signs the request for this service,
this challenge and these keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha384
from typing import Final, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from attest.encoding import JsonValue, base64url_bytes, base64url_text, cbor_bytes, cbor_value
from attest.errors import EvidenceError, SignatureError
from attest.release.sealed_key import KEM_HYBRID, WorkloadKey
from attest.release.wire import read_request, request_members

MAX_EAR_BYTES: Final = 256 * 1024
MAX_BOUND_BYTES: Final = 4096
"""Longest key in a binding."""
_KEYS: Final = "attest-passport-key/v1"
_POSSESSION: Final = "attest-passport/v1"
_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_MEMBERS: Final = ("ear", "key", "signature")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundKeys:
    """The two keys that one binding commits to.

    Attributes:
        recipient: public key for sealing, as ``WorkloadKey.public``.
        signer: Ed25519 public key, 32 bytes.
    """

    recipient: bytes
    signer: bytes

    def to_bytes(self) -> bytes:
        """Return the ``key`` of the binding."""
        return cbor_bytes((_KEYS, self.recipient, self.signer))


def read_bound_keys(data: bytes) -> BoundKeys:
    """Parse the ``key`` of a binding.

    Raises:
        EvidenceError: ``passport-malformed`` or ``cbor-invalid``.
    """
    if len(data) > MAX_BOUND_BYTES:
        raise _malformed(f"key: more than {MAX_BOUND_BYTES} bytes")
    match cbor_value(data, what="passport.key"):
        case [str(schema), bytes(recipient), bytes(signer)] if schema == _KEYS and len(signer) == _KEY_BYTES:
            return BoundKeys(recipient=recipient, signer=signer)
        case _:
            raise _malformed(f"key: expected an array of {_KEYS!r}, an HPKE key and an Ed25519 key")


def _message(*, audience: str, nonce: bytes, ear_digest: bytes, key_ids: Sequence[str], renews: Sequence[str]) -> bytes:
    return cbor_bytes((_POSSESSION, audience, nonce, ear_digest, tuple(key_ids), tuple(renews)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportKey:
    """A workload's key pairs for the passport model. The private keys never leave this object."""

    recipient: WorkloadKey
    _signer: Ed25519PrivateKey = field(repr=False)

    @staticmethod
    def generate(kem: int = KEM_HYBRID) -> PassportKey:
        """Generate fresh key pairs from the operating system's randomness."""
        return PassportKey(recipient=WorkloadKey.generate(kem), _signer=Ed25519PrivateKey.generate())

    @property
    def bound(self) -> bytes:
        """Required ``key`` in the binding of the evidence."""
        signer = self._signer.public_key().public_bytes_raw()
        return BoundKeys(recipient=self.recipient.public, signer=signer).to_bytes()

    def passport(
        self, ear: bytes, *, audience: str, nonce: bytes, key_ids: Sequence[str], renews: Sequence[str] = ()
    ) -> Passport:
        """Return the passport of a request for keys, signed.

        ``ear`` is the Attestation Result for evidence bound to ``bound``, ``audience`` the service's verifier key, and
        ``nonce`` that of its challenge, 32 bytes. The key ids have the spelling of the request.
        """
        message = _message(
            audience=audience, nonce=nonce, ear_digest=sha384(ear).digest(), key_ids=key_ids, renews=renews
        )
        return Passport(ear=ear, key=self.bound, signature=self._signer.sign(message))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a PassportKey does not leave its process")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passport:
    """An Attestation Result with a proof of possession.

    Attributes:
        ear: the EAR, a JWT or a CWT as the Verifier issued it, or the JWT of a cloud service.
        signature: over this request, 64 bytes.
    """

    ear: bytes = field(repr=False)
    key: bytes
    signature: bytes

    @property
    def digest(self) -> bytes:
        """SHA-384 of the EAR or token, in place of the digest of evidence."""
        return sha384(self.ear).digest()

    def require_possession(
        self, *, audience: str, nonce: bytes, key_ids: Sequence[str], renews: Sequence[str]
    ) -> BoundKeys:
        """Require that the bound key signed this exact request, and return the bound keys.

        Raises:
            EvidenceError: ``passport-malformed`` or ``cbor-invalid``.
            SignatureError: ``passport-signature-invalid``.
        """
        keys = read_bound_keys(self.key)
        message = _message(audience=audience, nonce=nonce, ear_digest=self.digest, key_ids=key_ids, renews=renews)
        try:
            Ed25519PublicKey.from_public_bytes(keys.signer).verify(self.signature, message)
        except (InvalidSignature, ValueError) as exc:
            raise SignatureError(
                "the passport's key did not sign this request",
                code="passport-signature-invalid",
                field="passport.signature",
                expected="a signature over this service, challenge, EAR, keys and leases",
                clause="RFC 8725; docs/tokens.md",
                hint="only the workload whose key an EAR names can use it, and it signs every request",
            ) from exc
        return keys

    def to_json(self) -> dict[str, JsonValue]:
        """Return the JSON members."""
        return {name: base64url_text(getattr(self, name)) for name in _MEMBERS}

    @staticmethod
    def from_json(document: JsonValue) -> Passport:
        """Read the JSON members.

        Raises:
            EvidenceError: ``passport-malformed`` or ``base64-invalid``.
        """
        members = document if isinstance(document, dict) else {}
        texts = {name: value for name, value in members.items() if isinstance(value, str)}
        if set(members) != set(_MEMBERS) or len(texts) != len(members):
            raise _malformed("expected exactly the texts ear, key and signature")
        ear, key, signature = (base64url_bytes(texts[name], what=f"passport.{name}") for name in _MEMBERS)
        if not 0 < len(ear) <= MAX_EAR_BYTES:
            raise _malformed(f"ear: expected 1 to {MAX_EAR_BYTES} bytes")
        if len(signature) != _SIGNATURE_BYTES:
            raise _malformed(f"signature: expected {_SIGNATURE_BYTES} bytes")
        return Passport(ear=ear, key=key, signature=signature)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportRequest:
    """A request for keys with a passport that is signed for it; the other members are those of ``ReleaseRequest``."""

    challenge: str
    passport: Passport
    key_ids: tuple[str, ...]
    renews: tuple[str, ...] = ()

    @property
    def evidence(self) -> Passport:
        """The passport, in place of evidence."""
        return self.passport

    def to_json(self) -> dict[str, JsonValue]:
        """Return the JSON members."""
        return request_members(self.challenge, {"passport": self.passport.to_json()}, self.key_ids, self.renews)

    @staticmethod
    def from_json(document: JsonValue) -> PassportRequest:
        """Read the JSON members.

        Raises:
            EvidenceError: ``wire-invalid``, ``passport-malformed`` or ``base64-invalid``.
        """
        challenge, proof, key_ids, renews = read_request(document, proof="passport")
        passport = Passport.from_json(proof)
        return PassportRequest(challenge=challenge, passport=passport, key_ids=key_ids, renews=renews)


def _malformed(problem: str) -> EvidenceError:
    return EvidenceError(f"passport: {problem}", code="passport-malformed", field="passport")
