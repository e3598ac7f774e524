"""What a lease says: whom a version of a key was released to, on what proof, and until when it is meant to be used.

A lease binds the holder's word, not its memory: who was given a key has it. What ends with a lease is the promise to
give the key again (docs/releases.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from attest.encoding import rfc3339_text
from attest.release import KeyName

__all__ = [
    "LEASE_ID",
    "LEASE_ID_BYTES",
    "SUPERSEDED",
    "Attester",
    "Lease",
    "LeaseEnd",
    "LeaseFilter",
    "LeaseState",
    "LeaseStop",
]

LEASE_ID_BYTES: Final = 16
LEASE_ID: Final = re.compile(r"[0-9a-f]{32}")
SUPERSEDED: Final = "superseded"
"""Why a lease ended: its holder has a newer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attester:
    """Who proved itself, as far as leases tell one from another.

    Attributes:
        tee: kind of its silicon (``sev-snp``, ``tdx``, ``sgx``), or ``ear`` where a Verifier's word was taken.
        product: the line of its processor: AMD's name of it, or Intel's FMSPC in hex; None where nothing says.
        chip: which processor, ``amd:`` and CHIP_ID or ``intel:`` and PPID, in hex; None where it is masked.
        measurement: what was launched: MEASUREMENT, MRTD or MRENCLAVE.
        instance: 32 bytes over TEE, chip and measurement: this image on this machine.
        holder: 32 bytes over the instance and the key that it proved to have: whoever shows both is the same holder.
        recipient: SHA-256 of that key, 32 bytes.
        gpus: how many GPUs it proved.
        simulated: whether any of it rests on the simulator's roots.
        claims: everything that a policy may judge, as ``kms.domain.lease_claims`` writes it.
        claims_digest: SHA-256 of the claims, 32 bytes.
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
    claims: bytes
    claims_digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One version of one key, released to one holder until a moment.

    Attributes:
        lease_id: 128 random bits in lower-case hex.
        name: what the key is called.
        version: which version was released.
        policy_digest: SHA-256 of the policy that it was released under, 32 bytes.
        evidence_digest: SHA-384 of the evidence, 48 bytes.
        tee: as of ``Attester``, like all up to ``simulated``.
        product: likewise.
        chip: likewise.
        measurement: likewise.
        instance: likewise.
        holder: likewise.
        recipient: likewise.
        gpus: likewise.
        simulated: likewise.
        claims_digest: likewise.
        log_seq: number of the decision's entry of the log.
        released_at: when; whole milliseconds.
        expires_at: first moment at which it no longer counts; whole milliseconds.
        renewed_from: the lease that it takes the place of, or None.
    """

    lease_id: str
    name: KeyName
    version: int
    policy_digest: bytes
    evidence_digest: bytes
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
    log_seq: int
    released_at: datetime
    expires_at: datetime
    renewed_from: str | None

    def expired(self, at: datetime) -> bool:
        """Say whether it no longer counts: ``expires_at <= at``."""
        return at >= self.expires_at

    @property
    def until(self) -> str:
        """Its end, RFC 3339."""
        return rfc3339_text(self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEnd:
    """That a lease ended before its time.

    Attributes:
        lease_id: which.
        at: when; whole milliseconds.
        reason: ``superseded``: its holder has a newer one.
        log_seq: the entry of the log that says so.
    """

    lease_id: str
    at: datetime
    reason: str
    log_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStop:
    """That an operator will not have a lease renewed, and the key not released to that machine with that image again.

    Attributes:
        lease_id: which lease it was said of.
        name: which key.
        instance: this image on this machine, as of ``Attester``.
        reason: the operator's words.
        at: when; whole milliseconds.
        log_seq: the entry of the log that says so.
    """

    lease_id: str
    name: KeyName
    instance: bytes
    reason: str
    at: datetime
    log_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """A lease with what became of it.

    Attributes:
        lease: as it was granted.
        end: how it ended before its time, or None.
        stop: why it is not renewed, or None.
    """

    lease: Lease
    end: LeaseEnd | None
    stop: LeaseStop | None

    def live(self, at: datetime) -> bool:
        """Say whether its holder counts as one at this moment."""
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
    """Which leases are wanted: those for which every condition that is not None holds.

    Attributes:
        tenant: of this tenant's keys.
        name: of this key.
        policy_digest: released under this policy.
        measurement: to this image.
        chip: on this chip.
        product: on this line of processors, or this TEE.
        released_from: released at this moment or later.
        released_until: released at this moment or earlier.
        live: neither expired nor ended; False: these alone, None: all.
        stopped: with a stop standing against them.
        lease_ids: these.
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
