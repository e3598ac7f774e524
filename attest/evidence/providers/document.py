"""The machines of one document, each with its evidence and the keys that are stated beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeAlias

from attest.encoding import JsonValue
from attest.evidence.envelope import Evidence

Role: TypeAlias = Literal["gateway", "model", "router"]
GpuBinding: TypeAlias = Literal["nonce", "report-data", "hash", "none"]
"""The tie between the CPU and the GPUs: an equal nonce, a nonce that REPORT_DATA fixes, a hash of their evidence."""
KeyScope: TypeAlias = Literal["app", "machine"]
"""``app``: a key service gives the key to every machine of the application. ``machine``: made in it, as stated."""

MAX_MACHINES = 16
"""Machines in one document; recorded ones have up to seven."""
MAX_NAME_CHARACTERS = 48
"""So that a machine's items fit the names of an envelope."""


class StepFacts(NamedTuple):
    """The expected and the found side of a comparison that holds."""

    expected: str
    got: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentedMachine:
    """The parts of a machine's evidence that commit to others, read and not verified.

    Attributes:
        report_data: the 64 bytes of the CPU's report.
        gpu_nonces: name and request nonce of each GPU and switch.
        device_keys: name of each GPU and switch with the SHA-256 of the public key in its device certificate.
        cpu: the signed part of the CPU's report: its signature, and bytes behind it, can be written again.
        machine: the report without its report data, and the key of the platform that signed it: two quotes of one
            machine agree in both.
        witness: the second report of the machine, or None.
    """

    report_data: bytes
    cpu: bytes
    machine: bytes
    gpu_nonces: tuple[tuple[str, bytes], ...] = ()
    device_keys: tuple[tuple[str, bytes], ...] = ()
    witness: PresentedMachine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedKeys:
    """Keys that REPORT_DATA commits to, and no others.

    Attributes:
        address: the signing address as bytes.
        algorithm: of the signing key, ``ecdsa`` or ``ed25519``.
        public_key: the signing key, 64 bytes x ‖ y or 32 bytes.
        tls_spki_sha256: of the TLS key with which the machine answers.
        kem_public_key: ML-KEM-768.
        hpke_public_key: X25519.
    """

    address: bytes | None = None
    algorithm: str | None = None
    public_key: bytes | None = None
    tls_spki_sha256: bytes | None = None
    kem_public_key: bytes | None = None
    hpke_public_key: bytes | None = None

    def to_document(self) -> dict[str, JsonValue]:
        """Return the keys that are there, bytes in lower-case hex."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {n: v.hex() if isinstance(v, bytes) else v for n, v in values.items() if v is not None}


Comparison: TypeAlias = Callable[[], StepFacts]
"""One comparison; a refusal is a ``VerificationError``, or an ``EndorsementError`` where something is missing."""
StepName: TypeAlias = Literal["nonce", "binding", "keys", "gpus", "statements", "envelope"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Construction:
    """A machine's statements beside the evidence that commits to them.

    Attributes:
        comparisons: the comparison of each step that there is something to compare for.
        keys: keys that REPORT_DATA commits to, once the comparisons hold.
        claims: further facts that it commits to, once they hold.
    """

    comparisons: Mapping[StepName, Comparison]
    keys: CommittedKeys
    claims: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


class Commitment(Protocol):
    """The statements about one machine, of one family of documents."""

    @property
    def gpu_binding(self) -> GpuBinding:
        """The tie between CPU and GPUs when there are any."""
        ...

    @property
    def key_scope(self) -> KeyScope:
        """The scope of the keys."""
        ...

    @property
    def cautions(self) -> tuple[str, ...]:
        """Codes of what such a document does not prove."""
        ...

    def construct(self, presented: PresentedMachine, nonce: bytes | None) -> Construction:
        """Return the comparisons with a machine's evidence; without the client's nonce, fewer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedMachine:
    """One machine of a document. Nothing of it is trusted.

    Attributes:
        name: its instance id, or its number in the document.
        role: by its place in the document; nothing signed says it.
        evidence: the report or quote as ``cpu``, its GPUs and its event log.
        witness: a second report of the same machine for another purpose, or None.
    """

    name: str
    role: Role
    evidence: Evidence
    commitment: Commitment
    witness: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDocument:
    """One document of a service.

    Attributes:
        label: description of its form.
        cautions: codes of what it does not prove as a whole.
    """

    label: str
    machines: tuple[StatedMachine, ...]
    cautions: tuple[str, ...] = ()
