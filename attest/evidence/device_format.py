"""Evidence formats: the parsers of a format's items, its verification procedure and its claims.

The folder of a format states its rows in ``format.py``; ``attest.evidence.registry`` is the table of all folders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from attest.checks import Check, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import AttestError
from attest.evidence.claims import Claim
from attest.evidence.eventlog.kinds import LogKind
from attest.evidence.freshness import DEVICE_NONCE_BYTES
from attest.evidence.proof_chain import ProofLink
from attest.evidence.tolerances import DeviceTolerances


class VerifiedDevice(Protocol):
    """The result of every format's procedure."""

    @property
    def simulated(self) -> bool:
        """True for evidence under a root of the simulator."""
        ...

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check of the procedure."""
        ...


class VerifyDevice(Protocol):
    """A format's procedure: pure, and raising for everything that does not hold."""

    def __call__(
        self,
        parsed: Any,  # noqa: ANN401  what the same row's parse returned
        /,
        *,
        endorsements: Endorsements,
        anchors: TrustAnchors,
        at: datetime,
        unchecked: tuple[Unchecked, ...],
    ) -> VerifiedDevice:
        """Verify one device."""
        ...


class AuthenticatePeripheral(Protocol):
    """A look at the signature and the chain of refused evidence alone."""

    def __call__(
        self,
        parsed: Any,  # noqa: ANN401  what the same row's parse returned
        /,
        *,
        endorsements: Endorsements,
        anchors: TrustAnchors,
        at: datetime,
        unchecked: tuple[Unchecked, ...],
    ) -> object | None:
        """Return the device, or None."""
        ...


class VerifyTolerant(Protocol):
    """Verification of a device for which a policy can name deviations."""

    def __call__(
        self,
        parsed: Any,  # noqa: ANN401  what the same row's parse returned
        /,
        *,
        endorsements: Endorsements,
        anchors: TrustAnchors,
        at: datetime,
        unchecked: tuple[Unchecked, ...],
        tolerances: DeviceTolerances,
    ) -> VerifiedDevice:
        """Verify one device."""
        ...


class JudgeSet(Protocol):
    """Check across the devices of one format."""

    def __call__(
        self,
        devices: Sequence[tuple[str, Any]],  # what the row's ``verify`` or ``authenticate`` returned, by item names
        /,
        *,
        unchecked: tuple[Unchecked, ...],
    ) -> tuple[tuple[Check, ...], tuple[AttestError, ...]]:
        """Return a check for each rule, and an error for each check that failed."""
        ...


def _all_of_it(verified: VerifiedDevice) -> VerifiedDevice:
    return verified


def _no_chain(_: VerifiedDevice) -> tuple[ProofLink, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFormat:
    """One kind of device.

    Attributes:
        silicon: the part that the vendor's hardware signed: all of the evidence, unless a platform of the
            cloud is in between.
        chain: the links from the maker's root to the evidence, of what was verified.
    """

    kind: str
    claims: tuple[Claim, ...]
    silicon: Callable[[Any], VerifiedDevice] = _all_of_it  # Any: what the procedure of the same row returned
    chain: Callable[[Any], tuple[ProofLink, ...]] = _no_chain


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRegisters:
    """The registers to which the event log of such a machine leads.

    Attributes:
        read: the registers that the evidence states, by name, of what was parsed. They count once it is verified.
    """

    log: LogKind
    read: Callable[[Any], Mapping[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFormat(DeviceFormat):
    """One kind of CPU evidence.

    Attributes:
        report_data: the 64 bytes that the guest chose, of what was parsed.
        nonce: the field of its own in which such evidence carries the nonce, of what was parsed; None for a kind that
            carries it in its report data, left-aligned.
        registers: those to which an event log can replay; None for a kind without any.
        verify_tolerant: the procedure in place of ``verify`` where a policy can name deviations of such evidence.
        td_report: the report that dstack's log and statements are compared with, of what was parsed, as
            ``attest.evidence.tdx`` reads it; None for a kind that carries none.
    """

    report_data: Callable[[Any], bytes]  # Any: each row is about the parsed and verified types of its own package
    verify: VerifyDevice
    verify_tolerant: VerifyTolerant | None = None
    nonce: Callable[[Any], bytes] | None = None
    registers: MeasuredRegisters | None = None
    td_report: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFormat:
    """Parser for items of one CPU media type, and the kind of a parsed item."""

    parse: Callable[[bytes], Any]
    kind_of: Callable[[Any], CpuFormat]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeripheralFormat:
    """Parser and procedure for items of one media type of a device beside the CPU.

    Attributes:
        nonce: the request nonce, of what was parsed.
        nonce_bytes: the length of every nonce of such a device; None if it may have any.
        kind_of: the row for what was verified: only the device's certificates state its kind.
        authenticate: returns the device that signed refused evidence, to be judged with the others; None when
            signature or chain do not hold. Without it, refused devices are not judged together.
    """

    parse: Callable[[bytes], Any]
    nonce: Callable[[Any], bytes]
    verify: VerifyTolerant
    kind_of: Callable[[Any], DeviceFormat]
    judge_set: JudgeSet
    authenticate: AuthenticatePeripheral | None = None
    nonce_bytes: int | None = DEVICE_NONCE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatTable:
    """Formats of evidence.

    Attributes:
        cpus: evidence of CPUs by media type, in lower case and without parameters.
        peripherals: evidence of the other devices, in the same form.
    """

    kinds: tuple[DeviceFormat, ...]
    cpus: Mapping[str, MediaFormat] = field(default_factory=dict[str, MediaFormat])
    peripherals: Mapping[str, PeripheralFormat] = field(default_factory=dict[str, PeripheralFormat])

    def merged(self, *others: FormatTable) -> FormatTable:
        """Return these formats with others.

        Raises:
            ValueError: two of them read the same media type.
        """
        cpus, peripherals, kinds = dict(self.cpus), dict(self.peripherals), list(self.kinds)
        for other in others:
            twice = sorted({*cpus, *peripherals} & {*other.cpus, *other.peripherals})
            if twice:
                raise ValueError(f"two formats read {', '.join(twice)}")
            cpus |= other.cpus
            peripherals |= other.peripherals
            kinds += other.kinds
        return FormatTable(kinds=tuple(kinds), cpus=cpus, peripherals=peripherals)
