"""Messages between a workload and a key-release service. Both sides read and write them here.

Bytes are base64url without padding, times RFC 3339, and unknown members are refused.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from attest.encoding import (
    JsonValue,
    base64_bytes,
    base64url_bytes,
    base64url_text,
    cbor_bytes,
    json_value,
    rfc3339,
    rfc3339_text,
)
from attest.errors import ConfigurationError, EvidenceError
from attest.evidence.binding import NONCE_BYTES
from attest.evidence.envelope import Evidence, parse_envelope
from attest.release.names import KeyName, KeyReference
from attest.release.tlog import MAX_PROOF_HASHES

CONTEXT = "kms-release/v1"
"""The binding's context; proofs for other purposes are refused."""
ROLE = "workload"
MAX_KEYS = 16
_SEALED_TEXTS = ("tenant", "key_id", "purpose", "policy_digest", "sealed", "lease_id", "expires_at")
_LEASE_ID = re.compile(r"[0-9a-f]{32}")
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """A service's challenge to a workload.

    Attributes:
        token: opaque to the workload, which returns it with the evidence.
        nonce: 32 bytes that go into the binding.
        audience: the service's verifier key text, which a workload compares with its configuration.
        expires_at: end of the challenge, excluded.
    """

    token: str
    nonce: bytes
    audience: str
    expires_at: datetime

    def to_json(self) -> dict[str, JsonValue]:
        """Return the JSON members."""
        return {
            "challenge": self.token,
            "nonce": base64url_text(self.nonce),
            "audience": self.audience,
            "expires_at": rfc3339_text(self.expires_at),
        }

    @staticmethod
    def from_json(document: JsonValue) -> Challenge:
        """Read the JSON members.

        Raises:
            EvidenceError: ``wire-invalid``, ``base64-invalid`` or ``time-invalid``.
        """
        texts = texts_of(document, ("challenge", "nonce", "audience", "expires_at"), what="challenge")
        nonce = base64url_bytes(texts["nonce"], what="nonce")
        if len(nonce) != NONCE_BYTES:
            raise wire_invalid("challenge", f"nonce: expected {NONCE_BYTES} bytes, got {len(nonce)}")
        return Challenge(
            token=texts["challenge"],
            nonce=nonce,
            audience=texts["audience"],
            expires_at=rfc3339(texts["expires_at"], what="expires_at"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """A workload's request for keys, with evidence.

    Attributes:
        evidence: of the workload, with a binding under the challenge's nonce.
        key_ids: 1 to ``MAX_KEYS`` different names of keys (``KEY``, ``TENANT/KEY``); all or none are released.
        renews: leases to renew, each once; none for a first release.
    """

    challenge: str
    evidence: Evidence
    key_ids: tuple[str, ...]
    renews: tuple[str, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """Return the JSON members; the evidence is a CMW collection inside."""
        evidence: JsonValue = json.loads(self.evidence.to_json())
        return request_members(self.challenge, {"evidence": evidence}, self.key_ids, self.renews)

    @staticmethod
    def from_json(document: JsonValue) -> ReleaseRequest:
        """Read the JSON members.

        Raises:
            EvidenceError: ``wire-invalid``, or as ``parse_envelope``.
        """
        challenge, proof, key_ids, renews = read_request(document, proof="evidence")
        evidence = parse_envelope(json.dumps(proof).encode())
        return ReleaseRequest(challenge=challenge, evidence=evidence, key_ids=key_ids, renews=renews)


def request_members(
    challenge: str, proof: dict[str, JsonValue], key_ids: tuple[str, ...], renews: tuple[str, ...]
) -> dict[str, JsonValue]:
    """Return the JSON members of a request for keys."""
    members: dict[str, JsonValue] = {"challenge": challenge, **proof, "keys": list(key_ids)}
    return {**members, "renews": list(renews)} if renews else members


def read_request(document: JsonValue, *, proof: str) -> tuple[str, JsonValue, tuple[str, ...], tuple[str, ...]]:
    """Return challenge, proof, key ids and leases of a request for keys; ``proof`` names the member of the proof.

    The proof is not parsed yet.

    Raises:
        EvidenceError: ``wire-invalid``.
    """
    if not isinstance(document, dict) or set(document) - {"renews"} != {"challenge", proof, "keys"}:
        raise wire_invalid("release request", f"expected exactly challenge, {proof}, keys and, if wanted, renews")
    token = document["challenge"]
    if not isinstance(token, str):
        raise wire_invalid("release request", "challenge: expected text")
    key_ids = _each_once(document, "keys")
    for key in key_ids:
        try:
            KeyReference.parse(key)
        except ConfigurationError as exc:
            raise wire_invalid("release request", f"keys: {exc.message}") from exc
    leases = _each_once(document, "renews") if "renews" in document else ()
    renews = tuple(_lease_id(one, "release request") for one in leases)
    return token, document[proof], key_ids, renews


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedKey:
    """One released key, sealed to the workload.

    Attributes:
        version: from 1.
        purpose: of the key (``model-key``).
        policy_digest: SHA-256 of the policy under which it was released.
        sealed: HPKE ``enc ‖ ciphertext``.
        expires_at: end of the lease, excluded; a workload attests again before it.
    """

    tenant: str
    key_id: str
    version: int
    purpose: str
    policy_digest: bytes
    sealed: bytes
    lease_id: str
    expires_at: datetime

    @property
    def name(self) -> KeyName:
        """Name of the key."""
        return KeyName(tenant=self.tenant, key_id=self.key_id)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the JSON members."""
        return {
            "tenant": self.tenant,
            "key_id": self.key_id,
            "version": self.version,
            "purpose": self.purpose,
            "policy_digest": self.policy_digest.hex(),
            "sealed": base64url_text(self.sealed),
            "lease_id": self.lease_id,
            "expires_at": rfc3339_text(self.expires_at),
        }

    @staticmethod
    def from_json(document: JsonValue) -> SealedKey:
        """Read the JSON members.

        Raises:
            EvidenceError: ``wire-invalid``, ``base64-invalid`` or ``time-invalid``.
        """
        members = dict(document) if isinstance(document, dict) else {}
        version = members.pop("version", None)
        texts = texts_of(members, _SEALED_TEXTS, what="sealed key")
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise wire_invalid("sealed key", "version: expected an integer from 1")
        try:
            name = KeyName(tenant=texts["tenant"], key_id=texts["key_id"])
        except ConfigurationError as exc:
            raise wire_invalid("sealed key", exc.message) from exc
        return SealedKey(
            tenant=name.tenant,
            key_id=name.key_id,
            version=version,
            purpose=texts["purpose"],
            policy_digest=digest_of(texts["policy_digest"], "policy_digest", what="sealed key"),
            sealed=base64url_bytes(texts["sealed"], what="sealed"),
            lease_id=_lease_id(texts["lease_id"], "sealed key"),
            expires_at=rfc3339(texts["expires_at"], what="expires_at"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A service's answer: the sealed keys, a signed receipt that covers them, and the proof of logging.

    Attributes:
        keys: in the order of the request.
        receipt: a signed note by the service, see ``receipt_text``.
        entry: the decision's entry of the service's log, canonical JSON.
        proof: of the entry's inclusion, see ``attest.release.tlog.LogProof``.
        consistency: proof that the log of the size in the request became that of ``proof``; None if not included.
    """

    keys: tuple[SealedKey, ...]
    receipt: str
    entry: bytes
    proof: str
    consistency: tuple[bytes, ...] | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the JSON members."""
        members: dict[str, JsonValue] = {
            "keys": [key.to_json() for key in self.keys],
            "receipt": self.receipt,
            "entry": base64url_text(self.entry),
            "proof": self.proof,
        }
        if self.consistency is None:
            return members
        return {**members, "consistency": [b64encode(one).decode() for one in self.consistency]}

    @staticmethod
    def from_json(document: JsonValue) -> Release:
        """Read the JSON members.

        Raises:
            EvidenceError: ``wire-invalid`` or ``base64-invalid``.
        """
        members = dict(document) if isinstance(document, dict) else {}
        keys = members.pop("keys", None)
        consistency = hashes_of(members.pop("consistency"), what="release") if "consistency" in members else None
        texts = texts_of(members, ("receipt", "entry", "proof"), what="release")
        if not isinstance(keys, list):
            raise wire_invalid("release", "keys: expected a list")
        return Release(
            keys=tuple(SealedKey.from_json(key) for key in keys),
            receipt=texts["receipt"],
            entry=base64url_bytes(texts["entry"], what="entry"),
            proof=texts["proof"],
            consistency=consistency,
        )


def release_info(
    *,
    audience: str,
    nonce: bytes,
    evidence_digest: bytes,
    tenant: str,
    key_id: str,
    version: int,
    purpose: str,
    policy_digest: bytes,
    decision_digest: bytes,
) -> bytes:
    """Return the HPKE ``info`` of one released key: the context that both sides share.

    A sealed key therefore opens only for the proven workload, in this exchange, as this version of this
    key of this tenant for this purpose under this policy.
    """
    return cbor_bytes(
        {
            "context": CONTEXT,
            "audience": audience,
            "nonce": nonce,
            "evidence": evidence_digest,
            "tenant": tenant,
            "key_id": key_id,
            "version": version,
            "purpose": purpose,
            "policy": policy_digest,
            "decision": decision_digest,
        }
    )


def _each_once(document: dict[str, JsonValue], name: str) -> tuple[str, ...]:
    found = document[name]
    if not isinstance(found, list) or not 0 < len(found) <= MAX_KEYS:
        raise wire_invalid("release request", f"{name}: expected a list of 1 to {MAX_KEYS}")
    texts = tuple(one for one in found if isinstance(one, str))
    if len(set(texts)) != len(found):
        raise wire_invalid("release request", f"{name}: expected texts, each once")
    return texts


def _lease_id(text: str, what: str) -> str:
    if not _LEASE_ID.fullmatch(text):
        raise wire_invalid(what, "lease: expected 32 lower-case hexadecimal digits")
    return text


def signed_text(head: str, document: dict[str, JsonValue]) -> str:
    """Return a document as the text of a note: its head and sorted JSON, each on a line."""
    return f"{head}\n{json.dumps(document, sort_keys=True, separators=(',', ':'))}\n"


def read_signed_text(text: str, head: str, *, what: str) -> dict[str, JsonValue]:
    """Read the document in the text of a note, after verification of its signature.

    Raises:
        EvidenceError: ``wire-invalid`` or ``json-invalid``.
    """
    found, _, body = text.partition("\n")
    document = json_value(body.encode(), what=what) if found == head else None
    if not isinstance(document, dict):
        raise wire_invalid(what, f"expected {head}, and an object")
    return document


def texts_of(document: JsonValue, names: Iterable[str], *, what: str) -> dict[str, str]:
    """Return the members of an object that has exactly these, all of them texts.

    Raises:
        EvidenceError: ``wire-invalid``.
    """
    members = document if isinstance(document, dict) else {}
    texts = {name: value for name, value in members.items() if isinstance(value, str)}
    if set(members) != set(names) or len(texts) != len(members):
        raise wire_invalid(what, f"expected exactly the texts {', '.join(names)}")
    return texts


def hashes_of(found: JsonValue, *, what: str) -> tuple[bytes, ...]:
    """Return the hashes of a consistency proof, an array of base64.

    Raises:
        EvidenceError: ``wire-invalid`` or ``base64-invalid``.
    """
    if not isinstance(found, list) or len(found) > MAX_PROOF_HASHES:
        raise wire_invalid(what, f"consistency: expected at most {MAX_PROOF_HASHES} hashes")
    return tuple(base64_bytes(one if isinstance(one, str) else "", what="hash") for one in found)


def digest_of(text: str, name: str, *, what: str) -> bytes:
    """Return the 32 bytes of a digest in lower-case hex.

    Raises:
        EvidenceError: ``wire-invalid``.
    """
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != _DIGEST_BYTES or digest.hex() != text:
        raise wire_invalid(what, f"{name}: expected {_DIGEST_BYTES} bytes in lower-case hex")
    return digest


def wire_invalid(what: str, problem: str) -> EvidenceError:
    """Return the error for a malformed document."""
    return EvidenceError(f"{what}: {problem}", code="wire-invalid", field=what)
