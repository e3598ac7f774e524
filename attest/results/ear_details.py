"""Our own extension of an EAR: digests that a Relying Party can demand, and an auditor can replay.

One claim, ``attest_kms_result`` in JSON and -76110 in CBOR, a map with a version. Its members have the same names in
both encodings; digests are base64url in JSON and byte strings in CBOR; times are whole seconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass

DETAILS_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRef:
    """A policy that judged.

    Attributes:
        digest: SHA-256 of its canonical JSON.
        references: SHA-256 over the reference values that counted for it; documents bring some that ``digest`` does not
            cover. None where the issuer does not say.
    """

    name: str
    version: int
    digest: bytes
    references: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliedOn:
    """An endorsement that the result rests on.

    Attributes:
        kind: ``vcek``, ``crl``, ``tcb-info``, ``rim``, ``ocsp`` and so on.
        sha256: of the document as it was received, where it was kept.
        begins: first second at which it counts, if it has one.
        ends: last or next-update second, if it has one.
        number: TCB evaluation data number, of Intel's documents.
    """

    kind: str
    item: str
    sha256: bytes | None = None
    begins: int | None = None
    ends: int | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundKey:
    """The binding of the evidence; ``key`` is the SHA-256 of the workload's public key as the binding holds it."""

    context: str
    role: str
    audience: str
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRef:
    """A check by its id, and the evidence item that it was about; None for the evidence as a whole."""

    check: str
    item: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """A check that was left out by decision, and the reason."""

    check: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TcbState:
    """The vendor's statement about a platform's TCB.

    Attributes:
        status: as the vendor states it (``UpToDate``).
        date: the date that the vendor gives the TCB level, seconds since 1970.
    """

    item: str
    status: str
    date: int | None = None
    advisories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EarDetails:
    """Everything that a result rests on, by digest.

    Attributes:
        simulated: true if any part rests on the simulator's roots; the result then proves nothing about hardware.
        affirmed: true if every policy affirmed. A relaxed check leaves this true and the status not affirming.
        freshness: ``matched``, or ``not evaluated``.
        ignored_items: names of evidence items from which nothing was concluded.
    """

    version: int = DETAILS_VERSION
    simulated: bool
    affirmed: bool
    freshness: str
    evidence: bytes
    policies: tuple[PolicyRef, ...]
    endorsements: tuple[ReliedOn, ...] = ()
    binding: BoundKey | None = None
    failed: tuple[CheckRef, ...] = ()
    not_evaluated: tuple[CheckRef, ...] = ()
    relaxed: tuple[Relaxation, ...] = ()
    tcb: tuple[TcbState, ...] = ()
    ignored_items: tuple[str, ...] = ()
