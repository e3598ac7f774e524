"""Leases: the holder of a released version of a key, the evidence, and the agreed end of use.

A lease cannot make its holder forget the key. At its end the service only stops releasing the key again
(docs/releases.md).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from attest.encoding import CborValue, cbor_bytes, rfc3339_text
from attest.release import KeyName

LEASE_ID_BYTES: Final = 16
_FORMAT: Final = "kms-lease/v1"
SUPERSEDED: Final = "superseded"
"""Reason of an end: the holder has a newer lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseIdentity:
    """The identity of an Attester, as its leases state it.

    Attributes:
        tee: kind of its silicon (``sev-snp``, ``tdx``, ``sgx``), or the kind of a passport: ``ear``, or the token of
            a service (``maa-token``).
        product: the line of its processor: AMD's name of it, or Intel's FMSPC in hex; None if unknown.
        chip: the processor, ``amd:`` and CHIP_ID or ``intel:`` and PPID, in hex; None where it is masked.
        measurement: launch measurement: MEASUREMENT, MRTD or MRENCLAVE.
        instance: 32 bytes over TEE, chip and measurement: this image on this machine.
        holder: 32 bytes over the instance and the key that it proved to have: both identify the holder.
        recipient: SHA-256 of that key, 32 bytes.
        simulated: True if any evidence rests on the simulator's roots.
        claims_digest: SHA-256 of its claims, 32 bytes.
    """

    tee: str
    product: str | None
    chip: str | None
    measurement: bytes | None
    instance: bytes
    holder: bytes
    recipient: bytes
    gpus: int
    simulated: bool
    claims_digest: bytes

    def identity(self) -> dict[str, Any]:  # Any: as the fields are annotated
        """Return these fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(LeaseIdentity)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attester(LeaseIdentity):
    """An Attester, with its claims.

    Attributes:
        claims: every claim that a policy may appraise, as ``kms.domain.lease_claims`` encodes it.
    """

    claims: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease(LeaseIdentity):
    """One version of one key, released to one holder until a moment.

    Attributes:
        lease_id: 128 random bits in lower-case hex.
        policy_digest: SHA-256 of the policy that it was released under, 32 bytes.
        evidence_digest: SHA-384 of the evidence, 48 bytes.
        log_seq: number of the decision's entry of the log.
        released_at: whole milliseconds.
        expires_at: end of its validity, excluded; whole milliseconds.
        renewed_from: the lease that it replaces, or None.
    """

    lease_id: str
    name: KeyName
    version: int
    policy_digest: bytes
    evidence_digest: bytes
    log_seq: int
    released_at: datetime
    expires_at: datetime
    renewed_from: str | None

    @property
    def digest(self) -> bytes:
        """SHA-256 of all of it, 32 bytes; the log entry of the decision states it."""
        values = (getattr(self, field.name) for field in fields(self))
        return sha256(cbor_bytes((_FORMAT, *map(_plain, values)))).digest()

    def expired(self, at: datetime) -> bool:
        """Return True if it has expired: ``expires_at <= at``."""
        return at >= self.expires_at

    @property
    def until(self) -> str:
        """Its end, RFC 3339."""
        return rfc3339_text(self.expires_at)


def _plain(value: CborValue | KeyName | datetime) -> CborValue:
    if isinstance(value, datetime):
        return rfc3339_text(value)
    return str(value) if isinstance(value, KeyName) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEnd:
    """The early end of a lease.

    Attributes:
        at: whole milliseconds.
        reason: ``superseded``: its holder has a newer one.
        log_seq: the log entry of the end.
    """

    lease_id: str
    at: datetime
    reason: str
    log_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStop:
    """An operator's stop: the lease is not renewed, and the key not released to that image on that machine again.

    Attributes:
        instance: this image on this machine, as of ``Attester``.
        at: whole milliseconds.
        log_seq: the log entry of the stop.
    """

    lease_id: str
    name: KeyName
    instance: bytes
    reason: str
    at: datetime
    log_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """A lease with its early end and the stop of its renewals, if any."""

    lease: Lease
    end: LeaseEnd | None
    stop: LeaseStop | None

    def live(self, at: datetime) -> bool:
        """Return True if it is neither expired nor ended."""
        return self.end is None and not self.lease.expired(at)

    def word(self, at: datetime) -> str:
        """Return its state in one word: ``superseded``, ``expired``, ``stopped`` or ``live``."""
        if self.end is not None:
            return self.end.reason
        if self.lease.expired(at):
            return "expired"
        return "live" if self.stop is None else "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFilter:
    """Filter of leases; every condition that is not None must hold.

    Attributes:
        policy_digest: released under this policy.
        product: on this line of processors, or this TEE.
        released_from: released at this moment or later.
        released_until: released at this moment or earlier.
        live: neither expired nor ended; False: these alone, None: all.
        stopped: with a stop standing against them.
    """

    tenant: str | None = None
    name: KeyName | None = None
    policy_digest: bytes | None = None
    measurement: bytes | None = None
    chip: str | None = None
    product: str | None = None
    released_from: datetime | None = None
    released_until: datetime | None = None
    live: bool | None = True
    stopped: bool = False
    lease_ids: tuple[str, ...] | None = None
