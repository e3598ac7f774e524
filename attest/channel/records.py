r"""Conditions for sealing: affirmed evidence that commits to the exact key document.

::

    binding     context "channel/v1", role "service", audience = the service's name, key = digest of the document
    live        nonce = 32 bytes of the client
    published   nonce = SHA-256( "attest published keys v1\0" ‖ not_before (8) ‖ not_after (8) ), Unix seconds
    proof       SHA-256( "attest channel evidence v1\0" ‖ SHA-384 over the evidence's items ): named in requests

A record has no other origin, and it expires.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final, Protocol

from attest.appraisal import AttestationResult, appraise
from attest.channel.config import KeyDocument, parse_key_document
from attest.encoding import JsonValue, base64url_bytes, base64url_text, rfc3339_text
from attest.errors import BindingError, EvidenceError, VerificationError
from attest.evidence.binding import Binding, ExpectedBinding
from attest.evidence.envelope import Evidence, parse_envelope
from attest.evidence.freshness import Freshness
from attest.release.service_verification import MachineExpectation, verify_service

CONTEXT: Final = "channel/v1"
ROLE: Final = "service"
DEFAULT_MAX_AGE: Final = timedelta(minutes=5)
MAX_PUBLISHED: Final = timedelta(hours=24)
"""Longest life of a key (channel.md 3.5), and so of its evidence."""
_PUBLISHED = b"attest published keys v1\0"
_PROOF = b"attest channel evidence v1\0"


class TrustedKeys(Protocol):
    """A key document that may be sealed to, and the proof accepted for it."""

    @property
    def keys(self) -> KeyDocument:
        """The document."""
        ...

    @property
    def proof(self) -> bytes:
        """Proof that a request names, which states the evidence that the client accepted; 32 bytes."""
        ...

    def require_current(self, at: datetime) -> None:
        """Raise unless it is current."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRecord:
    """A service's proven key document. The constructor refuses anything less.

    Attributes:
        keys: the document that the evidence commits to.
        expires: its end, excluded.

    Raises:
        AppraisalError: ``not-affirmed``.
        BindingError: ``channel-keys-mismatch``, ``binding-context-mismatch``, ``binding-role-mismatch``,
            ``binding-audience-mismatch``, or ``nonce-mismatch`` where freshness was not evaluated.
    """

    result: AttestationResult
    keys: KeyDocument
    audience: str
    expires: datetime

    def __post_init__(self) -> None:
        verified = self.result.verified
        # (1) The policy affirms the machine.
        self.result.require()
        # (2) The evidence was made for a channel to this service, and is fresh.
        binding = verified.binding
        if binding is None or verified.freshness is not Freshness.MATCHED:
            raise BindingError(
                "the evidence is not bound to a nonce of this client",
                code="nonce-mismatch",
                field="binding",
                expected="a binding under the client's nonce",
                got="none" if binding is None else "a nonce that was not compared",
            )
        ExpectedBinding(context=CONTEXT, role=ROLE, audience=self.audience, nonce=binding.nonce).require(binding)
        # (3) It commits to this exact document.
        if not hmac.compare_digest(binding.key, self.keys.digest):
            raise BindingError(
                "the evidence commits to other keys than those that came with it",
                code="channel-keys-mismatch",
                field="binding.key",
                expected=binding.key.hex(),
                got=self.keys.digest.hex(),
                clause="docs/protocol.md",
                hint="the keys were replaced on the way, or are of another moment: try again",
            )

    @property
    def proof(self) -> bytes:
        """Proof that a request names: the accepted evidence."""
        return evidence_proof(self.result.verified.evidence)

    def require_current(self, at: datetime) -> None:
        """Raise once it has expired, or before it began if the clock went back.

        Raises:
            VerificationError: ``channel-record-expired``.
        """
        require_between(self.result.at, at, self.expires, "the service's proof")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOffer:
    """A service's key document and evidence, as received and not verified.

    ``published`` is the validity of evidence without a client's nonce.
    """

    evidence: Evidence
    keys: bytes
    published: tuple[datetime, datetime] | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the JSON members."""
        evidence: JsonValue = json.loads(self.evidence.to_json())
        members: dict[str, JsonValue] = {"evidence": evidence, "keys": base64url_text(self.keys)}
        if self.published is not None:
            not_before, not_after = self.published
            members |= {"not_before": int(not_before.timestamp()), "not_after": int(not_after.timestamp())}
        return members

    @staticmethod
    def from_json(document: JsonValue) -> KeyOffer:
        """Read the JSON members.

        Raises:
            EvidenceError: ``wire-invalid``, ``base64-invalid``, or as ``parse_envelope``.
        """
        members = document if isinstance(document, dict) else {}
        times = [members[name] for name in ("not_before", "not_after") if name in members]
        keys = members.get("keys")
        if set(members) - {"not_before", "not_after"} != {"evidence", "keys"} or not isinstance(keys, str):
            raise _invalid("expected exactly evidence and keys, or these with not_before and not_after")
        if len(times) == 1:
            raise _invalid("expected both not_before and not_after, or neither")
        return KeyOffer(
            evidence=parse_envelope(json.dumps(members["evidence"]).encode()),
            keys=base64url_bytes(keys, what="keys"),
            published=(_moment(times[0]), _moment(times[1])) if times else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelExpectation(MachineExpectation):
    """A client's requirements for a service before it seals anything to it; see ``MachineExpectation``.

    Attributes:
        audience: the service's name in its evidence.
        max_age: lifetime of a record.
        unchecked_freshness: reason to accept evidence without this client's nonce; None requires the nonce.
    """

    audience: str
    max_age: timedelta = DEFAULT_MAX_AGE
    unchecked_freshness: str | None = None

    def __post_init__(self) -> None:
        if self.unchecked_freshness is not None and not self.unchecked_freshness.strip():
            raise ValueError("unchecked_freshness: a reason is required")


def channel_binding(
    keys: KeyDocument, *, audience: str, nonce: bytes, devices: tuple[bytes, ...] = (), init_data: bytes | None = None
) -> Binding:
    """Return the binding of a service's evidence.

    ``audience`` is its name, as its clients use it; ``nonce`` is 32 bytes of the client, or ``published_nonce``.
    """
    return Binding(
        context=CONTEXT,
        role=ROLE,
        audience=audience,
        nonce=nonce,
        key=keys.digest,
        devices=devices,
        init_data=init_data,
    )


def published_nonce(not_before: datetime, not_after: datetime) -> bytes:
    """Return the nonce of published evidence with this validity."""
    seconds = (int(moment.timestamp()).to_bytes(8, "big") for moment in (not_before, not_after))
    return sha256(_PUBLISHED + b"".join(seconds)).digest()


def evidence_proof(evidence: Evidence) -> bytes:
    """Return the digest that names evidence; encoding and order of its items make no difference."""
    return sha256(_PROOF + evidence.digest).digest()


def verify_offer(offer: KeyOffer, *, expect: ChannelExpectation, nonce: bytes | None, at: datetime) -> ChannelRecord:
    """Verify and appraise a service's offer, and return the record for its requests.

    ``nonce`` is the 32 bytes that this client sent; None accepts published evidence, if explicitly allowed.

    Raises:
        EvidenceError: the evidence is malformed.
        ChannelError: ``channel-keys-malformed``.
        VerificationError: the evidence is invalid, or for another nonce, service or document;
            ``channel-record-expired``: published for another time.
        EndorsementError: an endorsement is missing or stale.
        AppraisalError: ``not-affirmed``.
        ValueError: published evidence without a stated reason.
    """
    keys = parse_key_document(offer.keys)
    expires = at + expect.max_age
    if nonce is None:
        if expect.unchecked_freshness is None:
            raise ValueError("evidence without this client's nonce needs a stated reason: unchecked_freshness")
        not_before, not_after = _published(offer, at)
        nonce, expires = published_nonce(not_before, not_after), min(expires, not_after)
    expected = ExpectedBinding(context=CONTEXT, role=ROLE, audience=expect.audience, nonce=nonce)
    verified = verify_service(offer.evidence, expect=expect, binding=expected, at=at)
    result = appraise(verified, policy=expect.policy, at=at)
    return ChannelRecord(result=result, keys=keys, audience=expect.audience, expires=expires)


def _published(offer: KeyOffer, at: datetime) -> tuple[datetime, datetime]:
    if offer.published is None:
        raise BindingError(
            "the service's evidence answers another client's nonce, and is not published",
            code="nonce-mismatch",
            field="not_before",
        )
    not_before, not_after = offer.published
    if not not_before <= not_after <= not_before + MAX_PUBLISHED:
        raise _invalid(f"published for longer than {MAX_PUBLISHED}, or for less than nothing")
    require_between(not_before, at, not_after, "the published evidence")
    return not_before, not_after


def require_between(begin: datetime, at: datetime, end: datetime, what: str) -> None:
    """Require a moment within a period; the start is included, the end is not.

    Raises:
        VerificationError: ``channel-record-expired``.
    """
    if begin <= at < end:
        return
    raise VerificationError(
        f"{what} is not valid now",
        code="channel-record-expired",
        expected=f"from {rfc3339_text(begin)} to before {rfc3339_text(end)}",
        got=rfc3339_text(at),
        hint="request the service's keys and evidence again",
    )


def _moment(value: JsonValue) -> datetime:
    if type(value) is not int or not 0 <= value < 1 << 36:
        raise _invalid("expected Unix seconds")
    return datetime.fromtimestamp(value, UTC)


def _invalid(problem: str) -> EvidenceError:
    return EvidenceError(f"key offer: {problem}", code="wire-invalid", field="key offer")
